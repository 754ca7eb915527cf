"""The tables of the page, as plain records that the template walks through."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from turnwise.metrics.holistic import pairs_of
from turnwise.problems import counted
from turnwise.report.digest import Digest, Turn, file_name
from turnwise.report.heat import Heats, level, most_surprising, shown_step
from turnwise.report.labels import ARROWS, DIRECTIONS, decimals, interval, number, one_line, printable
from turnwise.report.words import leader
from turnwise.stats.decisions import mean_evidence

# Turns shown at each end of a metric, and of long texts the part that is shown.
ENDS = 3
MOST_CHARACTERS = 4000
TITLES = {True: ("Worst", "Best"), False: ("Best", "Worst"), None: ("Lowest", "Highest")}
# More groups or pairs than these nobody reads in a page; the result's JSON has all of them.
MOST_GROUPS = 200
MOST_PAIRS = 12
# From here on a contradiction is more probable than not.
PROBABLE = 0.5


@dataclass(frozen=True)
class Column:
    """A column: a metric, or a rated quality, of all systems or of one."""

    name: str
    arrow: str = ""
    direction: str = "mean rating"
    system: str = ""


def _columns(found: Digest, keys: Iterable[str], systems: Sequence[str] = ("",)) -> list[Column]:
    better = found.better
    return [Column(key, ARROWS[better[key]], DIRECTIONS[better[key]], one) for key in keys for one in systems]


@dataclass(frozen=True)
class SystemCell:
    """A value, its interval and whether it is clearly the best of its column."""

    value: float | None
    text: str
    interval: str
    best: bool = False


@dataclass(frozen=True)
class SystemRow:
    """One system, and how many turns or dialogues its values rest on."""

    name: str
    n: int
    cells: list[SystemCell]


@dataclass(frozen=True)
class SystemTable:
    """Systems down, metrics or rated qualities across."""

    title: str
    unit: str
    columns: list[Column]
    rows: list[SystemRow]


def metric_table(found: Digest) -> SystemTable:
    """Return what the metrics say of every system."""
    rows = [SystemRow(system, found.sizes[system], _metric_cells(found, system)) for system in found.systems]
    return SystemTable("Systems", "Turns", _columns(found, found.metrics), rows)


def made_of(found: Digest) -> list[tuple[str, str, str]]:
    """Return what the values of whole systems rest on: system, metric, facts."""
    return [
        (system, key, value.made_of)
        for key in found.metrics
        for system in found.systems
        if (value := found.values.get((system, key))) is not None and value.made_of
    ]


def rating_table(found: Digest) -> SystemTable:
    """Return what people said of every system; a dialogue that was rated as a whole counts once."""
    sizes = np.bincount(found.rated.systems, minlength=len(found.systems)).tolist()
    rows = [
        SystemRow(system, size, _rating_cells(found, place))
        for place, (system, size) in enumerate(zip(found.systems, sizes, strict=True))
    ]
    return SystemTable("Mean ratings", f"Rated {found.rated.unit}s", list(map(Column, found.qualities)), rows)


def _metric_cells(found: Digest, system: str) -> list[SystemCell]:
    cells = []
    for key in found.metrics:
        value, first = found.values.get((system, key)), leader(found, key)
        best = first is not None and first.clear and first.system == system
        low, high = (value.low, value.high) if value else (None, None)
        cells.append(_cell(value.value if value else None, low, high, found.places[key], best=best))
    return cells


def _rating_cells(found: Digest, place: int) -> list[SystemCell]:
    mine = found.rated.systems == place
    table = np.column_stack([values[mine] for values in found.rated.ratings.values()])
    cells = []
    for values in table.T:
        evidence = mean_evidence(values, found.rated.clusters[mine])
        ends = evidence.interval() if evidence else None
        present = values[~np.isnan(values)]
        mean = float(present.mean()) if present.size else None
        low, high = (ends.low, ends.high) if ends else (None, None)
        cells.append(_cell(mean, low, high, min(2, decimals(present.tolist()))))
    return cells


def _cell(value: float | None, low: float | None, high: float | None, places: int, *, best: bool = False) -> SystemCell:
    # A dash beside a minus sign reads as two of either.
    between = "\u2009\u2013\u2009" if low is None or low >= 0 else "\u00a0to\u00a0"
    return SystemCell(value, number(value, places), interval(low, high, places, between), best)


@dataclass(frozen=True)
class Quote:
    """A turn as it is quoted among the best and worst."""

    id: str
    system: str
    score: str
    context: list[str]
    earlier: int
    response: str
    reference: str | None
    heat: list[Shade]
    most_surprising: str


@dataclass(frozen=True)
class Shade:
    """A piece of a response, its step of colour and its number; neither for what was not judged."""

    text: str
    level: int = 0
    cost: str = ""


@dataclass(frozen=True)
class End:
    """The turns at one end of a metric, and how many more have the score of the first."""

    title: str
    turns: list[Quote]
    ties: str


@dataclass(frozen=True)
class Ends:
    """The turns at both ends of a metric, the worst or the lowest first."""

    metric: str
    arrow: str
    steps: list[str]
    sides: list[End]


def ends(found: Digest, heats: Heats) -> list[Ends]:
    """Return the worst and the best turns of every metric; the lowest and the highest where it has no direction."""
    tables = []
    for key in found.turn_metrics:
        scores = found.scores[key]
        present = np.flatnonzero(~np.isnan(scores))
        rising = present[np.argsort(scores[present], kind="stable")]
        falling = present[np.argsort(-scores[present], kind="stable")]
        sides = [
            End(
                title,
                [_quote(found, heats, key, int(turn)) for turn in order[:ENDS]],
                _ties(found, key, float(scores[order[0]])),
            )
            for title, order in zip(TITLES[found.better[key]], (rising, falling), strict=True)
        ]
        steps = [shown_step(step) for step in heats.steps.get(key, ())]
        tables.append(Ends(key, ARROWS[found.better[key]], steps, sides[:: -1 if found.better[key] is False else 1]))
    return tables


def _ties(found: Digest, key: str, score: float) -> str:
    same = int((found.scores[key] == score).sum())
    if same <= 1:
        return ""
    turns = f"{'at least ' if found.is_sample else ''}{counted(same, 'turn')}"
    return f"{turns} share the score {number(score, found.turn_places[key])}"


def _quote(found: Digest, heats: Heats, key: str, position: int) -> Quote:
    turn, pieces = found.turns[position], heats.pieces.get((position, key), [])
    steps = heats.steps.get(key, ())
    example = turn.example
    return Quote(
        id=one_line(turn.row.id),
        system=found.systems[turn.system],
        score=number(turn.scores[key].value, found.turn_places[key]),
        context=[shortened(text) for text in example.context[-2:]],
        earlier=max(0, len(example.context) - 2),
        response=shortened(example.response),
        reference=shortened(example.references[0]) if example.references else None,
        heat=[
            Shade(piece.text)
            if piece.cost is None
            else Shade(piece.text, level(piece.cost, steps), number(piece.cost, 2))
            for piece in pieces
        ],
        most_surprising=most_surprising(pieces),
    )


def shortened(text: str) -> str:
    """Text that fits on a page, and says how much of it was cut.

    >>> shortened("x" * 5000)[-25:]
    '… (1,000 more characters)'
    """
    over = len(text) - MOST_CHARACTERS
    return printable(text) if over <= 0 else f"{printable(text[:MOST_CHARACTERS])}… ({over:,} more characters)"


def unread_rows(found: Digest) -> list[tuple[str, str]]:
    """Return where each row that could not be read stands, and what is wrong with it."""
    return [(f"{file_name(row.file)}, line {row.line}", shortened(str(row.error or ""))) for row in found.unread]


def unscored(found: Digest) -> list[tuple[str, str, int]]:
    """Return why turns have no score: reason, metrics, number of turns."""
    reasons: dict[tuple[str, int], list[str]] = {}
    for key in found.metrics:
        scores = (turn.scores[key] for turn in found.turns)
        for reason in Counter(str(one.note) for one in scores if one.value is None and one.note is not None).items():
            reasons.setdefault(reason, []).append(key)
    return [(one_line(note), ", ".join(keys), count) for (note, count), keys in reasons.items()]


@dataclass(frozen=True)
class Reply:
    """What one system answered to one way of asking."""

    system: str
    query: str
    text: str


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
    """Return what every metric that judges groups says of every group; None where no metric does."""
    keys = found.based_on("groups")
    columns = _columns(found, keys, found.systems)
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
    values = [found.groups.get((name, column.system), {}).get(column.name) for column in columns]
    texts = [number(value, found.places[column.name]) for value, column in zip(values, columns, strict=True)]
    return GroupRow(one_line(name), values, texts, replies)


def _replies(found: Digest) -> dict[str, list[Reply]]:
    by_group: dict[str, list[Reply]] = {}
    for turn in found.turns:
        example = turn.example
        if example.group is not None:
            query = shortened(example.context[-1]) if example.context else ""
            reply = Reply(found.systems[turn.system], query, shortened(example.response))
            by_group.setdefault(example.group, []).append(reply)
    return by_group


@dataclass(frozen=True)
class ContradictingTurns:
    """Two turns of one speaker, and how probably the later contradicts the earlier."""

    id: str
    system: str
    earlier: str
    between: list[str]
    later: str
    chance: str


@dataclass(frozen=True)
class Contradictions:
    """The most probable contradictions, of all pairs that a metric compared."""

    metric: str
    pairs: list[ContradictingTurns]
    compared: int
    probable: int


def contradictions(found: Digest) -> Contradictions | None:
    """Return what the metric that compared most pairs of turns found; None where none did."""
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


def _pair(found: Digest, chance: float, place: int, turn: Turn) -> ContradictingTurns:
    context = turn.example.context
    return ContradictingTurns(
        one_line(turn.row.id),
        found.systems[turn.system],
        shortened(context[place]),
        [shortened(text) for text in context[place + 1 :]],
        shortened(turn.example.response),
        number(chance, 2),
    )
