"""Count, mean and scatter of vectors: statistics that stream, merge in any order and come apart again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import FloatArray, floats

# Rows that are turned into double precision at a time.
ROWS_AT_ONCE = 8192


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """How many vectors, their mean, and the sum of outer products of their deviations from it."""

    n: float
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, rows: ArrayLike) -> Moments:
        """The moments of the rows of a table."""
        table = np.asarray(rows)
        parts = [table[start : start + ROWS_AT_ONCE] for start in range(0, max(len(table), 1), ROWS_AT_ONCE)]
        return merged(_moments(part) for part in parts)

    @property
    def width(self) -> int:
        """The number of dimensions."""
        return len(self.mean)

    def covariance(self, ddof: int = 1) -> FloatArray:
        """The covariance; `ddof` is what the divisor is smaller than n by.

        >>> Moments.of([[0.0], [2.0]]).covariance().tolist()
        [[2.0]]
        """
        if self.n <= ddof:
            raise ValueError(f"{self.n:g} vectors have no covariance with ddof {ddof}")
        return self.scatter / (self.n - ddof)

    def __add__(self, other: Moments) -> Moments:
        n = self.n + other.n
        if not n:
            return self
        apart = other.mean - self.mean
        mean = self.mean + apart * (other.n / n)
        return Moments(n, mean, self.scatter + other.scatter + np.outer(apart, apart) * (self.n * other.n / n))

    def __sub__(self, other: Moments) -> Moments:
        n = self.n - other.n
        if n <= 0:
            return Moments(0.0, np.zeros_like(self.mean), np.zeros_like(self.scatter))
        mean = self.mean + (self.mean - other.mean) * (other.n / n)
        apart = other.mean - mean
        return Moments(n, mean, self.scatter - other.scatter - np.outer(apart, apart) * (n * other.n / self.n))


def merged(parts: Iterable[Moments]) -> Moments:
    """The moments of everything, however many parts come: memory holds one part and the sum.

    >>> merged(Moments.of(batch) for batch in ([[0.0], [2.0]], [[4.0]])).mean.tolist()
    [2.0]
    """
    total: Moments | None = None
    for part in parts:
        total = part if total is None else total + part
    if total is None:
        raise ValueError("no vectors")
    return total


def _moments(rows: ArrayLike) -> Moments:
    table = floats(rows)
    if table.ndim != 2:
        raise ValueError(f"a table of vectors has two dimensions, not {table.ndim}")
    if not len(table):
        width = table.shape[1]
        return Moments(0.0, np.zeros(width), np.zeros((width, width)))
    mean = table.mean(axis=0)
    centred = table - mean
    return Moments(float(len(table)), mean, centred.T @ centred)
