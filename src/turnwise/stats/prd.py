"""Compute precision and recall of one distribution against another (Sajjadi et al. 2018), over k-means clusters.

For every slope l the precision is a(l) = sum of min(l R, G) and the recall a(l) / l, where G and R are the shares of
the clusters among what was generated and what is real. The curve of both is scored by the largest F on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.stats.arrays import FloatArray, IntArray, floats

Flavour = Literal["lloyd", "mini-batch"]
Grid = Literal["released", "paper"]
Order = Literal["max-of-mean", "mean-of-max"]

ANGLES = 1001
# The released code's smallest angle, and what it adds to the divisor of F.
SMALLEST = 1e-10
SMOOTHING = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Hold precision and recall at every slope; one row for each run of the clustering."""

    precision: FloatArray
    recall: FloatArray

    @property
    def mean(self) -> Curve:
        """Return the pointwise mean over the runs."""
        return Curve(self.precision.mean(axis=0, keepdims=True), self.recall.mean(axis=0, keepdims=True))

    def score(self, beta: float = 1.0, order: Order = "max-of-mean", smoothing: float = 0.0) -> float:
        """Return the largest F on the mean curve, or the mean of each curve's largest F; beta > 1 favours recall."""
        curve = self.mean if order == "max-of-mean" else self
        return float(f_beta(curve.precision, curve.recall, beta, smoothing).max(axis=1).mean())


def slopes(angles: int = ANGLES, grid: Grid = "paper") -> FloatArray:
    """Return the slopes at which a curve is computed.

    >>> slopes(1).round(6).tolist(), len(slopes(11, "released"))
    ([1.0], 11)
    """
    if grid == "released":
        return np.tan(np.linspace(SMALLEST, np.pi / 2 - SMALLEST, angles))
    return np.tan(np.arange(1, angles + 1) * np.pi / (2 * (angles + 1)))


def prd_curve(generated: ArrayLike, real: ArrayLike, angles: int = ANGLES, grid: Grid = "paper") -> Curve:
    """Return the curve of two histograms, or of many: the last axis holds shares that add up to 1.

    >>> curve = prd_curve([0.5, 0.5], [1.0, 0.0])
    >>> round(float(curve.precision.max()), 3), round(float(curve.recall.max()), 3)
    (0.5, 1.0)
    """
    g, r = np.atleast_2d(floats(generated)), np.atleast_2d(floats(real))
    slope = slopes(angles, grid)
    precision = np.minimum(slope[:, None] * r[:, None, :], g[:, None, :]).sum(axis=2)
    return Curve(np.clip(precision, 0.0, 1.0), np.clip(precision / slope, 0.0, 1.0))


def f_beta(precision: FloatArray, recall: FloatArray, beta: float = 1.0, smoothing: float = 0.0) -> FloatArray:
    """Return (1 + b^2) P R / (b^2 P + R); 0 where both are 0."""
    product = (1 + beta**2) * precision * recall
    divisor = beta**2 * precision + recall + smoothing
    return np.divide(product, divisor, out=np.zeros_like(product), where=divisor > 0)


@dataclass(frozen=True, slots=True, eq=False)
class Clustered:
    """Hold the cluster of every generated and every real vector, in each run."""

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
        """Return the curves of all runs; counts say how often each vector occurs."""
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
    """Cluster generated and real vectors together, once per run."""
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


# --- k-means ------------------------------------------------------------------------------------------------

# Up to this number of rows, all distances are computed once: a matrix of 32 MiB.
MOST_SQUARE = 2048
# The number of distances in memory at a time; starts that need more run one after the other.
AT_ONCE = 2**22


