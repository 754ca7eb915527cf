"""The Fréchet distance between two sets of vectors, each taken as a normal distribution.

    squared:  |m - m'|^2 + Tr(S + S' - 2 (S S')^(1/2))        unsquared:  |m - m'| + the same trace

The trace of the matrix root is computed exactly and without that root: with no more vectors than dimensions it is the
sum of the singular values of a small matrix, otherwise that of the roots of a symmetric matrix's eigenvalues.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import FloatArray, floats
from turnwise.stats.moments import Moments


@dataclass(frozen=True, slots=True)
class Frechet:
    """How far apart the means are, and how different the spreads are."""

    mean: float
    spread: float

    def value(self, squared: bool = True) -> float:
        """The distance; rounding may leave a trace below zero between equal sets."""
        return max(0.0, (self.mean**2 if squared else self.mean) + self.spread)


def frechet(x: ArrayLike, y: ArrayLike, ddof: int = 1) -> Frechet:
    """The distance between the rows of two tables.

    >>> frechet([[0.0], [2.0]], [[5.0], [9.0]]).value(), frechet([[0.0], [2.0]], [[5.0], [9.0]]).value(squared=False)
    (38.0, 8.0)
    """
    first, second = np.asarray(x), np.asarray(y)
    if min(len(first), len(second)) > first.shape[1]:
        return frechet_of_moments(Moments.of(first), Moments.of(second), ddof)
    return frechet_of_rows(first, second, ddof=ddof)


def frechet_of_moments(x: Moments, y: Moments, ddof: int = 1) -> Frechet:
    """The distance between two normal distributions, given by their moments."""
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
    """The distance between few vectors in many dimensions; counts say how often each row occurs."""
    (x_mean, a), (y_mean, b) = _scaled(floats(x), x_counts, ddof), _scaled(floats(y), y_counts, ddof)
    spread = np.vdot(a, a) + np.vdot(b, b) - 2 * root_trace_of_rows(a, b)
    return Frechet(float(np.linalg.norm(x_mean - y_mean)), float(spread))


def root_trace(first: FloatArray, second: FloatArray) -> float:
    """Tr((S S')^(1/2)) of two covariances: the roots of the eigenvalues of L' S' L, where S = L L'.

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
    """The same, for covariances A'A and B'B that are given by A and B: the nuclear norm of A B'."""
    return float(np.linalg.svd(_shortened(a) @ _shortened(b).T, compute_uv=False).sum())


def _shortened(rows: FloatArray) -> FloatArray:
    """No more rows than dimensions, with the same covariance."""
    if len(rows) <= rows.shape[1]:
        return rows
    triangle: FloatArray = np.linalg.qr(rows)[1]
    return triangle


def _scaled(rows: FloatArray, counts: FloatArray | None, ddof: int) -> tuple[FloatArray, FloatArray]:
    """The mean, and rows A such that A'A is the covariance."""
    if counts is None:
        counts = np.ones(len(rows))
    present = counts > 0
    rows, counts = rows[present], counts[present]
    n = counts.sum()
    if n <= ddof:
        raise ValueError(f"{n:g} vectors have no covariance with ddof {ddof}")
    mean = counts @ rows / n
    return mean, (rows - mean) * np.sqrt(counts / (n - ddof))[:, None]
