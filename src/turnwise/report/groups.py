"""Groups of replies with their values, and pairs of turns that contradict each other: both as plain records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from turnwise.metrics.consistency import pairs_of
from turnwise.report.digest import Digest, Turn
from turnwise.report.labels import ARROWS, DIRECTIONS, number, one_line
from turnwise.report.tables import shortened

# More groups or pairs than these nobody reads in a page; the result's JSON has all of them.
MOST_GROUPS = 200
MOST_PAIRS = 12
# From here on a contradiction is more probable than not.
PROBABLE = 0.5


@dataclass(frozen=True)
class Reply:
    """What one system answered to one way of asking."""

    system: str
    system_number: int
    query: str
    text: str


@dataclass(frozen=True)
class Column:
    """What one metric says of one system's groups."""

    metric: str
    arrow: str
    direction: str
    system: str
    system_number: int


@dataclass(frozen=True)
class GroupRow:
    """One group: its values, column by column, and its replies."""

    name: str
    values: list[float | None]
    texts: list[str]
    replies: list[Reply]


@dataclass(frozen=True)
class GroupTable:
    """The groups, those with the lowest values of the first metric first."""

    columns: list[Column]
    rows: list[GroupRow]
    total: int


def group_table(found: Digest) -> GroupTable | None:
    """What every metric that judges groups says of every group; None where no metric does."""
    keys = [key for key in found.metrics if found.levels[key] == "group"]
    columns = [
        Column(key, ARROWS[found.better[key]], DIRECTIONS[found.better[key]], system, place)
        for key in keys
        for place, system in enumerate(found.systems)
    ]
    replies = _replies(found) if columns else {}
    names = dict.fromkeys(group for group, _ in found.groups) if columns else {}
    rows = [_row(found, columns, name, replies.get(name, [])) for name in names]
    known = [row for row in rows if any(value is not None for value in row.values)]
    if not known:
        return None
    known.sort(key=lambda row: _mean(row.values[: len(found.systems)]))
    return GroupTable(columns, known[:MOST_GROUPS], len(known))


def _mean(values: Sequence[float | None]) -> float:
    """Of the values that are known; groups without one come last."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else math.inf


def _row(found: Digest, columns: Sequence[Column], name: str, replies: list[Reply]) -> GroupRow:
    values = [found.groups.get((name, column.system), {}).get(column.metric) for column in columns]
    texts = [number(value, found.places[column.metric]) for value, column in zip(values, columns, strict=True)]
    return GroupRow(one_line(name), values, texts, replies)


def _replies(found: Digest) -> dict[str, list[Reply]]:
    by_group: dict[str, list[Reply]] = {}
    for turn in found.turns:
        example = turn.example
        if example.group is not None:
            query = shortened(example.context[-1]) if example.context else ""
            reply = Reply(found.systems[turn.system], turn.system, query, shortened(example.response))
            by_group.setdefault(example.group, []).append(reply)
    return by_group


@dataclass(frozen=True)
class Pair:
    """Two turns of one speaker, and how probably the later contradicts the earlier."""

    id: str
    system: str
    system_number: int
    earlier: str
    between: list[str]
    later: str
    chance: str


@dataclass(frozen=True)
class Contradictions:
    """The most probable contradictions, of all pairs that a metric compared."""

    metric: str
    pairs: list[Pair]
    compared: int
    probable: int


def contradictions(found: Digest) -> Contradictions | None:
    """What the metric that compared most pairs of turns found; None where none did."""
    by_metric = {
        key: [(chance, place, turn) for turn in found.turns for place, chance in pairs_of(turn.scores[key])]
        for key in found.metrics
    }
    key = max(by_metric, key=lambda metric: len(by_metric[metric]), default="")
    if not key or not by_metric[key]:
        return None
    compared = by_metric[key]
    worst = sorted(compared, key=lambda item: -item[0])[:MOST_PAIRS]
    probable = sum(chance >= PROBABLE for chance, _, _ in compared)
    return Contradictions(key, [_pair(found, *item) for item in worst], len(compared), probable)


def _pair(found: Digest, chance: float, place: int, turn: Turn) -> Pair:
    context = turn.example.context
    return Pair(
        one_line(turn.row.id),
        found.systems[turn.system],
        turn.system,
        shortened(context[place]),
        [shortened(text) for text in context[place + 1 :]],
        shortened(turn.example.response),
        number(chance, 2),
    )
