"""The command that asks anew: `augment`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli.options import Files, Format, Printed, with_run_options
from turnwise.cli.scoring import write_report
from turnwise.errors import TurnwiseError
from turnwise.options import RunOptions
from turnwise.wording import counted


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
