"""The commands that adapt metrics to people and people's choices to metrics: `fit` and `select`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli.options import (
    FILES_HELP,
    Cached,
    Corpus,
    Device,
    Devices,
    Files,
    Format,
    Map,
    Metrics,
    Models,
    Printed,
    Seed,
    Strict,
    parse_map,
)
from turnwise.errors import TurnwiseError


def fit(
    files: Files,
    target: Annotated[str, typer.Option(metavar="QUALITY", help="The rated quality to fit to.")] = "Overall",
    metrics: Metrics = "default",
    per_rater: Annotated[
        bool, typer.Option("--per-rater", help="Fit every rater alone and average: each counts the same.")
    ] = False,
    ridge: Annotated[
        float, typer.Option(min=0, metavar="X", help="Penalty on squared weights, for metrics that overlap.")
    ] = 0.0,
    non_negative: Annotated[bool, typer.Option("--non-negative", help="Allow no weight below zero.")] = False,
    folds: Annotated[
        int, typer.Option(min=2, metavar="N", help="Parts of the contexts that are held out in turn.")
    ] = 10,
    exclude_system: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Leave a system out of the fit. Repeatable.")
    ] = None,
    config: Annotated[
        Path, typer.Option(help="Where to write the fitted metric, .toml or .json; 'score --config' takes it.")
    ] = Path("fitted.toml"),
    format: Printed = Format.table,
    corpus: Corpus = None,
    map: Map = None,
    strict: Strict = False,
    seed: Seed = 0,
    models: Models = None,
    device: Device = Devices.auto,
    cache: Cached = None,
) -> None:
    """Fit weights for metrics to your own raters. Checked on contexts that were held out."""
    from turnwise.analyses.fit import fit as run
    from turnwise.cli import show

    with show.progress("scoring") as tick:
        result = run(
            files,
            target,
            metrics,
            per_rater=per_rater,
            ridge=ridge,
            non_negative=non_negative,
            folds=folds,
            exclude_systems=exclude_system or (),
            config=config,
            corpus=corpus,
            mapping=parse_map(map),
            strict=strict,
            seed=seed,
            models=models,
            device=device.value,
            cache=cache,
            progress=tick,
        )
    show.problems(result.problems)
    show.notes(result.notes)
    show.fit(result, format.value)
    show.note(f"the fitted metric is '{result.metric.name}'; use it with: turnwise score FILE --config {config}")


def select(
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE", help=FILES_HELP, show_default=False)] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="The metric that picks: NAME, NAME:mode, NAME[key=value].")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="NAME", help="A second metric, to be set against the first.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the picked responses as JSON Lines.")] = None,
    ballots: Annotated[
        Path | None, typer.Option(help="Write a CSV table for three voters, where the two metrics differ.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The JSON file that says which pick is whose; not for the voters.")
    ] = None,
    votes: Annotated[Path | None, typer.Option(help="Count filled-in ballots instead; needs --key.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="A composition of metrics; --metric and --against may give its name.")
    ] = None,
    format: Printed = Format.table,
    corpus: Corpus = None,
    map: Map = None,
    strict: Strict = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the order of A and B.")] = 0,
    models: Models = None,
    device: Device = Devices.auto,
    cache: Cached = None,
) -> None:
    """Pick the best response to every context. Let voters decide between two metrics, and count their votes."""
    from turnwise.analyses.ballots import count_votes
    from turnwise.analyses.select import select as run
    from turnwise.cli import show

    if votes is not None:
        if key is None or files or metric or against or ballots or out:
            raise TurnwiseError("--votes goes with --key alone; give the key that was written with the ballots")
        counted = count_votes(votes, key)
        show.notes(counted.notes)
        show.votes(counted, format.value)
        return
    if not files or metric is None:
        raise TurnwiseError("give files and --metric NAME to pick by, or --votes and --key to count votes")
    with show.progress("scoring") as tick:
        result = run(
            files,
            metric,
            against=against,
            out=out,
            ballots=ballots,
            key=key,
            config=config,
            corpus=corpus,
            mapping=parse_map(map),
            strict=strict,
            seed=seed,
            models=models,
            device=device.value,
            cache=cache,
            progress=tick,
        )
    show.problems(result.problems)
    show.notes(result.notes)
    show.selection(result, format.value)
    if result.out is not None:
        show.note(f"the picked responses are in {result.out}")
    if result.files is not None:
        table, secret = result.files
        show.note(f"ballots for three voters: {table}; which pick is whose: {secret}")
