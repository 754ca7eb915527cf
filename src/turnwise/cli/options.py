"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from turnwise.errors import TurnwiseError


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
        help="Metrics, with commas between them: NAME, NAME:mode, NAME[key=value], as 'turnwise list' has them; "
        "or groups: default, classic, usr+, usl-h+, all.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Score by a composition of metrics too, as 'turnwise fit' writes it."),
]
Corpus = Annotated[
    str | None, typer.Option(metavar="NAME", help="Read an authors' release format; see 'turnwise list formats'.")
]
Map = Annotated[
    str | None,
    typer.Option(
        "--map",
        metavar="K=V,...",
        help="What the file calls our fields, for example response=reply,context=history.",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first row that cannot be used.")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of every resampling.")]
Models = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|DIR",
        help="A pack's name or folder, a folder with transformers models, or 'paper' for the papers' own; "
        "the bundled pack when left out. A pack with @int8 behind it computes in whole numbers, which is faster.",
    ),
]
Device = Annotated[Devices, typer.Option(help="Where models run; a pack runs on the CPU.")]
Cached = Annotated[
    str | None,
    typer.Option(
        "--cache",
        metavar="DIR|off",
        help="Where answers of models are kept for the next run, or 'off'; ~/.cache/turnwise when left out.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder for result.json, turns.parquet, systems.csv and the charts."),
]
Report = Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write a self-contained HTML report.")]
Printed = Annotated[Format, typer.Option("--format", "-f", help="How to print the result.")]
Qualities = Annotated[
    str | None,
    typer.Option(metavar="LIST", help="Rated qualities, with commas between them; all of them when left out."),
]


def parse_map(text: str | None) -> dict[str, str]:
    """`response=reply,context=history` as a mapping from our fields to the file's columns."""
    mapping: dict[str, str] = {}
    for item in (text or "").split(","):
        if not item.strip():
            continue
        field, equals, column = (part.strip() for part in item.partition("="))
        if not (field and equals and column):
            raise TurnwiseError(f"--map: '{item}' is not FIELD=COLUMN; write for example response=reply")
        mapping[field] = column
    return mapping
