"""The shapes: what a paper module declares, what filling it gives, and how that becomes JSON and comes back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from turnwise.errors import TurnwiseError
from turnwise.reproduce.published import Key, Printed, of_table

if TYPE_CHECKING:
    from turnwise.reproduce.room import Room
    from turnwise.stats.bootstrap import Interval

Look = Literal["points", "bars", "lines"]


@dataclass(frozen=True, slots=True)
class Ours:
    """A number that was computed here, or the reason why there is none. `how` names the metric as it is asked for.

    `beside` is a published number to set it beside, in a table that is not itself a published one.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    how: str = ""
    why_not: str = ""
    notes: tuple[str, ...] = ()
    beside: str = ""


def by_corpus(corpora: Iterable[str], cells_of: Callable[[str], Mapping[Key, Ours]]) -> dict[Key, Ours]:
    """Cells of one corpus after the other. What is wrong with one is a reason for its own cells, and for no others."""
    cells: dict[Key, Ours] = {}
    for corpus in corpora:
        try:
            cells |= cells_of(corpus)
        except TurnwiseError as problem:
            cells[_all_of(corpus)] = Ours(why_not=str(problem))
    return cells


def _all_of(corpus: str) -> Key:
    """A key that stands for every cell of a corpus."""
    return Key(corpus, "", "", "", "")


def ended(value: float | None, interval: Interval | None, n: int | None = None) -> Ours:
    """A number with its interval, where it has one."""
    low, high = (interval.low, interval.high) if interval else (None, None)
    return Ours(value, low, high, n)


@dataclass(frozen=True, slots=True)
class Cell:
    """A number of a table: ours, the published one, or the reason why ours cannot be computed."""

    key: Key
    ours: Ours
    published: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether ours is the published number to every digit that was printed."""
        if self.published is None or self.ours.value is None:
            return False
        # Some tables came to us without the zeros at the end of their numbers.
        decimals = max(len(self.published.partition(".")[2]), 2)
        return f"{self.ours.value:.{decimals}f}" == f"{float(self.published):.{decimals}f}"


@dataclass(frozen=True, slots=True)
class Table:
    """A filled table. `down` and `across` say which parts of a key make its rows and its columns."""

    paper: str
    number: str
    title: str
    down: tuple[str, ...]
    across: tuple[str, ...]
    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """A filled figure: rows to draw, each with x, y and a group, or the reason why there are none."""

    paper: str
    number: str
    title: str
    look: Look
    x: str
    y: str
    rows: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    why_not: str = ""


@dataclass(frozen=True)
class TableSpec:
    """A table as a paper module declares it. What `fill` does not give is not computable, because of `otherwise`."""

    paper: str
    number: str
    title: str
    fill: Callable[[Room], Mapping[Key, Ours]]
    down: tuple[str, ...] = ("metric",)
    across: tuple[str, ...] = ("quality", "level", "statistic")
    notes: tuple[str, ...] = ()
    otherwise: str = "the paper does not say enough of how it was made"

    def made(self, room: Room) -> Table:
        """The table, every published cell of it, and then what is ours alone."""
        found: Mapping[Key, Ours] = {}
        failed = ""
        try:
            found = self.fill(room)
        except TurnwiseError as problem:
            failed = str(problem)
        printed = of_table(self.paper, self.number)
        gone = {key.corpus: ours.why_not for key, ours in found.items() if key == _all_of(key.corpus)}
        found = {key: ours for key, ours in found.items() if key != _all_of(key.corpus)}
        absent = {one.key: Ours(why_not=gone.get(one.key.corpus) or failed or self.otherwise) for one in printed}
        cells = [_beside(one, found.get(one.key, absent[one.key])) for one in printed]
        known = {one.key for one in printed}
        cells += [Cell(key, ours, ours.beside or None) for key, ours in found.items() if key not in known]
        # Where nothing was published, no cell is there to give the reason.
        unsaid = [why for corpus, why in gone.items() if corpus not in {key.corpus for key in known}]
        unsaid += [failed] if failed and not printed else []
        notes = (*self.notes, *(f"Not computable, because {why}." for why in dict.fromkeys(unsaid)))
        return Table(self.paper, self.number, self.title, self.down, self.across, tuple(cells), notes)


@dataclass(frozen=True)
class FigureSpec:
    """A figure as a paper module declares it."""

    paper: str
    number: str
    title: str
    look: Look
    x: str
    y: str
    rows: Callable[[Room], Sequence[Mapping[str, Any]]]
    notes: tuple[str, ...] = ()

    def made(self, room: Room) -> Figure:
        """The figure, or why it cannot be drawn."""
        facts = (self.paper, self.number, self.title, self.look, self.x, self.y)
        try:
            return Figure(*facts, rows=tuple(self.rows(room)), notes=self.notes)
        except TurnwiseError as problem:
            return Figure(*facts, notes=self.notes, why_not=str(problem))


Spec = TableSpec | FigureSpec
Made = Table | Figure


@dataclass(frozen=True)
class Paper:
    """All that is reproduced of a paper."""

    name: str
    title: str
    specs: tuple[Spec, ...]
    notes: tuple[str, ...] = field(default=())


def _beside(printed: Printed, ours: Ours) -> Cell:
    return Cell(printed.key, ours, printed.text, (printed.note,) if printed.note else ())


def to_record(made: Made) -> dict[str, Any]:
    """A table or figure as JSON can hold it; numbers that JSON cannot hold become absent ones."""
    record: dict[str, Any] = _finite({"kind": "table" if isinstance(made, Table) else "figure", **asdict(made)})
    return record


def from_record(record: Mapping[str, Any]) -> Made:
    """What `to_record` gave."""
    facts = {name: value for name, value in record.items() if name not in ("kind", "cells", "rows")}
    for name in ("down", "across", "notes"):
        if name in facts:
            facts[name] = tuple(facts[name])
    if record["kind"] == "figure":
        return Figure(**facts, rows=tuple(record["rows"]))
    return Table(**facts, cells=tuple(_cell(cell) for cell in record["cells"]))


def _cell(record: Mapping[str, Any]) -> Cell:
    ours = dict(record["ours"]) | {"notes": tuple(record["ours"]["notes"])}
    key = record["key"]
    named = Key(**key) if isinstance(key, Mapping) else Key(*key)
    return Cell(named, Ours(**ours), record["published"], tuple(record["notes"]))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, Key):
        return value._asdict()
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
