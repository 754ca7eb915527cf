"""Arguments and options that several commands share, and the decorator that adds those of every run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from enum import Enum, StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from turnwise.errors import TurnwiseError


class EndedEarlyError(Exception):
    """End a command that was interrupted and has shown what it found so far."""


class Format(StrEnum):
    """How a result is printed."""

    table = "table"
    json = "json"
    csv = "csv"


class Devices(StrEnum):
    """Where models run."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


FILES_HELP = "Files, folders or globs; '-' reads standard input."
Files = Annotated[list[str], typer.Argument(metavar="FILE", help=FILES_HELP, show_default=False)]
Metrics = Annotated[
    str,
    typer.Option(
        "--metrics",
        "-m",
        metavar="LIST",
        help="Comma-separated metrics: NAME, NAME:mode, NAME[key=value], as 'turnwise list' has them; "
        "or groups: default, classic, usr+, usl-h+, all.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder for result.json, turns.parquet, systems.csv and the charts."),
]
Report = Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write a self-contained HTML report.")]
Summary = Annotated[
    Path | None, typer.Option(metavar="FILE.md", help="Write the verdict as Markdown, for a pull request.")
]
Printed = Annotated[Format, typer.Option("--format", "-f", help="How to print the result.")]
Qualities = Annotated[
    str | None, typer.Option(metavar="LIST", help="Comma-separated rated qualities; default: all of them.")
]
Systems = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Leave a system out. Repeatable.")]

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace output files that exist.")]

Cached = Annotated[
    str | None,
    typer.Option(
        metavar="DIR|off",
        help="Folder for the answers of models, kept for the next run, or 'off'; default: ~/.cache/turnwise.",
    ),
]

SEED = "Seed of every resampling."
# The options of every run, with their defaults, in the order in which the help lists them.
COMMON: dict[str, tuple[Any, Any]] = {
    "config": (
        Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="Score by a composition of metrics too, as 'turnwise fit' writes it."),
        ],
        None,
    ),
    "corpus": (
        Annotated[
            str | None,
            typer.Option(metavar="NAME", help="Read an authors' release format; see 'turnwise list formats'."),
        ],
        None,
    ),
    "map": (
        Annotated[
            str | None,
            typer.Option(
                metavar="K=V,...",
                help="Map turnwise fields to your columns, for example response=reply,context=history.",
            ),
        ],
        None,
    ),
    "strict": (Annotated[bool, typer.Option("--strict", help="Stop at the first row that cannot be used.")], False),
    "seed": (Annotated[int, typer.Option(min=0, metavar="N", help=SEED)], 0),
    "models": (
        Annotated[
            str | None,
            typer.Option(
                metavar="NAME|DIR",
                help="A pack's name or folder, a folder with transformers models, or 'paper' for the papers' own; "
                "default: the bundled pack. Append @int8 for faster integer arithmetic.",
            ),
        ],
        None,
    ),
    "device": (Annotated[Devices, typer.Option(help="Where models run; a pack runs on the CPU.")], Devices.auto),
    "cache": (Cached, None),
}
MODELS = ("models", "device", "cache")


def with_run_options(*names: str, seed: str = SEED) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds common options, all or those named, in place of the parameter `options`.

    The command gets them as keyword arguments of the library. `seed` is the help of `--seed`.
    """
    chosen = {name: COMMON[name] for name in names or COMMON}
    if "seed" in chosen:
        chosen["seed"] = (Annotated[int, typer.Option(min=0, metavar="N", help=seed)], 0)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            options = _library_options({name: given.pop(name) for name in chosen})
            command(**given, options=options)

        hints, kind = get_type_hints(command, include_extras=True), inspect.Parameter.KEYWORD_ONLY
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command).parameters.items():
            if name == "options":
                parameters += [
                    inspect.Parameter(common, kind, default=default, annotation=annotation)
                    for common, (annotation, default) in chosen.items()
                ]
            else:
                parameters.append(parameter.replace(kind=kind, annotation=hints[name]))
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _library_options(given: dict[str, Any]) -> dict[str, Any]:
    options = {name: value.value if isinstance(value, Enum) else value for name, value in given.items()}
    if "map" in options:
        options["mapping"] = parse_map(options.pop("map"))
    return options


def parse_map(text: str | None) -> dict[str, str]:
    """`response=reply,context=history` as a mapping from our fields to the file's columns."""
    mapping: dict[str, str] = {}
    for item in names_in(text) or ():
        field, equals, column = (part.strip() for part in item.partition("="))
        if not (field and equals and column):
            raise TurnwiseError(f"--map: '{item}' is not FIELD=COLUMN; write for example response=reply")
        mapping[field] = column
    return mapping


def names_in(text: str | None) -> list[str] | None:
    """Return the names of a comma-separated list.

    >>> names_in("a, b,"), names_in(None)
    (['a', 'b'], None)
    """
    return [name.strip() for name in text.split(",") if name.strip()] if text else None


def in_flags(text: str) -> str:
    """Return a message of the library with its `parameters` as options of the command line.

    >>> in_flags("`models`: give `mapping=K=V`, or leave out `exclude_systems`; `x` stays")
    '--models: give --map K=V, or leave out --exclude-system; `x` stays'
    """
    return re.sub(r"`([a-z_]+)(?:=([^`]+))?`", _flag, text)


def _flag(found: re.Match[str]) -> str:
    name, value = found.groups()
    flag = "--" + {"mapping": "map", "exclude_systems": "exclude-system"}.get(name, name.replace("_", "-"))
    return found[0] if flag not in _flags() else f"{flag} {value}" if value else flag


@cache
def _flags() -> frozenset[str]:
    """All options of all commands."""
    from turnwise.cli.app import app

    commands = [typer.main.get_command(app)]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
    return frozenset(option for command in commands for parameter in command.params for option in parameter.opts)
