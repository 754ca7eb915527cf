"""The command that asks anew: `augment`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli.options import (
    Cached,
    Corpus,
    Device,
    Devices,
    Files,
    Format,
    Map,
    Models,
    Printed,
    Strict,
    parse_map,
)
from turnwise.errors import TurnwiseError
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


def augment(
    files: Files,
    method: Annotated[
        Methods,
        typer.Option(help="WordNet synonyms, beams of a language model, or groups of unrelated queries."),
    ] = Methods.ws,
    out: Annotated[
        Path | None, typer.Option(help="Write the rows as JSON Lines; a bot's answers are kept here.")
    ] = None,
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
    corpus: Corpus = None,
    map: Map = None,
    strict: Strict = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of everything that is drawn.")] = 0,
    models: Models = None,
    device: Device = Devices.auto,
    cache: Cached = None,
) -> None:
    """Ask every query in other words. Write a file for a system to answer, or ask it and score its answers."""
    from turnwise.analyses.augment import augment as run
    from turnwise.analyses.evaluate import check_targets
    from turnwise.cli import show
    from turnwise.metrics.registry import split_list

    if bot is None and (report is not None or metrics is not None):
        raise TurnwiseError("--report and --metrics are for answers; add --bot, or score the answered file")
    check_targets(files, files=[out], report=report)
    try:
        with show.progress("asking") as tick:
            made = run(
                files,
                method.value,
                purpose=None if purpose is None else purpose.value,
                variants=variants,
                sense=sense.value,
                style=style.value,
                bot=bot,
                out=out,
                system=system,
                bot_model=bot_model,
                bot_key=bot_key,
                timeout=timeout,
                retries=retries,
                metrics=None if metrics is None else split_list(metrics),
                limit=limit,
                corpus=corpus,
                mapping=parse_map(map),
                strict=strict,
                seed=seed,
                models=models,
                device=device.value,
                cache=cache,
                progress=tick,
            )
    except KeyboardInterrupt:
        if bot is not None:
            show.note(f"interrupted; the answers so far are in {out}, and the same command goes on from there")
        raise
    show.problems(made.problems)
    show.notes(made.notes)
    if out is not None:
        show.note(f"{counted(len(made.rows), 'row')} written to {out}")
    if made.result is None:
        if bot is None and out is None:
            show.json_lines(made.lines())
        return
    show.problems(made.result.problems)
    if report is not None:
        with show.working("making the report"):
            made.result.report(report)
        show.note(f"report: {report}")
    show.scores(made.result, format.value)
