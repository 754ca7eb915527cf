"""Tables and figures: what a paper declares, the cells that fill it, and how they become JSON and come back."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, wraps
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np

from turnwise.analyses.metaevaluate import MetaRow
from turnwise.dialogue import Example
from turnwise.errors import TurnwiseError
from turnwise.reproduce.published import Key, Printed, of_table
from turnwise.reproduce.workspace import Workspace
from turnwise.stats.bootstrap import Interval, correlation_interval
from turnwise.stats.correlation import pearson, spearman
from turnwise.stats.regression import regress_by_rater

Look = Literal["points", "bars", "lines"]


@dataclass(frozen=True, slots=True)
class Ours:
    """Hold a number that was computed here, or the reason for none. `how` is the request for the metric.

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


Cells = dict[Key, Ours]


def by_corpus(corpora: Iterable[str]) -> Callable[[Callable[[Workspace, str], Cells]], Callable[[Workspace], Cells]]:
    """Return a decorator: the cells of one corpus become those of all, and an error costs only its own corpus."""
    names = tuple(corpora)

    def over_all(cells_of: Callable[[Workspace, str], Cells]) -> Callable[[Workspace], Cells]:
        @wraps(cells_of)
        def fill(space: Workspace) -> Cells:
            cells: Cells = {}
            for corpus in names:
                try:
                    cells |= cells_of(space, corpus)
                except TurnwiseError as problem:
                    cells[_all_of(corpus)] = Ours(why_not=str(problem))
            return cells

        return fill

    return over_all


def _all_of(corpus: str) -> Key:
    """Return a key that stands for every cell of a corpus."""
    return Key(corpus, "", "", "", "")


def ended(value: float | None, interval: Interval | None, n: int | None = None) -> Ours:
    """Return a number with its interval, if it has one."""
    low, high = (interval.low, interval.high) if interval else (None, None)
    return Ours(value, low, high, n)


def correlated(key: Key, left: Any, right: Any, clusters: Any, seed: int) -> Cells:
    """Return Pearson, and Spearman with its interval if there are clusters to resample."""
    interval = None if clusters is None else correlation_interval(left, right, clusters, seed=seed)
    return {
        key._replace(statistic="pearson"): Ours(pearson(left, right).value, n=len(left)),
        key._replace(statistic="spearman"): ended(spearman(left, right).value, interval, len(left)),
    }


def raters_cells(space: Workspace, corpus: str, file: str | Path, names: Mapping[str, str], *notes: str) -> Cells:
    """Return each rater against the mean of the others: the mean and the best of them, under these names."""
    return {
        Key(corpus, "human", row.quality, names[form.rpartition("-")[2]], statistic): Ours(
            row.value, row.low, row.high, row.n_items, notes=notes
        )
        for row in space.agreed(file)
        for form, _, statistic in [row.method.rpartition("-")]
        if form.startswith("leave-one-out")
    }


