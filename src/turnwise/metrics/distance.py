"""What the distances between distributions share: vectors of what a system said and of what people said."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from turnwise.dialogue import Example
from turnwise.metrics.base import Mode, Need, SystemMetric
from turnwise.metrics.masked import check_turns, last_turns
from turnwise.models.requests import Embed, Request
from turnwise.stats.arrays import FloatArray, IntArray
from turnwise.text.inputs import SEPARATOR

# Where a trunk is too small to have the layer before this.
OR_LAST = " or last"
CITE = "Xiang et al. 2021, Assessing Dialogue Systems with Distribution Distances"
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """What one turn adds: the vector of its response, and one for each reference, all after the same context."""

    said: Vectors
    real: tuple[Vectors, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Sets:
    """The two sets of a system, one row per vector, each with the unit that it is drawn with."""

    said: Vectors
    real: Vectors
    said_units: IntArray
    real_units: IntArray

    @classmethod
    def of(cls, evidence: Sequence[Pair], units: IntArray) -> Sets:
        """The vectors of all turns."""
        sizes = [len(pair.real) for pair in evidence]
        real = np.stack([vector for pair in evidence for vector in pair.real])
        return cls(np.stack([pair.said for pair in evidence]), real, units, np.repeat(units, sizes))

    def enough(self, counts: FloatArray) -> bool:
        """Whether a resample leaves two vectors on each side."""
        return bool(min(counts[self.said_units].sum(), counts[self.real_units].sum()) >= 2)


@dataclass(frozen=True, kw_only=True)
class Distance(SystemMetric):
    """Asks for vectors of (context, response) and (context, reference); whole systems are compared, never turns.

    Recommended: the trunk of next-utterance prediction below its last layers, as tools/pack/choose.py chooses,
    and the context as it was trained on. Paper and released: an encoder as it came, the last layer's first token.
    """

    role: str = "nup-trunk"
    layer: str = f"-3{OR_LAST}"
    pooling: Literal["mean", "cls", "max"] = "max"
    turns: str = "6"
    joined: Literal["separator", "space"] = "separator"
    most_references: int = 10

    cite: ClassVar[str] = CITE
    needs: ClassVar[frozenset[Need]] = frozenset({"context", "references"})
    modes: ClassVar[tuple[Mode, ...]] = ("recommended", "paper", "released")
    roles: ClassVar[frozenset[str]] = frozenset({"nup-trunk"})
    _as_published: ClassVar[Mapping[str, object]] = {
        "role": "encoder",
        "layer": "-1",
        "pooling": "cls",
        "turns": "all",
        "joined": "space",
    }

    def __post_init__(self) -> None:
        check_turns(self.turns)
        if not re.fullmatch(rf"-?[0-9]+({OR_LAST})?", self.layer):
            raise ValueError(f"option layer={self.layer}: write a whole number; -1 is the last layer")
        if self.most_references < 1:
            raise ValueError(f"option most_references={self.most_references}: write a whole number from 1 up")
        # The class speaks for the recommended form; this one may ask another model.
        object.__setattr__(self, "roles", frozenset({self.role}))

    def requests(self, example: Example) -> Sequence[Request]:
        context = (SEPARATOR if self.joined == "separator" else " ").join(last_turns(example.context, self.turns))
        texts = (example.response, *self._references(example))
        number = int(self.layer.removesuffix(OR_LAST))
        layer = (number, -1) if self.layer.endswith(OR_LAST) else number
        return [Embed(context, text, self.pooling, layer, role=self.role) for text in texts]

    def _references(self, example: Example) -> Sequence[str]:
        """All references, or a sample that is the same in every run."""
        if len(example.references) <= self.most_references:
            return example.references
        return Random(0).sample(example.references, self.most_references)

    def evidence(self, example: Example, answers: Sequence[Any] = ()) -> Pair:
        said, *real = answers
        return Pair(said, tuple(real))
