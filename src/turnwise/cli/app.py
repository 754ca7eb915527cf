"""Every command of `turnwise`, one function each; heavy imports wait until a command runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from turnwise import interrupts
from turnwise.cli import analyses, models, scoring
from turnwise.cli.options import EndedEarlyError, Format, Printed
from turnwise.errors import TurnwiseError

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


# The status that newer versions of typer give an interrupt that no command has caught.
INTERRUPTED = 130


def run() -> int:
    """Run the command that was typed; a misuse is said in one line, like every other problem."""
    try:
        status = int(app(standalone_mode=False) or 0)
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        return status
    except EndedEarlyError:
        return interrupts.status()
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


# In the order in which the help lists them.
for command in (scoring.score, scoring.merge, scoring.verify, scoring.compare, analyses.metaeval, analyses.agreement):
    app.command()(command)


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
        listing.format_list(format)
    elif what is Listed.models:
        listing.model_list(format, models)
    else:
        listing.metric_list(format, models)


for command in (
    analyses.plan,
    analyses.sample,
    analyses.fit,
    analyses.select,
    analyses.augment,
    analyses.perturb,
    analyses.normality,
    models.reproduce,
    models.train,
):
    app.command()(command)
app.add_typer(models.pack, name="pack")
app.add_typer(models.data, name="data")
