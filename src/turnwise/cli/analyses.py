"""The commands around ratings and replies: from `metaeval` and `fit` to `augment` and `perturb`."""

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
    Overwrite,
    Printed,
    Qualities,
    Systems,
    names_in,
    with_run_options,
)
from turnwise.cli.scoring import write_report
from turnwise.errors import TurnwiseError
from turnwise.options import RunOptions
from turnwise.problems import counted


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


Quality = Annotated[str | None, typer.Option(metavar="NAME", help="A rated quality; default: the overall one.")]


@with_run_options()
def plan(
    files: Files,
    difference: Annotated[
        float, typer.Option(metavar="D", help="The smallest difference that the experiment should find.")
    ],
    metrics: Metrics = "default",
    quality: Annotated[
        str | None, typer.Option(metavar="NAME", help="Plan for people's ratings of this quality, not for a metric.")
    ] = None,
    power: Annotated[float, typer.Option(metavar="P", help="The chance to find it.")] = 0.8,
    pairs: Annotated[int, typer.Option(min=1, metavar="N", help="Pairs of systems to compare at once.")] = 1,
    format: Printed = Format.table,
    *,
    options: RunOptions,
) -> None:
    """Say how many contexts and ratings find a difference. From a pilot file."""
    from turnwise.analyses.experiment import plan as run
    from turnwise.cli import show

    with show.progress("scoring the pilot", options):
        result = run(files, difference, metrics, quality=quality, power=power, pairs=pairs, **options)
    show.remarks(result)
    show.plan(result, format)


@with_run_options()
def sample(
    files: Files,
    labels: Annotated[int, typer.Option(min=1, metavar="N", help="How many replies of each system to rate.")],
    save: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="Write all rows, those to rate first, to be filled in.")
    ] = None,
    metrics: Metrics = "default",
    quality: Quality = None,
    format: Printed = Format.table,
    *,
    options: RunOptions,
) -> None:
    """Pick the replies that people should rate."""
    from turnwise.analyses.experiment import sample as run
    from turnwise.cli import show

    with show.progress("scoring", options):
        result = run(files, labels, metrics, quality=quality, save=save, **options)
    show.remarks(result)
    show.to_rate(result, format)
    if save is not None:
        show.note(f"rows are in {save}: fill in the ratings of the first {len(result.rows):,}, then score the file")


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
    overwrite: Overwrite = False,
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
            overwrite=overwrite,
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
    overwrite: Overwrite = False,
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
        result = run(
            files, metric, against=against, save=save, ballots=ballots, key=key, overwrite=overwrite, **options
        )
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


class Methods(StrEnum):
    """How a query is asked anew."""

    ws = "ws"
    ctg = "ctg"
    baseline = "baseline"


class Purposes(StrEnum):
    """What the answers are wanted for."""

    diversity = "diversity"
    consistency = "consistency"
    both = "both"


class Senses(StrEnum):
    """Which synonym is taken."""

    first = "first"
    random = "random"
    likely = "likely"


class Styles(StrEnum):
    """How a synonym is written."""

    repaired = "repaired"
    released = "released"


BOT_HELP = (
    "Ask a system under test: 'command:./my_bot --option' (one JSON line in, one out), 'python:MODULE:FUNCTION', an "
    "OpenAI-compatible address 'https://HOST/v1', or 'tfidf', 'dual-encoder' or 'lm', with options in brackets."
)


@with_run_options("corpus", "map", "strict", "seed", "models", "device", "cache", seed="Seed of everything drawn.")
def augment(
    files: Files,
    method: Annotated[
        Methods,
        typer.Option(help="WordNet synonyms, beams of a language model, or groups of unrelated queries."),
    ] = Methods.ws,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the rows as JSON Lines; a bot's answers are kept here.")
    ] = None,
    out: Annotated[Path | None, typer.Option(hidden=True)] = None,
    purpose: Annotated[
        Purposes | None,
        typer.Option(help="Queries in other words, or asked again after their answer; with a bot, both."),
    ] = None,
    variants: Annotated[int, typer.Option(min=1, help="Other ways to ask each query.")] = 4,
    sense: Annotated[
        Senses, typer.Option(help="ws: the first synonym, one at random, or the likeliest to the language model.")
    ] = Senses.first,
    style: Annotated[
        Styles, typer.Option(help="ws: synonyms in the form that the sentence needs, or bare as the authors released.")
    ] = Styles.repaired,
    bot: Annotated[str | None, typer.Option(help=BOT_HELP)] = None,
    bot_model: Annotated[str | None, typer.Option(help="The model to ask for at an HTTP address.")] = None,
    bot_key: Annotated[
        str, typer.Option(metavar="VARIABLE", help="Environment variable that holds the key for an HTTP address.")
    ] = "TURNWISE_BOT_KEY",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for an answer.")] = 60.0,
    retries: Annotated[int, typer.Option(min=0, help="How often a prompt that failed is asked again.")] = 2,
    system: Annotated[str | None, typer.Option(help="What to call the bot in the results.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Take only the first so many contexts.")] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics", "-m", metavar="LIST", help="Metrics of the answers; diversity and consistency if left out."
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a self-contained HTML report of the answers.")] = None,
    format: Printed = Format.table,
    *,
    options: RunOptions,
) -> None:
    """Ask every query in other words. Write a file for a system to answer, or ask it and score its answers."""
    from turnwise.analyses.augment import BotRunOptions
    from turnwise.analyses.augment import augment as run
    from turnwise.analyses.targets import check_targets
    from turnwise.cli import show
    from turnwise.metrics.registry import split_list

    save = show.renamed("--out", out, "--save", save)
    if bot is None and report is not None:
        raise TurnwiseError("--report is for answers; add --bot, or score the answered file")
    check_targets(files, files=[save], report=report)
    asked = BotRunOptions(**options, bot_model=bot_model, bot_key=bot_key, timeout=timeout, retries=retries)
    try:
        with show.progress("asking", asked):
            made = run(
                files,
                None if metrics is None else split_list(metrics),
                method=method.value,
                purpose=None if purpose is None else purpose.value,
                variants=variants,
                sense=sense.value,
                style=style.value,
                bot=bot,
                system=system,
                save=save,
                limit=limit,
                **asked,
            )
    except KeyboardInterrupt:
        if bot is not None:
            show.note(f"interrupted; the answers so far are in {save}, and the same command goes on from there")
        raise
    show.remarks(made)
    if save is not None:
        show.note(f"{counted(len(made.rows), 'row')} written to {save}")
    if made.result is None:
        if bot is None and save is None:
            show.json_lines(made.lines())
        return
    show.problems(made.result.problems)
    if report is not None:
        write_report(made.result, report)
    show.scores(made.result, format)
