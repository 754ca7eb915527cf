"""Precision and recall of one distribution against another (Sajjadi et al. 2018), over clusters of their samples.

For every slope l the precision is a(l) = sum of min(l R, G) and the recall a(l) / l, where G and R are the shares of
the clusters among what was generated and what is real. The curve of both is scored by the largest F on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import FloatArray, IntArray, floats
from turnwise.stats.kmeans import Flavour, kmeans_runs

Grid = Literal["released", "paper"]
Order = Literal["max-of-mean", "mean-of-max"]

ANGLES = 1001
# The released code's smallest angle, and what it adds to the divisor of F.
SMALLEST = 1e-10
SMOOTHING = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Precision and recall at every slope; one row for each run of the clustering."""

    precision: FloatArray
    recall: FloatArray

    @property
    def mean(self) -> Curve:
        """The pointwise mean over the runs."""
        return Curve(self.precision.mean(axis=0, keepdims=True), self.recall.mean(axis=0, keepdims=True))

    def score(self, beta: float = 1.0, order: Order = "max-of-mean", smoothing: float = 0.0) -> float:
        """The largest F on the mean curve, or the mean of each curve's largest F; a beta above 1 favours recall."""
        curve = self.mean if order == "max-of-mean" else self
        return float(f_beta(curve.precision, curve.recall, beta, smoothing).max(axis=1).mean())


def slopes(angles: int = ANGLES, grid: Grid = "paper") -> FloatArray:
    """The slopes at which a curve is taken.

    >>> slopes(1).round(6).tolist(), len(slopes(11, "released"))
    ([1.0], 11)
    """
    if grid == "released":
        return np.tan(np.linspace(SMALLEST, np.pi / 2 - SMALLEST, angles))
    return np.tan(np.arange(1, angles + 1) * np.pi / (2 * (angles + 1)))


def prd_curve(generated: ArrayLike, real: ArrayLike, angles: int = ANGLES, grid: Grid = "paper") -> Curve:
    """The curve of two histograms, or of many: the last axis holds shares that add up to 1.

    >>> curve = prd_curve([0.5, 0.5], [1.0, 0.0])
    >>> round(float(curve.precision.max()), 3), round(float(curve.recall.max()), 3)
    (0.5, 1.0)
    """
    g, r = np.atleast_2d(floats(generated)), np.atleast_2d(floats(real))
    slope = slopes(angles, grid)
    precision = np.minimum(slope[:, None] * r[:, None, :], g[:, None, :]).sum(axis=2)
    return Curve(np.clip(precision, 0.0, 1.0), np.clip(precision / slope, 0.0, 1.0))


def f_beta(precision: FloatArray, recall: FloatArray, beta: float = 1.0, smoothing: float = 0.0) -> FloatArray:
    """(1 + b^2) P R / (b^2 P + R); 0 where both are 0."""
    product = (1 + beta**2) * precision * recall
    divisor = beta**2 * precision + recall + smoothing
    return np.divide(product, divisor, out=np.zeros_like(product), where=divisor > 0)


@dataclass(frozen=True, slots=True, eq=False)
class Clustered:
    """The cluster of every generated and every real vector, in each run."""

    generated: IntArray
    real: IntArray
    clusters: int

    def curve(
        self,
        generated_counts: FloatArray | None = None,
        real_counts: FloatArray | None = None,
        angles: int = ANGLES,
        grid: Grid = "paper",
    ) -> Curve:
        """The curves of all runs; counts say how often each vector occurs."""
        return prd_curve(
            _shares(self.generated, generated_counts, self.clusters),
            _shares(self.real, real_counts, self.clusters),
            angles,
            grid,
        )


def clustered(
    generated: ArrayLike,
    real: ArrayLike,
    clusters: int = 20,
    runs: int = 10,
    seed: int = 0,
    flavour: Flavour = "lloyd",
    restarts: int = 1,
) -> Clustered:
    """Cluster what was generated and what is real together, several times over."""
    first, second = floats(generated), floats(real)
    if min(len(first), len(second)) < clusters:
        raise ValueError(f"{min(len(first), len(second))} vectors are fewer than {clusters} clusters")
    rows = np.concatenate([first, second])
    seeds = np.random.SeedSequence(seed).generate_state(runs)
    labels = np.array([run for run, _ in kmeans_runs(rows, clusters, seeds.tolist(), flavour, restarts)])
    return Clustered(labels[:, : len(first)], labels[:, len(first) :], clusters)


def _shares(labels: IntArray, counts: FloatArray | None, clusters: int) -> FloatArray:
    tallies = np.array([np.bincount(run, counts, minlength=clusters) for run in labels], dtype=np.float64)
    shares: FloatArray = tallies / tallies.sum(axis=1, keepdims=True)
    return shares
