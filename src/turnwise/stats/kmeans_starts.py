"""Where k-means starts (k-means++): many starts side by side, which costs little more than one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

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
