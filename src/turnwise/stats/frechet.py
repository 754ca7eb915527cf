"""Compute the Fréchet distance from moments that stream, merge and subtract, and test normality."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.stats.arrays import FloatArray, IntArray, floats

# Rows that are turned into double precision at a time.
ROWS_AT_ONCE = 8192


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Hold the number of vectors, their mean, and the sum of outer products of their deviations from it."""

    n: float
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, rows: ArrayLike) -> Moments:
        """Return the moments of the rows of a table."""
        table = np.asarray(rows)
        parts = [table[start : start + ROWS_AT_ONCE] for start in range(0, max(len(table), 1), ROWS_AT_ONCE)]
        return merged(_moments(part) for part in parts)

    @property
    def width(self) -> int:
        """Return the number of dimensions."""
        return len(self.mean)

    def covariance(self, ddof: int = 1) -> FloatArray:
        """Return the covariance, with divisor n - `ddof`.

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
    """Return the moments of all parts; memory holds one part and the sum.

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


@dataclass(frozen=True, slots=True)
class Frechet:
    """Hold the distance of the means and the difference of the spreads."""

    mean: float
    spread: float

    def value(self, squared: bool = True) -> float:
        """Return the distance; 0 if rounding leaves a negative number."""
        return max(0.0, (self.mean**2 if squared else self.mean) + self.spread)


def frechet(x: ArrayLike, y: ArrayLike, ddof: int = 1) -> Frechet:
    """Return the distance between the rows of two tables.

    >>> frechet([[0.0], [2.0]], [[5.0], [9.0]]).value(), frechet([[0.0], [2.0]], [[5.0], [9.0]]).value(squared=False)
    (38.0, 8.0)
    """
    first, second = np.asarray(x), np.asarray(y)
    if min(len(first), len(second)) > first.shape[1]:
        return frechet_of_moments(Moments.of(first), Moments.of(second), ddof)
    return frechet_of_rows(first, second, ddof=ddof)


def frechet_of_moments(x: Moments, y: Moments, ddof: int = 1) -> Frechet:
    """Return the distance between two normal distributions, given by their moments."""
    first, second = x.covariance(ddof), y.covariance(ddof)
    spread = np.trace(first) + np.trace(second) - 2 * root_trace(first, second)
    return Frechet(float(np.linalg.norm(x.mean - y.mean)), float(spread))


def frechet_of_rows(
    x: ArrayLike,
    y: ArrayLike,
    x_counts: FloatArray | None = None,
    y_counts: FloatArray | None = None,
    ddof: int = 1,
) -> Frechet:
    """Return the distance between few vectors in many dimensions; counts say how often each row occurs."""
    (x_mean, a), (y_mean, b) = _scaled(floats(x), x_counts, ddof), _scaled(floats(y), y_counts, ddof)
    spread = np.vdot(a, a) + np.vdot(b, b) - 2 * root_trace_of_rows(a, b)
    return Frechet(float(np.linalg.norm(x_mean - y_mean)), float(spread))


def root_trace(first: FloatArray, second: FloatArray) -> float:
    """Return Tr((S S')^(1/2)) of two covariances: the roots of the eigenvalues of L' S' L, where S = L L'.

    >>> round(root_trace(np.diag([4.0, 1.0]), np.diag([9.0, 0.25])), 6)
    6.5
    """
    try:
        factor = np.linalg.cholesky(first)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(first)
        factor = vectors * np.sqrt(np.maximum(values, 0.0))
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(factor.T @ second @ factor), 0.0)).sum())


def root_trace_of_rows(a: FloatArray, b: FloatArray) -> float:
    """Return `root_trace` of covariances A'A and B'B: the nuclear norm of A B'."""
    return float(np.linalg.svd(_shortened(a) @ _shortened(b).T, compute_uv=False).sum())


def _shortened(rows: FloatArray) -> FloatArray:
    """Return at most as many rows as dimensions, with the same covariance."""
    if len(rows) <= rows.shape[1]:
        return rows
    triangle: FloatArray = np.linalg.qr(rows)[1]
    return triangle


def _scaled(rows: FloatArray, counts: FloatArray | None, ddof: int) -> tuple[FloatArray, FloatArray]:
    """Return the mean, and rows A such that A'A is the covariance."""
    if counts is None:
        counts = np.ones(len(rows))
    present = counts > 0
    rows, counts = rows[present], counts[present]
    n = counts.sum()
    if n <= ddof:
        raise ValueError(f"{n:g} vectors have no covariance with ddof {ddof}")
    mean = counts @ rows / n
    return mean, (rows - mean) * np.sqrt(counts / (n - ddof))[:, None]


def frechet_by_counts(
    x: ArrayLike, y: ArrayLike, x_units: IntArray, y_units: IntArray, units: int, ddof: int = 1
) -> Callable[[FloatArray], Frechet]:
    """Return a function from unit counts to the distance; every vector belongs to a unit.

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
    """Hold the moments of every unit of one set."""

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


SIGNIFICANT = 0.05
FEWEST = 3


@dataclass(frozen=True, slots=True, eq=False)
class Normality:
    """Hold Shapiro and Wilk's W and its p for every dimension that varies, and the number of vectors.

    W near 1 is near normal; p is the chance of a W so low among normal samples of this size.
    """

    w: FloatArray
    p: FloatArray
    n: int

    @property
    def rejected(self) -> float:
        """Return the share of dimensions that are not normal at the 5 % level."""
        return float((self.p < SIGNIFICANT).mean())


def shapiro_wilk(rows: ArrayLike) -> Normality:
    """Test every dimension of a table of vectors.

    >>> found = shapiro_wilk([[0.0], [1.0], [2.0], [3.0], [4.0]])
    >>> round(float(found.w[0]), 4), found.rejected
    (0.9868, 0.0)
    """
    from scipy.stats import shapiro

    table = floats(rows)
    if len(table) < FEWEST:
        raise ValueError(f"{len(table)} vectors are too few for a test of normality; it takes {FEWEST}")
    varying = table[:, np.ptp(table, axis=0) > 0]
    if not varying.shape[1]:
        raise ValueError("the vectors are all the same")
    tested = [shapiro(column) for column in varying.T]
    return Normality(np.array([t.statistic for t in tested]), np.array([t.pvalue for t in tested]), len(table))
