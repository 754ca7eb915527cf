"""What was published: every number of the papers' tables, as data of the package (tools/published.py)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

COLLECTION = "dialevalmetrics"
FIELDS = ("corpus", "level", "quality", "metric", "statistic")


class Key(NamedTuple):
    """Name a number by what it measures."""

    corpus: str
    level: str
    quality: str
    metric: str
    statistic: str


@dataclass(frozen=True, slots=True)
class Printed:
    """Hold a printed number and a remark on it. `text` keeps the digits that were printed."""

    paper: str
    table: str
    key: Key
    text: str
    note: str

    @property
    def value(self) -> float:
        """Return the number."""
        return float(self.text)


@cache
def everything() -> tuple[Printed, ...]:
    """Return all published numbers, in the order of their tables."""
    text = files("turnwise.reproduce").joinpath("published.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return tuple(
        Printed(row["paper"], row["table"], Key(*(row[field] for field in FIELDS)), row["value"], row["note"])
        for row in rows
    )


def of_table(paper: str, table: str) -> tuple[Printed, ...]:
    """Return the numbers of one table."""
    return tuple(printed for printed in everything() if (printed.paper, printed.table) == (paper, table))
