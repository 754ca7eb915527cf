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
Files = Annotated[list[str], typer.Argument(help=FILES_HELP, show_default=False)]
Metrics = Annotated[
    str,
    typer.Option("--metrics", "-m", help="Comma-separated metrics or groups: NAME, NAME:mode, NAME[key=value]."),
]
Config = Annotated[
    Path | None, typer.Option(help="Score by a composition of metrics too, as 'turnwise fit' writes it.")
]
Corpus = Annotated[str | None, typer.Option(help="Read an authors' release format; see 'turnwise list formats'.")]
Map = Annotated[
    str | None,
    typer.Option("--map", help="Columns by field: response=reply,context=history,ratings.Overall=score."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first row that cannot be used.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every resampling.")]
Models = Annotated[str | None, typer.Option(help="A pack's name or folder, or 'paper' for the papers' own models.")]
Device = Annotated[Devices, typer.Option(help="Where models run; a pack runs on the CPU.")]
Cached = Annotated[str | None, typer.Option("--cache", help="Folder of the cache of model answers, or 'off'.")]
Out = Annotated[Path | None, typer.Option(help="Folder for result.json, turns.parquet, systems.csv and the charts.")]
Report = Annotated[Path | None, typer.Option(help="Write a self-contained HTML report.")]
Printed = Annotated[Format, typer.Option("--format", "-f", help="How to print the result.")]
Qualities = Annotated[str | None, typer.Option(help="Comma-separated rated qualities; all of them when left out.")]


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
