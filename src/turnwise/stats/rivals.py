"""Two metrics against the same people: does one really agree with them better than the other?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import FloatArray, Labels, cluster_codes, complete_rows, floats, sum_by_cluster
from turnwise.stats.bootstrap import RESAMPLES
from turnwise.stats.correlation import average_ranks
from turnwise.stats.randomisation import coin_flips, randomised_p
from turnwise.stats.regression import standardise
from turnwise.stats.weighted import WeightedMethod


@dataclass(frozen=True, slots=True)
class StudentTest:
    """A t statistic, its degrees of freedom and its two-sided p."""

    t: float
    freedom: int
    p: float


def williams_test(first: float, second: float, between: float, n: int) -> StudentTest | None:
    """Williams (1959): are two metrics' correlations with people equal, given their own correlation?

    None with fewer than four items, or where the three correlations leave no room for chance.

    >>> round(williams_test(0.3, 0.4, 0.5, 100).t, 4)
    -1.0767
    """
    if n < 4:
        return None
    determinant = 1 - first**2 - second**2 - between**2 + 2 * first * second * between
    mean_square = ((first + second) / 2) ** 2
    scale = 2 * determinant * (n - 1) / (n - 3) + mean_square * (1 - between) ** 3
    if scale <= 1e-15:
        return None
    from scipy.special import stdtr

    t = float((first - second) * np.sqrt((n - 1) * (1 + between) / scale))
    return StudentTest(t, n - 3, float(2 * stdtr(n - 3, -abs(t))))


def metric_permutation_p(
    first: ArrayLike,
    second: ArrayLike,
    human: ArrayLike,
    clusters: Labels | None = None,
    method: WeightedMethod = "spearman",
    permutations: int = RESAMPLES,
    seed: int = 0,
) -> float | None:
    """Two-sided p of the difference between two metrics' correlations with people.

    If the metrics were equally good they could be exchanged on any item, so their scores, put on one scale
    (z-scores; of ranks for Spearman), are swapped on random clusters. None where a column is constant.
    """
    columns = [floats(column) for column in (first, second, human)]
    codes, _ = cluster_codes(clusters, len(columns[0]))
    complete = complete_rows(*columns)
    columns = [column[complete] for column in columns]
    n = int(complete.sum())
    if n < 3 or any(column.min() == column.max() for column in columns):
        return None
    if method == "spearman":
        columns = [average_ranks(column) for column in columns]
    a, b, people = (standardise(column) for column in columns)
    codes, count = cluster_codes(codes[complete], n)
    # A correlation with people needs three sums, and a swapped cluster moves its share of them across.
    sums_a, sums_b = (np.array([scores.sum(), scores @ scores, scores @ people]) for scores in (a, b))
    shares = sum_by_cluster(np.column_stack([b - a, b * b - a * a, (b - a) * people]), codes, count)

    def differences(swapped: FloatArray) -> FloatArray:
        moved = swapped @ shares
        return _correlation_of_sums(sums_a + moved, n) - _correlation_of_sums(sums_b - moved, n)

    return randomised_p(differences, np.zeros(count), coin_flips(count, seed), permutations)


def _correlation_of_sums(sums: FloatArray, n: int) -> FloatArray:
    """Correlation with a standardised variable, from rows of (sum, sum of squares, sum of products)."""
    total, squares, products = sums.T
    deviations = squares - total * total / n
    with np.errstate(divide="ignore", invalid="ignore"):
        # Swapped scores that happen to be all equal say nothing about people.
        return np.where(deviations > 1e-12 * n, products / np.sqrt(deviations * n), 0.0)
