"""The tables of the page, as plain records that the template walks through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnwise.report.digest import Digest, Turn, file_name
from turnwise.report.heat import Heats, level, most_surprising, shown_step
from turnwise.report.labels import ARROWS, DIRECTIONS, decimals, interval, number, one_line, printable
from turnwise.report.words import leader
from turnwise.stats.bootstrap import mean_intervals
from turnwise.wording import counted

# Turns shown at each end of a metric, and of long texts the part that is shown.
ENDS = 3
MOST_CHARACTERS = 4000


@dataclass(frozen=True)
class Column:
    """A column of a table of systems."""

    name: str
    arrow: str
    direction: str


@dataclass(frozen=True)
class Cell:
    """A value, its interval and whether it is clearly the best of its column."""

    value: float | None
    text: str
    interval: str
    best: bool = False


@dataclass(frozen=True)
class SystemRow:
    """One system, and how many turns or dialogues its values rest on."""

    number: int
    name: str
    n: int
    cells: list[Cell]


@dataclass(frozen=True)
class SystemTable:
    """Systems down, metrics or rated qualities across."""

    title: str
    unit: str
    columns: list[Column]
    rows: list[SystemRow]


def metric_table(found: Digest) -> SystemTable:
    """What the metrics say of every system."""
    columns = [Column(key, ARROWS[found.better[key]], DIRECTIONS[found.better[key]]) for key in found.metrics]
    rows = [
        SystemRow(place, system, found.sizes[system], _metric_cells(found, system))
        for place, system in enumerate(found.systems)
    ]
    return SystemTable("Systems", "Turns", columns, rows)


def made_of(found: Digest) -> list[tuple[int, str, str, str]]:
    """What the values of whole systems rest on: number and name of the system, metric, facts."""
    return [
        (place, system, key, value.made_of)
        for key in found.metrics
        for place, system in enumerate(found.systems)
        if (value := found.values.get((system, key))) is not None and value.made_of
    ]


def rating_table(found: Digest) -> SystemTable:
    """What people said of every system; a dialogue that was rated as a whole counts once."""
    columns = [Column(quality, "", "mean rating") for quality in found.qualities]
    sizes = np.bincount(found.rated.systems, minlength=len(found.systems)).tolist()
    rows = [
        SystemRow(place, system, sizes[place], _rating_cells(found, place))
        for place, system in enumerate(found.systems)
    ]
    return SystemTable("Mean ratings", f"Rated {found.rated.unit}s", columns, rows)


def _metric_cells(found: Digest, system: str) -> list[Cell]:
    cells = []
    for key in found.metrics:
        value, first = found.values.get((system, key)), leader(found, key)
        best = first is not None and first.clear and first.system == system
        low, high = (value.low, value.high) if value else (None, None)
        cells.append(_cell(value.value if value else None, low, high, found.places[key], best=best))
    return cells


def _rating_cells(found: Digest, place: int) -> list[Cell]:
    mine = found.rated.systems == place
    table = np.column_stack([values[mine] for values in found.rated.ratings.values()])
    cells = []
    for values, ends in zip(table.T, mean_intervals(table, found.rated.clusters[mine], seed=found.seed), strict=True):
        present = values[~np.isnan(values)]
        mean = float(present.mean()) if present.size else None
        low, high = (ends.low, ends.high) if ends else (None, None)
        cells.append(_cell(mean, low, high, min(2, decimals(present.tolist()))))
    return cells


def _cell(value: float | None, low: float | None, high: float | None, places: int, *, best: bool = False) -> Cell:
    # A dash beside a minus sign reads as two of either.
    between = "\u2009\u2013\u2009" if low is None or low >= 0 else "\u00a0to\u00a0"
    return Cell(value, number(value, places), interval(low, high, places, between), best)


@dataclass(frozen=True)
class Quote:
    """A turn as it is quoted among the best and worst."""

    id: str
    system: str
    system_number: int
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
class Ends:
    """The turns at both ends of a metric."""

    metric: str
    arrow: str
    steps: list[str]
    first_title: str
    first: list[Quote]
    first_ties: str
    second_title: str
    second: list[Quote]
    second_ties: str


def ends(found: Digest, heats: Heats) -> list[Ends]:
    """The worst and the best turns of every metric; the lowest and the highest where it has no direction."""
    tables = []
    for key in found.turn_metrics:
        scores = found.scores[key]
        present = np.flatnonzero(~np.isnan(scores))
        rising = present[np.argsort(scores[present], kind="stable")]
        falling = present[np.argsort(-scores[present], kind="stable")]
        titles = {True: ("Worst", "Best"), False: ("Best", "Worst"), None: ("Lowest", "Highest")}
        sides = [
            (
                title,
                [_quote(found, heats, key, int(turn)) for turn in order[:ENDS]],
                _ties(found, key, float(scores[order[0]])),
            )
            for title, order in zip(titles[found.better[key]], (rising, falling), strict=True)
        ]
        if found.better[key] is False:
            sides.reverse()
        steps = [shown_step(step) for step in heats.steps.get(key, ())]
        tables.append(Ends(key, ARROWS[found.better[key]], steps, *sides[0], *sides[1]))
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
        system_number=turn.system,
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
    """Where each row that could not be read stands, and what is wrong with it."""
    return [(f"{file_name(row.file)}, line {row.line}", shortened(row.error or "")) for row in found.unread]


def unscored(found: Digest) -> list[tuple[str, str, int]]:
    """Why turns have no score: reason, metrics, number of turns."""
    reasons: dict[tuple[str, int], list[str]] = {}
    for key in found.metrics:
        counts: dict[str, int] = {}
        for turn in found.turns:
            if (note := _reason(turn, key)) is not None:
                counts[note] = counts.get(note, 0) + 1
        for note, count in counts.items():
            reasons.setdefault((note, count), []).append(key)
    return [(one_line(note), ", ".join(keys), count) for (note, count), keys in reasons.items()]


def _reason(turn: Turn, key: str) -> str | None:
    score = turn.scores[key]
    return score.note if score.value is None else None
