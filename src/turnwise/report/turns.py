"""The turns that travel inside the page, as compact JSON that the page's script reads."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.report.digest import Digest, Turn, file_name
from turnwise.report.labels import one_line, printable
from turnwise.report.tables import shortened

# All turns are in the page up to the first number; beyond it, the second number of them.
ALL_UP_TO = 5_000
SAMPLE = 2_000
# Of a sample, turns at each end of every metric.
AT_EACH_END = 25


def chosen_turns(found: Digest) -> NDArray[np.intp]:
    """Which turns the page holds: all, or the ends of every metric and every so many of the rest."""
    total = len(found.turns)
    if total <= ALL_UP_TO:
        return np.arange(total, dtype=np.intp)
    picked = np.zeros(total, dtype=np.bool_)
    room = SAMPLE // 2
    per_end = min(AT_EACH_END, max(1, room // max(1, 2 * len(found.turn_metrics))))
    for key in found.turn_metrics:
        scores = found.scores[key]
        present = np.flatnonzero(~np.isnan(scores))
        order = present[np.argsort(scores[present], kind="stable")]
        picked[order[:per_end]] = True
        picked[order[-per_end:]] = True
    rest = np.flatnonzero(~picked)
    free = max(0, SAMPLE - int(picked.sum()))
    picked[rest[np.linspace(0, rest.size - 1, min(free, rest.size)).astype(np.intp)]] = True
    return np.flatnonzero(picked)


def turns_json(found: Digest, chosen: NDArray[np.intp]) -> str:
    """JSON that may stand inside a script element: no text in it can end that element."""
    texts = _Texts()
    turns = [_turn(found, found.turns[position], texts) for position in chosen.tolist()]
    document = {
        "metrics": [
            {"key": key, "better": found.better[key], "places": found.turn_places[key]} for key in found.metrics
        ],
        "qualities": list(found.qualities),
        "systems": list(found.systems),
        "texts": texts.lists,
        "turns": turns,
    }
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


class _Texts:
    """Lists of texts, each kept once: many systems answer the same context."""

    def __init__(self) -> None:
        self.lists: list[list[str]] = []
        self.places: dict[tuple[str, ...], int] = {}

    def place(self, texts: tuple[str, ...]) -> int:
        if texts not in self.places:
            self.places[texts] = len(self.lists)
            self.lists.append([shortened(text) for text in texts])
        return self.places[texts]


def _turn(found: Digest, turn: Turn, texts: _Texts) -> dict[str, Any]:
    example = turn.example
    notes = {key: one_line(note) for key in found.metrics if (note := turn.scores[key].note)}
    ratings = [example.ratings.get(quality, ()) for quality in found.quality_labels]
    return {
        "id": one_line(turn.row.id),
        "at": f"{file_name(turn.row.file)}, line {turn.row.line}",
        "s": turn.system,
        "c": texts.place(example.context),
        "r": shortened(example.response),
        "ref": texts.place(example.references),
        "f": texts.place(example.facts),
        "x": [_short(turn.scores[key].value) for key in found.metrics],
        "p": [[_short(rating) for rating in given] for given in ratings],
        "who": [one_line(rater) for rater in example.raters],
        "whole": example.rated == "dialogue",
        "n": notes,
        **({"d": printable(example.dialogue_id)} if example.dialogue_id is not None else {}),
    }


def _short(value: float | None) -> float | None:
    """Six digits are more than anybody reads, and make the page a third smaller."""
    return None if value is None or not np.isfinite(value) else float(f"{value:.6g}")
