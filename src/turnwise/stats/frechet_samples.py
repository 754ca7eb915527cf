"""Fréchet distances between many resamples of the same two sets, at a cost that does not grow with the sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.stats.arrays import FloatArray, IntArray, floats
from turnwise.stats.frechet import Frechet, frechet_of_moments, frechet_of_rows
from turnwise.stats.moments import Moments


def frechet_by_counts(
    x: ArrayLike, y: ArrayLike, x_units: IntArray, y_units: IntArray, units: int, ddof: int = 1
) -> Callable[[FloatArray], Frechet]:
    """A function from how often each unit occurs to the distance; every vector belongs to a unit.

    With fewer vectors than dimensions the vectors themselves are counted. Otherwise the moments of each unit are kept,
    and a resample adds them up.
    """
    first, second = np.asarray(x), np.asarray(y)
    if min(len(first), len(second)) <= first.shape[1]:
        x_rows, y_rows = floats(first), floats(second)
        return lambda counts: frechet_of_rows(x_rows, y_rows, counts[x_units], counts[y_units], ddof)
    x_parts, y_parts = _Parts(first, x_units, units), _Parts(second, y_units, units)
    return lambda counts: frechet_of_moments(x_parts.moments(counts), y_parts.moments(counts), ddof)


class _Parts:
    """The moments of every unit of one set."""

    def __init__(self, rows: NDArray[Any], row_units: IntArray, units: int) -> None:
        parts = [Moments.of(rows[row_units == unit]) for unit in range(units)]
        self.n = np.array([part.n for part in parts])
        self.means = np.array([part.mean for part in parts])
        self.scatters = np.array([part.scatter.ravel() for part in parts])

    def moments(self, counts: FloatArray) -> Moments:
        sizes = counts * self.n
        total = float(sizes.sum())
        mean = sizes @ self.means / total
        apart = (self.means - mean) * np.sqrt(sizes)[:, None]
        return Moments(total, mean, (counts @ self.scatters).reshape(len(mean), -1) + apart.T @ apart)
