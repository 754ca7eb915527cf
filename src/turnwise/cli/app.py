"""Every command of `turnwise`, one function each; heavy imports wait until a command runs."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import adapt, distances
from turnwise.cli import augment as ask_anew
from turnwise.cli import data as data_commands
from turnwise.cli import models as model_commands
from turnwise.cli import reproduce as again
from turnwise.cli.options import (
    Cached,
    Config,
    Corpus,
    Device,
    Devices,
    Files,
    Format,
    Map,
    Metrics,
    Models,
    Out,
    Printed,
    Qualities,
    Report,
    Seed,
    Strict,
    parse_map,
)
from turnwise.errors import TurnwiseError

if TYPE_CHECKING:
    from turnwise.analyses.gate import Gate
    from turnwise.metrics.composite import CompositeMetric

app = typer.Typer(
    name="turnwise",
    help="Is this reply any good, and how sure are we? Automatic evaluation of open-domain dialogue.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # square brackets in our help are our own, not markup
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Begin with: turnwise score FILE.jsonl --report report.html. 'turnwise COMMAND --help' says more.",
)


# The status of a command that was interrupted, which is part of the interface.
INTERRUPTED = 130


def run() -> int:
    """Run the command that was typed; a misuse is said in one line, like every other problem."""
    try:
        status = int(app(standalone_mode=False) or 0)
        # Newer versions of typer make a status of an interrupt that no command has caught.
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        return status
    except typer.Abort:
        raise KeyboardInterrupt from None
    except SystemExit as end:
        # Typer makes a status of a reader that has gone: that of a failed gate.
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        # No command ends like this, so its status says nothing of the result.
        raise TurnwiseError(f"SystemExit({end.code!r}) ended the command. Fix: mend or remove the plugin") from None
    except Exception as problem:
        # Typer does not export the base class of its usage errors; this is the method that they share.
        if not hasattr(problem, "format_message"):
            raise
        # A command without anything behind it: help, as a person reads it.
        if type(problem).__name__ == "NoArgsIsHelpError":
            typer.echo(problem.format_message(), err=True)
            return 2
        message = " ".join(problem.format_message().split()).rstrip(".").replace("Value error, ", "")
        # The help that helps is that of the command which was misused.
        context = getattr(problem, "ctx", None)
        path = (
            [] if context is None else context.command_path.split()[context.find_root().command_path.count(" ") + 1 :]
        )
        raise TurnwiseError(f"{message}; see '{' '.join(['turnwise', *path])} --help'") from None


class Engines(StrEnum):
    """What does the work."""

    local = "local"
    ray = "ray"


class Levels(StrEnum):
    """At which level metrics are correlated with ratings."""

    turn = "turn"
    dialogue = "dialogue"
    system = "system"
    all = "all"


class Listed(StrEnum):
    """What `turnwise list` lists."""

    metrics = "metrics"
    models = "models"
    formats = "formats"


def _version(asked: bool) -> None:
    if asked:
        from turnwise import __version__

        typer.echo(f"turnwise {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def score(
    files: Files,
    metrics: Metrics = "default",
    config: Config = None,
    out: Out = None,
    report: Report = None,
    format: Printed = Format.table,
    corpus: Corpus = None,
    map: Map = None,
    strict: Strict = False,
    seed: Seed = 0,
    models: Models = None,
    device: Device = Devices.auto,
    cache: Cached = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Score one of N parts; 'turnwise merge' puts them together.")
    ] = None,
    engine: Annotated[
        Engines, typer.Option(help="Where the work is done: here, or on the Ray cluster that RAY_ADDRESS names.")
    ] = Engines.local,
) -> None:
    """Score every response, dialogue and system of one or more files."""
    from turnwise.cli import scoring

    chosen = {"config": config, "corpus": corpus, "mapping": parse_map(map), "strict": strict}
    chosen |= {"models": models, "device": device.value, "cache": cache}
    scoring.score(
        files,
        metrics,
        chosen,
        out=out,
        report=report,
        form=format.value,
        seed=seed,
        shard=shard,
        engine=engine.value,
    )


@app.command()
def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="The --out folders of all shards.", show_default=False)
    ],
    out: Out = None,
    report: Report = None,
    format: Printed = Format.table,
    seed: Seed = 0,
) -> None:
    """Put the shards of a run together. The result is exactly what one run would have given."""
    from turnwise.cli import scoring

    scoring.merge(folders, out=out, report=report, form=format.value, seed=seed)


@app.command()
def compare(
    files: Files,
    metrics: Metrics = "default",
    config: Config = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="SYSTEM", help="Compare every other system with this one instead of every pair."),
    ] = None,
    fail_if_worse: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC@MARGIN",
            help="Exit with 1 if a system is worse than the baseline by more than the margin. Repeatable.",
        ),
    ] = None,
    format: Printed = Format.table,
    corpus: Corpus = None,
    map: Map = None,
    strict: Strict = False,
    seed: Seed = 0,
    models: Models = None,
    device: Device = Devices.auto,
    cache: Cached = None,
) -> None:
    """Say which systems differ, by how much, and how surely. Gate a release on it."""
    from turnwise.analyses.compare import compare as run
    from turnwise.analyses.config import load_config
    from turnwise.cli import show
    from turnwise.metrics.registry import split_list

    composite = None if config is None else load_config(config)
    gates = [_parse_gate(text, composite) for text in fail_if_worse or ()]
    for gate in gates:
        gate.check_direction()
    if gates and baseline is None:
        raise TurnwiseError("--fail-if-worse needs a baseline to be worse than; add --baseline SYSTEM")
    wanted = split_list(metrics)
    if metrics == "default" and gates:
        wanted = []
    wanted += [gate.metric for gate in gates if gate.metric not in wanted]
    with show.progress("comparing") as tick:
        result = run(
            files,
            metrics=wanted,
            config=composite,
            baseline=baseline,
            corpus=corpus,
            mapping=parse_map(map),
            strict=strict,
            seed=seed,
            models=models,
            device=device.value,
            cache=cache,
            progress=tick,
        )
    failures, unchecked = list[str](), None
    try:
        failures = [line for gate in gates for line in gate.failures(result)]
    except TurnwiseError as problem:
        # Said last, after all that shows what to mend.
        unchecked = problem
    try:
        show.problems(result.problems)
        show.notes(result.notes)
        show.comparison(result, format.value)
        for line in failures:
            show.note(f"gate failed: {line}")
    except OSError:
        # Whether or not anybody reads it, a gate that failed has failed.
        if not failures:
            raise
    if unchecked is not None:
        raise unchecked
    if failures:
        raise typer.Exit(1)


@app.command()
def metaeval(
    files: Files,
    metrics: Metrics = "default",
    config: Config = None,
    qualities: Qualities = None,
    exclude_system: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Leave a system out of the correlations. Repeatable."),
    ] = None,
    level: Annotated[Levels, typer.Option(help="Correlate turns, dialogue means or system means.")] = Levels.turn,
    against: Annotated[
        str | None,
        typer.Option(metavar="METRIC", help="Also test whether the other metrics agree better or worse than this one."),
    ] = None,
    format: Printed = Format.table,
    corpus: Corpus = None,
    map: Map = None,
    strict: Strict = False,
    seed: Seed = 0,
    models: Models = None,
    device: Device = Devices.auto,
    cache: Cached = None,
) -> None:
    """Correlate metrics with human ratings. How far can each metric be trusted?"""
    from turnwise.analyses.metaevaluate import metaevaluate
    from turnwise.cli import show

    with show.progress("scoring") as tick:
        result = metaevaluate(
            files,
            metrics,
            config=config,
            qualities=_names(qualities),
            exclude_systems=exclude_system or (),
            level=level.value,
            against=against,
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
    show.meta(result, format.value)


@app.command()
def agreement(
    files: Files,
    qualities: Qualities = None,
    format: Printed = Format.table,
    corpus: Corpus = None,
    map: Map = None,
    strict: Strict = False,
    seed: Seed = 0,
) -> None:
    """Say how far the raters agree with each other. In every form that papers report."""
    from turnwise.analyses.agree import agreement as run
    from turnwise.cli import show

    with show.working("comparing raters"):
        result = run(
            files,
            qualities=_names(qualities),
            corpus=corpus,
            mapping=parse_map(map),
            strict=strict,
            seed=seed,
        )
    show.problems(result.problems)
    show.notes(result.notes)
    show.agreement(result, format.value)


@app.command("list")
def list_(
    what: Annotated[Listed, typer.Argument(help="What to list.")] = Listed.metrics,
    format: Printed = Format.table,
    models: Annotated[
        str | None,
        typer.Option(metavar="NAME|DIR", help="Say which metrics these models can answer, or list their roles."),
    ] = None,
) -> None:
    """List the metrics, the models behind them, or file formats."""
    from turnwise.cli import listing

    if what is Listed.formats:
        if models is not None:
            raise TurnwiseError("--models goes with 'turnwise list metrics' and 'turnwise list models'")
        listing.format_list(format.value)
    elif what is Listed.models:
        listing.model_list(format.value, models)
    else:
        listing.metric_list(format.value, models)


def _names(text: str | None) -> list[str] | None:
    return [name.strip() for name in text.split(",") if name.strip()] if text else None


def _parse_gate(text: str, composite: CompositeMetric | None) -> Gate:
    from turnwise.analyses.gate import Gate

    metric, at, margin = text.rpartition("@")
    composed = composite if composite is not None and composite.name == metric else None
    try:
        if not at or not 0 <= float(margin) < math.inf:
            raise ValueError
        return Gate(metric, float(margin), composed)
    except ValueError:
        raise TurnwiseError(
            f"--fail-if-worse: '{text}' is not METRIC@MARGIN with a margin of 0 or more; write for example f1@0.02"
        ) from None


# In the order in which the help lists them.
app.command()(adapt.fit)
app.command()(adapt.select)
app.command()(ask_anew.augment)
app.command()(distances.perturb)
app.command()(distances.normality)
app.command()(again.reproduce)
app.command()(model_commands.train)
app.add_typer(model_commands.pack, name="pack")
app.add_typer(model_commands.data, name="data")
model_commands.data.command("list")(data_commands.list_corpora)
model_commands.data.command("get")(data_commands.get)
model_commands.data.command("decontaminate")(model_commands.decontaminate_files)
