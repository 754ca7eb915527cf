"""The commands around ratings: `metaeval`, `agreement`, `fit` and `select`; `perturb` and `normality`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli.options import (
    FILES_HELP,
    Files,
    Format,
    Metrics,
    Printed,
    Qualities,
    Systems,
    names_in,
    with_run_options,
)
from turnwise.errors import TurnwiseError
from turnwise.options import RunOptions


class Levels(StrEnum):
    """At which level metrics are correlated with ratings."""

    turn = "turn"
    dialogue = "dialogue"
    system = "system"
    all = "all"


@with_run_options()
def metaeval(
    files: Files,
    metrics: Metrics = "default",
    qualities: Qualities = None,
    exclude_system: Systems = None,
    level: Annotated[Levels, typer.Option(help="Correlate turns, dialogue means or system means.")] = Levels.turn,
    against: Annotated[
        str | None,
        typer.Option(metavar="METRIC", help="Also test whether the other metrics agree better or worse than this one."),
    ] = None,
    format: Printed = Format.table,
    *,
    options: RunOptions,
) -> None:
    """Correlate metrics with human ratings. How far can each metric be trusted?"""
    from turnwise.analyses.metaevaluate import metaevaluate
    from turnwise.cli import show

    with show.progress("scoring", options):
        result = metaevaluate(
            files,
            metrics,
            qualities=names_in(qualities),
            exclude_systems=exclude_system or (),
            level=level.value,
            against=against,
            **options,
        )
    show.remarks(result)
    show.meta(result, format)


@with_run_options("corpus", "map", "strict", "seed")
def agreement(
    files: Files, qualities: Qualities = None, format: Printed = Format.table, *, options: RunOptions
) -> None:
    """Measure how far the raters agree with each other. In every form that papers report."""
    from turnwise.analyses.agreement import agreement as run
    from turnwise.cli import show

    with show.working("comparing raters"):
        result = run(files, qualities=names_in(qualities), **options)
    show.remarks(result)
    show.agreement(result, format)


@with_run_options("corpus", "map", "strict", "seed", "models", "device", "cache")
def fit(
    files: Files,
    metrics: Metrics = "default",
    target: Annotated[str, typer.Option(metavar="QUALITY", help="The rated quality to fit to.")] = "Overall",
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
    exclude_system: Systems = None,
    save: Annotated[
        Path, typer.Option(metavar="FILE", help="Write the fitted metric, .toml or .json, for 'score --config'.")
    ] = Path("fitted.toml"),
    config: Annotated[Path | None, typer.Option(hidden=True)] = None,
    format: Printed = Format.table,
    *,
    options: RunOptions,
) -> None:
    """Fit weights for metrics to your own raters. Checked on contexts that were held out."""
    from turnwise.analyses.fit import fit as run
    from turnwise.cli import show

    save = show.renamed("--config", config, "--save", save) or save
    with show.progress("scoring", options):
        result = run(
            files,
            metrics,
            target=target,
            per_rater=per_rater,
            ridge=ridge,
            non_negative=non_negative,
            folds=folds,
            exclude_systems=exclude_system or (),
            save=save,
            **options,
        )
    show.remarks(result)
    show.fit(result, format)
    show.note(f"the fitted metric is '{result.metric.name}'; use it with: turnwise score FILE --config {save}")


@with_run_options(seed="Seed of the order of A and B.")
def select(
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE", help=FILES_HELP, show_default=False)] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="The metric that picks: NAME, NAME:mode, NAME[key=value].")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="NAME", help="A second metric, to be set against the first.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the picked rows as JSON Lines.")] = None,
    out: Annotated[Path | None, typer.Option(hidden=True)] = None,
    ballots: Annotated[
        Path | None, typer.Option(help="Write a CSV table for three voters, where the two metrics differ.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The JSON file that says which pick is whose; not for the voters.")
    ] = None,
    votes: Annotated[Path | None, typer.Option(help="Count filled-in ballots instead; needs --key.")] = None,
    format: Printed = Format.table,
    *,
    options: RunOptions,
) -> None:
    """Pick the best response to every context. Let voters decide between two metrics, and count their votes."""
    from turnwise.analyses.select import count_votes
    from turnwise.analyses.select import select as run
    from turnwise.cli import show

    save = show.renamed("--out", out, "--save", save)
    if votes is not None:
        if key is None or files or metric or against or ballots or save:
            raise TurnwiseError("--votes goes with --key alone; give the key that was written with the ballots")
        counted = count_votes(votes, key)
        show.notes(counted.notes)
        show.votes(counted, format)
        return
    if not files or metric is None:
        raise TurnwiseError("give files and --metric NAME to pick by, or --votes and --key to count votes")
    with show.progress("scoring", options):
        result = run(files, metric, against=against, save=save, ballots=ballots, key=key, **options)
    show.remarks(result)
    show.selection(result, format)
    if result.out is not None:
        show.note(f"the picked responses are in {result.out}")
    if result.files is not None:
        table, secret = result.files
        show.note(f"ballots for three voters: {table}; which pick is whose: {secret}")


@with_run_options("corpus", "map", "strict", "seed", "models", "device", "cache", seed="The first of the seeds.")
def perturb(
    files: Files,
    metrics: Metrics = "fbd,prd",
    transforms: Annotated[
        str, typer.Option(metavar="LIST", help="Comma-separated ways to corrupt an answer.")
    ] = "noise,mismatch,permutate,repeat",
    ratios: Annotated[str, typer.Option(metavar="LIST", help="Shares of corrupted answers.")] = "0,0.25,0.5,0.75,1",
    seeds: Annotated[int, typer.Option(min=1, help="Draws to average over.")] = 5,
    sample: Annotated[int, typer.Option(min=2, help="Answers to take at most.")] = 500,
    plot: Annotated[Path | None, typer.Option(help="Write the curves as .svg, .png or .json.")] = None,
    format: Printed = Format.table,
    *,
    options: RunOptions,
) -> None:
    """Corrupt reference answers gradually and plot each metric. Does it get worse with every step?"""
    from turnwise.analyses.distances import perturb as run
    from turnwise.analyses.targets import check_targets
    from turnwise.cli import show

    check_targets(files, files=[plot])
    shares = _numbers(ratios)
    with show.progress("scoring", options):
        result = run(
            files,
            metrics,
            transforms=names_in(transforms) or (),
            ratios=shares,
            seeds=seeds,
            sample=sample,
            **options,
        )
    show.remarks(result)
    if plot is not None:
        from turnwise.report.charts import perturb_chart
        from turnwise.report.drawing import save_chart

        save_chart(perturb_chart(result), plot)
        show.note(f"the curves are in {plot}")
    show.perturbation(result, format)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in names_in(text) or ()]
    except ValueError:
        raise TurnwiseError(f"--ratios: '{text}' is not a list of numbers; write for example 0,0.5,1") from None


@with_run_options("corpus", "map", "strict", "models", "device", "cache")
def normality(
    files: Files,
    metric: Annotated[str, typer.Option(help="The metric whose vectors are tested.")] = "fbd",
    format: Printed = Format.table,
    *,
    options: RunOptions,
) -> None:
    """Test the vectors behind a distance for normality. Dimension by dimension, by Shapiro and Wilk."""
    from turnwise.analyses.distances import normality as run
    from turnwise.cli import show

    with show.working("testing"):
        result = run(files, metric, **options)
    show.remarks(result)
    show.normality(result, format)