def rater_weights(panel: str, examples: Sequence[Example], qualities: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of a figure: the weight of each quality in the last one, by rater, through a softmax."""
    slots = max(len(one.ratings[qualities[-1]]) for one in examples)
    table = np.full((len(examples), slots, len(qualities)), np.nan)
    raters = np.full((len(examples), slots), None, dtype=object)
    for place, one in enumerate(examples):
        names = one.raters or tuple(f"slot {slot + 1}" for slot in range(slots))
        raters[place, : len(names)] = names
        for column, quality in enumerate(qualities):
            given = [np.nan if rating is None else rating for rating in one.ratings[quality]]
            table[place, : len(given), column] = given
    return [
        {"panel": panel, "x": quality, "y": share, "group": rater}
        for rater, fit in regress_by_rater(table[:, :, :-1], table[:, :, -1], raters).items() if fit
        for quality, share in zip(qualities[:-1], fit.shares, strict=True)
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """Hold a number of a table: ours, the published one, or the reason why ours cannot be computed."""

    key: Key
    ours: Ours
    published: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Return whether ours is the published number to every digit that was printed."""
        if self.published is None or self.ours.value is None:
            return False
        # Some tables came to us without the zeros at the end of their numbers.
        decimals = max(len(self.published.partition(".")[2]), 2)
        return f"{self.ours.value:.{decimals}f}" == f"{float(self.published):.{decimals}f}"


@dataclass(frozen=True, slots=True)
class Table:
    """Hold a filled table. `down` and `across` say which parts of a key make its rows and its columns."""

    paper: str
    number: str
    title: str
    down: tuple[str, ...] = ("metric",)
    across: tuple[str, ...] = ("quality", "level", "statistic")
    cells: tuple[Cell, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """Hold a filled figure: rows to draw, each with x, y and a group, or the reason for none."""

    paper: str
    number: str
    title: str
    look: Look
    x: str
    y: str
    rows: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    why_not: str = ""


Made = Table | Figure
UNSAID = "the paper does not say enough of how it was made"


@dataclass(frozen=True)
class Spec:
    """Declare a table or figure: an empty one, the function that fills it, and a reason for the cells it leaves out."""

    blank: Made
    fill: Callable[[Workspace], Any]
    otherwise: str = UNSAID

    def made(self, space: Workspace) -> Made:
        """Return the filled table or figure, with the reason for all that cannot be computed."""
        if isinstance(self.blank, Table):
            return self._table(self.blank, space)
        try:
            return replace(self.blank, rows=tuple(self.fill(space)))
        except TurnwiseError as problem:
            return replace(self.blank, why_not=str(problem))

    def _table(self, blank: Table, space: Workspace) -> Table:
        """Return the table: every published cell of it, then those that only we have."""
        found: Cells = {}
        failed = ""
        try:
            found = self.fill(space)
        except TurnwiseError as problem:
            failed = str(problem)
        printed = of_table(blank.paper, blank.number)
        gone = {key.corpus: ours.why_not for key, ours in found.items() if key == _all_of(key.corpus)}
        found = {key: ours for key, ours in found.items() if key != _all_of(key.corpus)}
        absent = {one.key: Ours(why_not=gone.get(one.key.corpus) or failed or self.otherwise) for one in printed}
        cells = [_beside(one, found.get(one.key, absent[one.key])) for one in printed]
        cells += [Cell(key, ours, ours.beside or None) for key, ours in found.items() if key not in absent]
        # A corpus without published numbers has no cell that could give the reason.
        unsaid = [why for corpus, why in gone.items() if corpus not in {key.corpus for key in absent}]
        unsaid += [failed] if failed and not printed else []
        notes = (*blank.notes, *(f"Not computable, because {why}." for why in dict.fromkeys(unsaid)))
        return replace(blank, cells=tuple(cells), notes=notes)


@dataclass(frozen=True)
class Paper:
    """Hold all tables and figures of a paper."""

    name: str
    title: str
    specs: tuple[Spec, ...]
    notes: tuple[str, ...] = ()
    version: str = "1"


Fill = Callable[..., Any]


def declared(name: str, fills: Mapping[str, Fill], **words: object) -> Paper:
    """Return the paper of papers.toml. `fills` compute its tables and figures by number, `words` complete texts."""
    of = _declarations()[name]
    texts = words | {key: text.format(**words) for key, text in of.get("texts", {}).items()}
    specs = [_spec(name, fills.get(one["number"], _nothing), one, texts) for one in of["made"]]
    if unknown := fills.keys() - {spec.blank.number for spec in specs}:
        raise ValueError(f"papers.toml: {name} has no {', '.join(unknown)}")
    return Paper(name, of["title"], tuple(specs), _filled(of.get("notes", ()), texts), of["version"])


def stands(paper: str, name: str) -> Stands:
    """Return the ways to compute a paper's metrics, by published name, the most faithful first (papers.toml)."""
    of = _declarations()[paper]
    return {
        metric: tuple(Stand(**{key: text.format(**of["texts"]) for key, text in way.items()}) for way in ways)
        for metric, ways in of["stands"][name].items()
    }


@cache
def _declarations() -> dict[str, Any]:
    return tomllib.loads(files("turnwise.reproduce").joinpath("papers.toml").read_text(encoding="utf-8"))


def _spec(paper: str, fill: Fill, one: Mapping[str, Any], texts: Mapping[str, object]) -> Spec:
    facts = {name: one[name] for name in ("number", "title", "look", "x", "y") if name in one}
    facts |= {name: tuple(one[name]) for name in ("down", "across") if name in one}
    kind = Figure if "look" in one else Table
    blank = kind(paper=paper, notes=_filled(one.get("notes", ()), texts), **facts)
    return Spec(blank, fill, one.get("otherwise", UNSAID).format(**texts))


def _filled(notes: Iterable[str], texts: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(note.format(**texts) for note in notes)


def _nothing(_: Workspace) -> Cells:
    """Return the cells of a table of which nothing can be computed."""
    return {}


def _beside(printed: Printed, ours: Ours) -> Cell:
    return Cell(printed.key, ours, printed.text, (printed.note,) if printed.note else ())


def to_record(made: Made) -> dict[str, Any]:
    """Return a table or figure as JSON can hold it; numbers that JSON cannot hold become absent ones."""
    record: dict[str, Any] = _finite({"kind": "table" if isinstance(made, Table) else "figure", **asdict(made)})
    return record


def from_record(record: Mapping[str, Any]) -> Made:
    """Return what `to_record` gave."""
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


Statistic = Literal["pearson", "spearman"]
STATISTICS: tuple[Statistic, ...] = ("pearson", "spearman")


@dataclass(frozen=True, slots=True)
class Stand:
    """Describe one way to compute a metric, and what differs from the published one; `models` says which for ours."""

    request: str
    differs: str = ""
    models: str = ""

    def said(self, space: Workspace) -> tuple[str, ...]:
        """Return what differs here, as footnotes."""
        return tuple(filter(None, (self.differs, "" if space.papers_models else self.models)))


Stands = Mapping[str, Sequence[Stand]]


def chosen(space: Workspace, ways: Sequence[Stand]) -> tuple[Stand | None, str]:
    """Return the first way that can be taken; else why not the last."""
    why = ""
    for way in ways:
        why = space.lacking(way.request)
        if not why:
            return way, ""
    return None, why


def correlations(
    space: Workspace,
    corpus: str,
    file: str | Path,
    stands: Stands,
    *,
    levels: Iterable[str] = ("turn",),
    qualities: Mapping[str, str] | None = None,
    exclude: Sequence[str] = (),
) -> Cells:
    """Return correlations with people for every metric that can be computed, by published key.

    `qualities` maps what the paper calls a quality to the name in the file; without it all are taken as they are.
    """
    ways = {name: chosen(space, ways) for name, ways in stands.items()}
    requests = [way.request for way, _ in ways.values() if way]
    levels = tuple(levels)
    level = levels[0] if len(levels) == 1 else "all"
    found = space.meta(file, requests, exclude, level) if requests else {}
    named = qualities or {quality: quality for _, _, quality in found}
    cells: Cells = {}
    for name, (way, why) in ways.items():
        for at in levels:
            for printed, quality in named.items():
                row = found.get((way.request, at, quality)) if way else None
                for statistic in STATISTICS:
                    cells[Key(corpus, at, printed, name, statistic)] = _ours(space, row, statistic, way, why)
    return cells


def _ours(space: Workspace, row: MetaRow | None, statistic: Statistic, way: Stand | None, why: str) -> Ours:
    if way is None:
        return Ours(why_not=why)
    if row is None:
        return Ours(how=way.request, why_not="no row has both this rating and a score")
    value = getattr(row, statistic)
    if value is None:
        return Ours(how=way.request, n=row.n, why_not="scores or ratings do not vary")
    low, high = (row.spearman_low, row.spearman_high) if statistic == "spearman" else (None, None)
    return Ours(value, low, high, row.n, way.request, notes=way.said(space))


def shipped(*requests: str) -> dict[str, tuple[Stand, ...]]:
    """Return ways for rows of our own, named by their requests."""
    return {f"{request} (ours)": (Stand(request),) for request in requests}