class PointSet:
    """Hold rows, and the squared distances between them."""

    def __init__(self, rows: FloatArray) -> None:
        self.rows = rows
        self.lengths: FloatArray = np.einsum("ij,ij->i", rows, rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_rows(self, places: IntArray) -> FloatArray:
        """Return the squared distances (places, rows) of some rows to all."""
        return self._square[places] if len(self) <= MOST_SQUARE else self._measured(places)

    @cached_property
    def _square(self) -> FloatArray:
        return self._measured(np.arange(len(self)))

    def _measured(self, places: IntArray) -> FloatArray:
        return squared(self.rows, self.lengths, self.rows[places]).T


def squared(rows: FloatArray, lengths: FloatArray, centres: FloatArray) -> FloatArray:
    """Return squared distances (rows, centres), by one product of matrices."""
    products = rows @ centres.T
    products *= -2.0
    products += lengths[:, None]
    products += np.einsum("ij,ij->i", centres, centres)
    # Rounding may leave a negative number if a row is its own centre.
    return np.maximum(products, 0.0, out=products)


def spread_starts(
    points: PointSet, clusters: int, starts: int, generators: Sequence[np.random.Generator]
) -> tuple[IntArray, FloatArray]:
    """Return k-means++ starts for each generator: the rows that are centres (generators, starts, clusters), and fits.

    Each next centre is a row drawn by its squared distance to those before, the best of a few draws. A fit is the sum
    of squared distances to the nearest centre.
    """
    tries = 2 + int(np.log(clusters))
    # All random numbers are drawn first, so that a start does not depend on which others run with it.
    drawn = [
        (rng.integers(len(points)), rng.random((clusters - 1, tries))) for rng in generators for _ in range(starts)
    ]
    firsts, chances = np.array([first for first, _ in drawn]), np.stack([chance for _, chance in drawn])
    found = [_spread(points, firsts[some], chances[some]) for some in _parts(len(drawn), len(points) * tries)]
    chosen, fits = (np.concatenate(part) for part in zip(*found, strict=True))
    return chosen.reshape(len(generators), starts, clusters), fits.reshape(len(generators), starts)


def _parts(starts: int, size: int) -> Iterator[slice]:
    width = max(1, AT_ONCE // size)
    return (slice(place, place + width) for place in range(0, starts, width))


def _spread(points: PointSet, firsts: IntArray, chances: NDArray[np.float64]) -> tuple[IntArray, FloatArray]:
    chosen = [firsts]
    nearest = points.to_rows(firsts)
    every = np.arange(len(firsts))
    for step in range(chances.shape[1]):
        candidates = _drawn(nearest, chances[:, step])
        distances = points.to_rows(candidates.ravel()).reshape(*candidates.shape, -1)
        np.minimum(distances, nearest[:, None], out=distances)
        best = distances.sum(axis=2).argmin(axis=1)
        chosen.append(candidates[every, best])
        nearest = distances[every, best]
    return np.stack(chosen, axis=1), nearest.sum(axis=1)


def _drawn(weights: FloatArray, chances: FloatArray) -> IntArray:
    """Return places drawn by weight, (starts, tries); all are equally likely if all weights are 0."""
    totals = weights.sum(axis=1, keepdims=True)
    shares = np.divide(weights, totals, out=np.full_like(weights, 1 / weights.shape[1]), where=totals > 0)
    reached = shares.cumsum(axis=1)
    reached /= reached[:, -1:]
    return np.stack([one.searchsorted(drawn, side="right") for one, drawn in zip(reached, chances, strict=True)])


MOST_ROUNDS = 100
# Mini-batches: the rows in each, and the number of batches without a better fit after which it stops.
BATCH = 1024
PATIENCE = 10
# Stop when the centres move less than this share of the variance of the data.
REST = 1e-4


def kmeans(
    rows: FloatArray, clusters: int, seed: int = 0, flavour: Flavour = "lloyd", restarts: int = 1
) -> tuple[IntArray, float]:
    """Return the cluster of every row, and the sum of squared distances to its centre; the best of several starts.

    >>> labels, inertia = kmeans(np.array([[0.0], [1.0], [9.0], [10.0]]), clusters=2)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3]), inertia
    (True, 1.0)
    """
    return kmeans_runs(rows, clusters, [seed], flavour, restarts)[0]


def kmeans_runs(
    rows: FloatArray, clusters: int, seeds: Sequence[int], flavour: Flavour = "lloyd", restarts: int = 1
) -> list[tuple[IntArray, float]]:
    """Return the result of `kmeans` for each seed; the distances between rows are computed once for all."""
    if len(rows) < clusters:
        raise ValueError(f"{len(rows)} vectors cannot be put into {clusters} clusters")
    points = PointSet(rows)
    generators = [np.random.default_rng(seed) for seed in seeds]
    starts, fits = spread_starts(points, clusters, restarts, generators)
    if flavour == "mini-batch":
        # As in the usual implementation, restarts compete at the start and one of them is carried on.
        best = starts[np.arange(len(seeds)), fits.argmin(axis=1)]
        return [
            _fit(points, [_mini_batches(points, rows[chosen], rng)])
            for chosen, rng in zip(best, generators, strict=True)
        ]
    return [_fit(points, [_lloyd(points, rows[chosen]) for chosen in some]) for some in starts]


def _fit(points: PointSet, candidates: Sequence[FloatArray]) -> tuple[IntArray, float]:
    """Return the best candidate: the cluster of every row, and the sum of squared distances."""
    found = [_assign(points.rows, points.lengths, centres) for centres in candidates]
    labels, distances = min(found, key=lambda fit: float(fit[1].sum()))
    return labels, float(distances.sum())


def _lloyd(points: PointSet, centres: FloatArray) -> FloatArray:
    rows, lengths = points.rows, points.lengths
    rest = REST * float(rows.var(axis=0).mean())
    for _ in range(MOST_ROUNDS):
        labels, distances = _assign(rows, lengths, centres)
        sizes = np.bincount(labels, minlength=len(centres))
        moved = _sums(rows, labels, len(centres)) / np.maximum(sizes, 1)[:, None]
        # An empty cluster restarts at the row that is farthest from its centre.
        for place, row in zip(np.flatnonzero(sizes == 0), np.argsort(-distances), strict=False):
            moved[place] = rows[row]
        shift = float(((moved - centres) ** 2).sum())
        centres = moved
        if shift <= rest:
            break
    return centres


def _mini_batches(points: PointSet, centres: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return centres after mini-batches; each batch moves a centre by the share of rows assigned to it."""
    rows, lengths = points.rows, points.lengths
    size = min(BATCH, len(rows))
    won = np.zeros(len(centres))
    memory = min(1.0, 2 * size / (len(rows) + 1))
    average, best, since = None, np.inf, 0
    for _ in range(MOST_ROUNDS * len(rows) // size):
        batch = rng.integers(len(rows), size=size)
        some = rows[batch]
        labels, distances = _assign(some, lengths[batch], centres)
        sizes = np.bincount(labels, minlength=len(centres)).astype(np.float64)
        before, won = won, won + sizes
        moving = sizes > 0
        pulled = (centres * before[:, None] + _sums(some, labels, len(centres))) / np.maximum(won, 1)[:, None]
        centres = np.where(moving[:, None], pulled, centres)
        inertia = float(distances.mean())
        average = inertia if average is None else average * (1 - memory) + inertia * memory
        best, since = (average, 0) if average < best else (best, since + 1)
        if since >= PATIENCE:
            break
    return centres


def _assign(rows: FloatArray, lengths: FloatArray, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the nearest centre of every row, and the squared distance to it."""
    distances = squared(rows, lengths, centres)
    labels: IntArray = distances.argmin(axis=1)
    return labels, distances[np.arange(len(rows)), labels]


def _sums(rows: FloatArray, labels: IntArray, count: int) -> FloatArray:
    one_hot = np.zeros((count, len(rows)))
    one_hot[labels, np.arange(len(rows))] = 1.0
    return one_hot @ rows
