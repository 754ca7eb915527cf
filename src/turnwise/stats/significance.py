"""Does one metric agree with people better than another, or could it be chance?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import (
    FloatArray,
    Labels,
    cluster_codes,
    complete_rows,
    floats,
    is_constant,
    sum_by_cluster,
)
from turnwise.stats.bootstrap import (
    RESAMPLES,
)
from turnwise.stats.correlation import WeightedMethod, average_ranks
from turnwise.stats.regression import standardise

# Values that differ by less than this share of the largest are the same but for rounding.
_TIE = 1e-9
_CELLS_AT_ONCE = 2**18


def randomised_p(
    statistic: Callable[[FloatArray], FloatArray],
    as_observed: FloatArray,
    draw: Callable[[int], FloatArray],
    permutations: int,
) -> float:
    """Two-sided p of a statistic of arrangements, given as rows of ones and zeros over clusters.

    `draw` makes so many random arrangements. The observed one counts among them, so p is never zero.
    """
    observed = statistic(as_observed[None, :])
    at_once = max(1, _CELLS_AT_ONCE // len(as_observed))
    sizes = [min(at_once, permutations - start) for start in range(0, permutations, at_once)]
    values = np.concatenate([observed, *(statistic(draw(size)) for size in sizes)])
    return share_as_extreme(values, float(observed[0]))


def share_as_extreme(values: FloatArray, observed: float) -> float:
    """Return the share of values at least as far from zero as the observed one."""
    sizes = np.abs(values)
    return float(np.mean(sizes >= abs(observed) - _TIE * sizes.max()))


def coin_flips(count: int, seed: int) -> Callable[[int], FloatArray]:
    """Return a source of rows of `count` fair coin flips."""
    rng = np.random.default_rng(seed)
    return lambda rows: rng.integers(0, 2, size=(rows, count), dtype=np.int8).astype(np.float64)


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
    if n < 3 or any(is_constant(column) for column in columns):
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
