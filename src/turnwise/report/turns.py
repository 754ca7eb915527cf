"""The turns that travel inside the page, as compact JSON that the page's script reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.engine.shown import shown_turns
from turnwise.report.digest import Digest, Turn, file_name
from turnwise.report.heat import Heats, most_surprising
from turnwise.report.labels import one_line, printable
from turnwise.report.tables import shortened


def chosen_turns(found: Digest) -> NDArray[np.intp]:
    """Which turns the page holds: all, or the ends of every metric and every so many of the rest."""
    return shown_turns({key: found.scores[key] for key in found.turn_metrics}, len(found.turns))


def turns_json(found: Digest, chosen: NDArray[np.intp], heats: Heats) -> str:
    """JSON that may stand inside a script element: no text in it can end that element."""
    texts = _Texts()
    columns = {key: column for column, key in enumerate(found.judging_turns)}
    turns = [
        _turn(found, found.turns[position], texts) | _heat(heats, position, columns) for position in chosen.tolist()
    ]
    document = {
        "metrics": [
            {
                "key": key,
                "better": found.better[key],
                "places": found.turn_places[key],
                **({"steps": heats.steps[key]} if key in heats.steps else {}),
            }
            for key in found.judging_turns
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
    notes = {key: one_line(note) for key in found.judging_turns if (note := turn.scores[key].note)}
    ratings = [example.ratings.get(quality, ()) for quality in found.quality_labels]
    return {
        "id": one_line(turn.row.id),
        "at": f"{file_name(turn.row.file)}, line {turn.row.line}",
        "s": turn.system,
        "c": texts.place(example.context),
        "r": shortened(example.response),
        "ref": texts.place(example.references),
        "f": texts.place(example.facts),
        "x": [_short(turn.scores[key].value) for key in found.judging_turns],
        "p": [[_short(rating) for rating in given] for given in ratings],
        "who": [one_line(rater) for rater in example.raters],
        "whole": example.rated == "dialogue",
        "n": notes,
        **({"d": printable(example.dialogue_id)} if example.dialogue_id is not None else {}),
    }


def _heat(heats: Heats, position: int, columns: Mapping[str, int]) -> dict[str, Any]:
    """What each word of the response cost, by the metrics that say so: plain text, or text with its number."""
    shown = [
        [
            [columns[key] for key in keys],
            [piece.text if piece.cost is None else [piece.text, round(piece.cost, 2)] for piece in pieces],
            most_surprising(pieces),
        ]
        for keys, pieces in heats.of(position)
    ]
    return {"h": shown} if shown else {}


def _short(value: float | None) -> float | None:
    """Six digits are more than anybody reads, and make the page a third smaller."""
    return None if value is None or not np.isfinite(value) else float(f"{value:.6g}")
