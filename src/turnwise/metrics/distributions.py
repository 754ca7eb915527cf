"""Distances between what a system said and what people said, as distributions (Xiang et al. 2021): FBD and PRD."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from turnwise.dialogue import Example
from turnwise.metrics.base import MODES, Measured, Mode, Need, SystemMetric
from turnwise.metrics.masked import check_turns, last_turns
from turnwise.metrics.registry import register
from turnwise.models.requests import Embed, Request
from turnwise.problems import Problem
from turnwise.stats.arrays import FloatArray, IntArray
from turnwise.stats.frechet import frechet, frechet_by_counts
from turnwise.stats.prd import ANGLES, SMOOTHING, Curve, Flavour, Grid, Order, clustered
from turnwise.stats.subsets import extrapolated
from turnwise.text.inputs import SEPARATOR

# Where a trunk is too small to have the layer before this.
OR_LAST = " or last"
CITE = "Xiang et al. 2021, Assessing Dialogue Systems with Distribution Distances"
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class RealAndSaid:
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
    def of(cls, evidence: Sequence[RealAndSaid], units: IntArray) -> Sets:
        """Return the vectors of all turns."""
        sizes = [len(pair.real) for pair in evidence]
        real = np.stack([vector for pair in evidence for vector in pair.real])
        return cls(np.stack([pair.said for pair in evidence]), real, units, np.repeat(units, sizes))

    def enough(self, counts: FloatArray) -> bool:
        """Return whether a resample leaves two vectors on each side."""
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
    modes: ClassVar[tuple[Mode, ...]] = MODES
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

    @property
    def roles(self) -> frozenset[str]:
        return frozenset({self.role})

    def requests(self, example: Example) -> Sequence[Request]:
        context = (SEPARATOR if self.joined == "separator" else " ").join(last_turns(example.context, self.turns))
        texts = (example.response, *self._references(example))
        number = int(self.layer.removesuffix(OR_LAST))
        layer = (number, -1) if self.layer.endswith(OR_LAST) else number
        return [Embed(context, text, self.pooling, layer, role=self.role) for text in texts]

    def _references(self, example: Example) -> Sequence[str]:
        """Return all references, or a sample that is the same in every run."""
        if len(example.references) <= self.most_references:
            return example.references
        return Random(0).sample(example.references, self.most_references)

    def evidence(self, example: Example, answers: Sequence[Any] = ()) -> RealAndSaid:
        said, *real = answers
        return RealAndSaid(said, tuple(real))


# --- Fréchet BERT distance (Xiang et al. 2021): how far a system's responses lie from people's, as -------


@register({"fbd": {}})
class FrechetBertDistance(Distance):
    """Released: the mean term squared. Paper: the mean term as it is."""

    squared: bool = True
    ddof: int = 1

    summary: ClassVar[str] = "Fréchet distance between vectors of the responses and of the references"
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "released": Distance._as_published,
        "paper": {**Distance._as_published, "squared": False},
    }
    higher_is_better = False
    range = (0.0, math.inf)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ddof not in (0, 1):
            raise ValueError(f"option ddof={self.ddof}: write 0 or 1")

    def value(self, evidence: Sequence[Any], units: IntArray, draws: FloatArray) -> Measured:
        if len(evidence) < 2:
            return Measured(None, note=Problem.of("value.few_responses"))
        sets = Sets.of(evidence, units)
        found = frechet(sets.said, sets.real, self.ddof)
        # What means and spreads add: together, the value.
        mean = found.mean**2 if self.squared else found.mean
        parts = {"mean": mean, "spread": found.spread, "references": float(len(sets.real))}
        if not len(draws):
            return Measured(found.value(self.squared), parts)
        count = draws.shape[1]
        distance = frechet_by_counts(sets.said, sets.real, sets.said_units, sets.real_units, count, self.ddof)

        def value_of(counts: FloatArray) -> float:
            return distance(counts).value(self.squared) if sets.enough(counts) else math.nan

        limit = extrapolated(value_of, count)
        if limit is not None and math.isfinite(limit):
            parts["debiased"] = limit
        return Measured(found.value(self.squared), parts, resampled=tuple(map(value_of, draws)))


# --- Precision and recall of a system's responses against people's, as distributions (Xiang et al. -------


# Points of a curve that are kept to be drawn.
POINTS = 101


@register({"prd": {}})
class PrecisionRecallDistance(Distance):
    """Released: mini-batch k-means and a smoothed F. Paper: its grid of angles, and F as it is."""

    clusters: int = 20
    runs: int = 10
    seed: int = 0
    kmeans: Flavour = "lloyd"
    restarts: int = 1
    angles: int = ANGLES
    grid: Grid = "paper"
    smoothing: float = 0.0
    order: Order = "max-of-mean"
    beta: float = 1.0

    summary: ClassVar[str] = "largest F of precision and recall between the clusters of responses and of references"
    _clusters: ClassVar[Mapping[str, object]] = {**Distance._as_published, "kmeans": "mini-batch", "restarts": 10}
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "released": {**_clusters, "grid": "released", "smoothing": SMOOTHING},
        "paper": _clusters,
    }
    range = (0.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("clusters", 2), ("runs", 1), ("seed", 0), ("restarts", 1), ("angles", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"option {name}={getattr(self, name)}: write a whole number from {least} up")
        if self.beta <= 0 or self.smoothing < 0:
            raise ValueError("option beta takes a number above 0, smoothing one from 0 up")

    def value(self, evidence: Sequence[Any], units: IntArray, draws: FloatArray) -> Measured:
        sets = Sets.of(evidence, units)
        fewest = min(len(sets.said), len(sets.real))
        if fewest < self.clusters:
            return Measured(None, note=Problem.of("value.few_vectors", n=fewest, clusters=self.clusters))
        found = clustered(sets.said, sets.real, self.clusters, self.runs, self.seed, self.kmeans, self.restarts)
        curve = found.curve(angles=self.angles, grid=self.grid)
        parts = {"F8": self._score(curve, 8.0), "F1/8": self._score(curve, 1 / 8), "references": float(len(sets.real))}

        def value_of(counts: FloatArray) -> float:
            if not sets.enough(counts):
                return math.nan
            said, real = counts[sets.said_units], counts[sets.real_units]
            return self._score(found.curve(said, real, self.angles, self.grid), self.beta)

        return Measured(self._score(curve, self.beta), parts, _points(curve.mean), tuple(map(value_of, draws)))

    def _score(self, curve: Curve, beta: float) -> float:
        return curve.score(beta, self.order, self.smoothing)


def _points(curve: Curve) -> tuple[tuple[float, float], ...]:
    """Return some (recall, precision) along the curve."""
    every = np.linspace(0, curve.recall.shape[1] - 1, min(POINTS, curve.recall.shape[1])).round().astype(int)
    recall, precision = curve.recall[0, every].tolist(), curve.precision[0, every].tolist()
    return tuple(zip(recall, precision, strict=True))
