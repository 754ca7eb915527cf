"""Which of our metrics stands for a published one: the most faithful that can be computed, and what still differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from turnwise.analyses.metaevaluate import MetaRow
from turnwise.reproduce.cells import Ours
from turnwise.reproduce.published import Key
from turnwise.reproduce.room import Room

Statistic = Literal["pearson", "spearman"]
STATISTICS: tuple[Statistic, ...] = ("pearson", "spearman")


@dataclass(frozen=True, slots=True)
class Stand:
    """One way to compute a metric, and what differs from the published one; `models` unless these are the papers'."""

    request: str
    differs: str = ""
    models: str = ""

    def said(self, room: Room) -> tuple[str, ...]:
        """What differs here, as footnotes."""
        return tuple(filter(None, (self.differs, "" if room.papers_models else self.models)))


Stands = Mapping[str, Sequence[Stand]]


def chosen(room: Room, ways: Sequence[Stand]) -> tuple[Stand | None, str]:
    """The first way that can be taken; else why not the last."""
    why = ""
    for way in ways:
        why = room.lacking(way.request)
        if not why:
            return way, ""
    return None, why


def correlations(
    room: Room,
    corpus: str,
    file: str | Path,
    stands: Stands,
    *,
    levels: Iterable[str] = ("turn",),
    qualities: Mapping[str, str] | None = None,
    exclude: Sequence[str] = (),
    absolute: bool = False,
) -> dict[Key, Ours]:
    """Correlations with people by every metric that can be computed, keyed as they were published.

    `qualities` maps what the paper calls a quality to the name in the file; without it all are taken as they are.
    """
    ways = {name: chosen(room, ways) for name, ways in stands.items()}
    requests = [way.request for way, _ in ways.values() if way]
    levels = tuple(levels)
    level = levels[0] if len(levels) == 1 else "all"
    found = room.meta(file, requests, exclude, level) if requests else {}
    named = qualities or {quality: quality for _, _, quality in found}
    cells: dict[Key, Ours] = {}
    for name, (way, why) in ways.items():
        for at in levels:
            for printed, quality in named.items():
                row = found.get((way.request, at, quality)) if way else None
                for statistic in STATISTICS:
                    cells[Key(corpus, at, printed, name, statistic)] = _ours(room, row, statistic, way, why, absolute)
    return cells


def _ours(room: Room, row: MetaRow | None, statistic: Statistic, way: Stand | None, why: str, absolute: bool) -> Ours:
    if way is None:
        return Ours(why_not=why)
    if row is None:
        return Ours(how=way.request, why_not="no row has both this rating and a score")
    value = getattr(row, statistic)
    if value is None:
        return Ours(how=way.request, n=row.n, why_not="scores or ratings do not vary")
    low, high = (row.spearman_low, row.spearman_high) if statistic == "spearman" and not absolute else (None, None)
    return Ours(abs(value) if absolute else value, low, high, row.n, way.request, notes=way.said(room))


def shipped(*requests: str) -> dict[str, tuple[Stand, ...]]:
    """Rows of our own, named as they are asked for."""
    return {f"{request} (ours)": (Stand(request),) for request in requests}
