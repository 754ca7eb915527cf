"""Where k-means starts (k-means++): many starts side by side, which costs little more than one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from turnwise.stats.arrays import FloatArray, IntArray

# So many rows are held against one another once and for all: a matrix of 32 MiB, which every start then looks up.
MOST_SQUARE = 2048
# So many distances are held at a time; starts that need more are made one after the other.
AT_ONCE = 2**22


class Points:
    """Rows, and the squared distances between them."""

    def __init__(self, rows: FloatArray) -> None:
        self.rows = rows
        self.lengths: FloatArray = np.einsum("ij,ij->i", rows, rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_rows(self, places: IntArray) -> FloatArray:
        """Squared distances (places, rows) of some rows to all."""
        return self._square[places] if len(self) <= MOST_SQUARE else self._measured(places)

    @cached_property
    def _square(self) -> FloatArray:
        return self._measured(np.arange(len(self)))

    def _measured(self, places: IntArray) -> FloatArray:
        return squared(self.rows, self.lengths, self.rows[places]).T


def squared(rows: FloatArray, lengths: FloatArray, centres: FloatArray) -> FloatArray:
    """Squared distances (rows, centres), by one product of matrices."""
    products = rows @ centres.T
    products *= -2.0
    products += lengths[:, None]
    products += np.einsum("ij,ij->i", centres, centres)
    # Rounding may leave a trace below zero where a row is its own centre.
    return np.maximum(products, 0.0, out=products)


def spread_starts(
    points: Points, clusters: int, starts: int, generators: Sequence[np.random.Generator]
) -> tuple[IntArray, FloatArray]:
    """For each generator so many starts: the rows that are centres (generators, starts, clusters), and their fit.

    Each next centre is a row drawn by its squared distance to those before, the best of a few draws. A fit is the sum
    of squared distances to the nearest centre.
    """
    tries = 2 + int(np.log(clusters))
    # All that chance decides is drawn beforehand, so that a start does not depend on which others are made with it.
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


def _spread(points: Points, firsts: IntArray, chances: NDArray[np.float64]) -> tuple[IntArray, FloatArray]:
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
    """Places drawn by weight, (starts, tries); all are as likely where nothing has any weight."""
    totals = weights.sum(axis=1, keepdims=True)
    shares = np.divide(weights, totals, out=np.full_like(weights, 1 / weights.shape[1]), where=totals > 0)
    reached = shares.cumsum(axis=1)
    reached /= reached[:, -1:]
    return np.stack([one.searchsorted(drawn, side="right") for one, drawn in zip(reached, chances, strict=True)])


Flavour = Literal["lloyd", "mini-batch"]

MOST_ROUNDS = 100
# Mini-batches: rows in each, and how many in a row may pass without a better fit.
BATCH = 1024
PATIENCE = 10
# Centres have come to rest when they move less than this share of the data's variance.
REST = 1e-4


def kmeans(
    rows: FloatArray, clusters: int, seed: int = 0, flavour: Flavour = "lloyd", restarts: int = 1
) -> tuple[IntArray, float]:
    """The cluster of every row, and the sum of squared distances to its centre; the best of several starts.

    >>> labels, inertia = kmeans(np.array([[0.0], [1.0], [9.0], [10.0]]), clusters=2)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3]), inertia
    (True, 1.0)
    """
    return kmeans_runs(rows, clusters, [seed], flavour, restarts)[0]


def kmeans_runs(
    rows: FloatArray, clusters: int, seeds: Sequence[int], flavour: Flavour = "lloyd", restarts: int = 1
) -> list[tuple[IntArray, float]]:
    """What `kmeans` gives for each seed; rows are held against one another once for all of them."""
    if len(rows) < clusters:
        raise ValueError(f"{len(rows)} vectors cannot be put into {clusters} clusters")
    points = Points(rows)
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


def _fit(points: Points, candidates: Sequence[FloatArray]) -> tuple[IntArray, float]:
    """The best of some centres: the cluster of every row, and the sum of squared distances."""
    found = [_assign(points.rows, points.lengths, centres) for centres in candidates]
    labels, distances = min(found, key=lambda fit: float(fit[1].sum()))
    return labels, float(distances.sum())


def _lloyd(points: Points, centres: FloatArray) -> FloatArray:
    rows, lengths = points.rows, points.lengths
    rest = REST * float(rows.var(axis=0).mean())
    for _ in range(MOST_ROUNDS):
        labels, distances = _assign(rows, lengths, centres)
        sizes = np.bincount(labels, minlength=len(centres))
        moved = _sums(rows, labels, len(centres)) / np.maximum(sizes, 1)[:, None]
        # An empty cluster starts anew at the row that is worst served.
        for place, row in zip(np.flatnonzero(sizes == 0), np.argsort(-distances), strict=False):
            moved[place] = rows[row]
        shift = float(((moved - centres) ** 2).sum())
        centres = moved
        if shift <= rest:
            break
    return centres


def _mini_batches(points: Points, centres: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Each batch pulls the centres by the share of rows that they have just won."""
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
    """The nearest centre of every row, and the squared distance to it."""
    distances = squared(rows, lengths, centres)
    labels: IntArray = distances.argmin(axis=1)
    return labels, distances[np.arange(len(rows)), labels]


def _sums(rows: FloatArray, labels: IntArray, count: int) -> FloatArray:
    one_hot = np.zeros((count, len(rows)))
    one_hot[labels, np.arange(len(rows))] = 1.0
    return one_hot @ rows
