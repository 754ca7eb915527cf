"""Corpora whose ratings can be read as USL-H's three qualities, since its own annotations are not public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.dialogue import Example, mean_rating
from turnwise.io.read import read_rows
from turnwise.io.write import example_to_dict
from turnwise.metrics.uslh import compose_ratings
from turnwise.reproduce.room import Room
from turnwise.stats.regression import Regression, regress

UNDERSTANDABLE, SENSIBLE, SPECIFIC, OVERALL = "Understandable", "Sensible", "Specific", "Overall"
ASPECTS = (UNDERSTANDABLE, SENSIBLE, SPECIFIC)
COMPOSED = "Overall (USL_S-HH)"
Given = list[float | None]


@dataclass(frozen=True, slots=True)
class Mapped:
    """A rated corpus, and which of its ratings stands for which quality, with the ends of its scale."""

    file: str
    exclude: str
    ratings: Mapping[str, tuple[str, float, float]]

    def said(self) -> str:
        """The mapping in words."""
        return ", ".join(f"{own} for {name}" for name, (own, _, _) in self.ratings.items())


def _five(name: str) -> tuple[str, float, float]:
    return name, 1.0, 5.0


_USR = {
    UNDERSTANDABLE: ("Understandable", 0.0, 1.0),
    SENSIBLE: ("Maintains Context", 1.0, 3.0),
    SPECIFIC: ("Engaging", 1.0, 3.0),
    OVERALL: _five("Overall"),
}
# The first stands where the paper has its own DailyDialog annotations.
CORPORA: Mapping[str, Mapped] = {
    "DailyDialog": Mapped(
        "zhao_dailydialog",
        "ground-truth",
        {
            UNDERSTANDABLE: _five("grammar"),
            SENSIBLE: _five("relevance"),
            SPECIFIC: _five("content"),
            OVERALL: _five("appropriateness"),
        },
    ),
    "Topical-Chat (USR)": Mapped("usr_topicalchat", "Original Ground Truth", _USR),
    "PersonaChat (USR)": Mapped("usr_personachat", "Original Ground Truth", _USR),
}


def mapped(room: Room, corpus: str) -> Path:
    """The corpus with ratings by the paper's names, each on 0 to 1, and the composition of each rater's three."""
    of = CORPORA[corpus]
    rows = [
        {**example_to_dict(one), "ratings": renamed(one, of)}
        for one in room.examples(of.file)
        if one.system != of.exclude
    ]
    return room.derived(f"usl-h_{of.file}", rows)


def mapped_examples(room: Room, corpus: str) -> list[Example]:
    """The examples of `mapped`."""
    return [row.example for row in read_rows([mapped(room, corpus)]) if row.example]


def renamed(example: Example, of: Mapped) -> dict[str, Given]:
    """The ratings of one example by the paper's names."""
    scaled: dict[str, Given] = {
        name: [None if given is None else (given - low) / (high - low) for given in example.ratings.get(own, ())]
        for name, (own, low, high) in of.ratings.items()
    }
    triples = zip(*(scaled[name] for name in ASPECTS), strict=False)
    return scaled | {COMPOSED: [compose_ratings([triple]) for triple in triples]}


def means(examples: Sequence[Example]) -> NDArray[np.float64]:
    """Mean ratings, one row per example: the three qualities and the overall one; NaN where there is none."""
    rows: list[list[Any]] = [
        [mean_rating(one.ratings.get(name, ())) for name in (*ASPECTS, OVERALL)] for one in examples
    ]
    return np.array(rows, dtype=np.float64)


def weights(examples: Sequence[Example]) -> Regression | None:
    """How much each quality counts in the overall rating."""
    table = means(examples)
    return regress(table[:, :3], table[:, 3])
