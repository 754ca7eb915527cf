"""Precision and recall of a system's responses against people's, as distributions (Xiang et al. 2021)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from turnwise.metrics.base import Measured, Mode
from turnwise.metrics.distance import Distance, Sets
from turnwise.metrics.registry import register
from turnwise.problems import Problem
from turnwise.stats.arrays import FloatArray, IntArray
from turnwise.stats.kmeans import Flavour
from turnwise.stats.prd import ANGLES, SMOOTHING, Curve, Grid, Order, clustered

# Points of a curve that are kept to be drawn.
POINTS = 101


@register({"prd": {}})
@dataclass(frozen=True, kw_only=True)
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
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)

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
    """Some (recall, precision) along the curve."""
    every = np.linspace(0, curve.recall.shape[1] - 1, min(POINTS, curve.recall.shape[1])).round().astype(int)
    recall, precision = curve.recall[0, every].tolist(), curve.precision[0, every].tolist()
    return tuple(zip(recall, precision, strict=True))
