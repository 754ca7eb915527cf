"""Is one system better than another, or could it be chance?

Contexts are the unit throughout: the rows of a cluster are drawn, flipped or dealt out together. Beyond
MANY_CLUSTERS clusters every interval and p is the normal limit of its resampled form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import (
    BoolArray,
    FloatArray,
    Labels,
    cluster_codes,
    complete_rows,
    floats,
    is_constant,
    sum_by_cluster,
)
from turnwise.stats.bootstrap import (
    MANY_CLUSTERS,
    RESAMPLES,
    cluster_totals,
    mean_and_error,
    normal_interval,
    percentile_interval,
    resampled_means,
)
from turnwise.stats.correlation import WeightedMethod, average_ranks
from turnwise.stats.regression import standardise

# Scores that differ by less than this share of their size are the same but for rounding: a model answers in 32 bits,
# and not to the last of them alike in every batch.
ROUNDING = 1e-7
_normal_cdf = NormalDist().cdf


@dataclass(frozen=True, slots=True)
class Comparison:
    """Mean of the first system minus mean of the second, with an interval and a two-sided p."""

    difference: float
    low: float
    high: float
    p: float


# --- two systems that answered the same contexts: row by row -----------------------------------------------


def paired_bootstrap(
    first: ArrayLike,
    second: ArrayLike,
    clusters: Labels | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> Comparison | None:
    """Compare paired rows by resampling clusters; p is the share of resamples beyond zero, doubled.

    Pairs with a missing side are left out. None with fewer than two clusters.
    """
    sums, sizes = _totals(_differences(first, second), clusters)
    if len(sums) < 2:
        return None
    difference, error = mean_and_error(sums, sizes)
    if len(sums) > MANY_CLUSTERS:
        return _normal_comparison(difference, error, level)
    drawn = resampled_means(sums[:, None], sizes[:, None], resamples, seed)[:, 0]
    return _bootstrap_comparison(difference, drawn, level)


def sign_flip_test(
    first: ArrayLike,
    second: ArrayLike,
    clusters: Labels | None = None,
    permutations: int = RESAMPLES,
    seed: int = 0,
) -> float | None:
    """Approximate randomisation of paired rows: two-sided p, by flipping the signs of whole clusters.

    Exact, over all patterns of signs, where there are no more of them than `permutations`.
    """
    sums, _ = _totals(_differences(first, second), clusters)
    count = len(sums)
    if count == 0:
        return None
    if count > MANY_CLUSTERS:
        return two_sided_p(float(sums.sum()), float(np.sqrt(sums @ sums)))

    def totals(flipped: FloatArray) -> FloatArray:
        return np.asarray((1 - 2 * flipped) @ sums)

    if 2**count <= permutations:
        patterns = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        return share_as_extreme(totals(patterns.astype(np.float64)), float(sums.sum()))
    return randomised_p(totals, np.zeros(count), coin_flips(count, seed), permutations)


# --- two systems that answered different contexts ----------------------------------------------------------


def unpaired_bootstrap(
    first: ArrayLike,
    second: ArrayLike,
    first_clusters: Labels | None = None,
    second_clusters: Labels | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> Comparison | None:
    """Compare two sets of rows, each side's clusters drawn on their own; None with fewer than two on a side."""
    sides = _totals(floats(first), first_clusters), _totals(floats(second), second_clusters)
    counts = [len(sums) for sums, _ in sides]
    if min(counts) < 2:
        return None
    if _all_alike(first, second):
        return Comparison(0.0, 0.0, 0.0, 1.0)
    difference, error = _difference_and_error(*sides)
    if max(counts) > MANY_CLUSTERS:
        return _normal_comparison(difference, error, level)
    # Two streams, or systems with equally many clusters would be drawn in step.
    streams = np.random.SeedSequence(seed).spawn(2)
    first_drawn, second_drawn = (
        resampled_means(sums[:, None], sizes[:, None], resamples, stream)[:, 0]
        for (sums, sizes), stream in zip(sides, streams, strict=True)
    )
    return _bootstrap_comparison(difference, first_drawn - second_drawn, level)


def label_permutation_test(
    first: ArrayLike,
    second: ArrayLike,
    first_clusters: Labels | None = None,
    second_clusters: Labels | None = None,
    permutations: int = RESAMPLES,
    seed: int = 0,
) -> float | None:
    """Two-sided p of an unpaired difference of means, by dealing the clusters out to the systems anew."""
    sides = _totals(floats(first), first_clusters), _totals(floats(second), second_clusters)
    counts = [len(sums) for sums, _ in sides]
    if min(counts) == 0:
        return None
    if _all_alike(first, second):
        return 1.0
    if sum(counts) > MANY_CLUSTERS and min(counts) > 1:
        return two_sided_p(*_difference_and_error(*sides))
    totals = np.concatenate([np.column_stack(side) for side in sides])
    as_observed = (np.arange(len(totals)) < counts[0]).astype(np.float64)

    def differences(dealt: FloatArray) -> FloatArray:
        mine = dealt @ totals
        theirs = totals.sum(axis=0) - mine
        return np.asarray(mine[:, 0] / mine[:, 1] - theirs[:, 0] / theirs[:, 1])

    return randomised_p(differences, as_observed, random_choices(len(totals), counts[0], seed), permutations)


# --- many tests at once ------------------------------------------------------------------------------------


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction; a test without a p is not counted and stays None.

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    given = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(given):
        largest = max(largest, min(1.0, p * (len(given) - rank)))
        corrected[place] = largest
    return corrected


# --- shared ------------------------------------------------------------------------------------------------


def same_but_for_rounding(first: ArrayLike, second: ArrayLike) -> BoolArray:
    """Which pairs of numbers are the same as far as they can be trusted.

    >>> same_but_for_rounding([0.3, 0.3, 0.0], [0.1 + 0.2, 0.30001, 0.0]).tolist()
    [True, False, True]
    """
    a, b = floats(first), floats(second)
    same: BoolArray = np.abs(a - b) <= ROUNDING * np.maximum(np.abs(a), np.abs(b))
    return same


def _differences(first: ArrayLike, second: ArrayLike) -> FloatArray:
    differences: FloatArray = floats(first) - floats(second)
    return np.where(same_but_for_rounding(first, second), 0.0, differences)


def _all_alike(first: ArrayLike, second: ArrayLike) -> bool:
    """Whether every number on both sides is the same: then there is nothing to compare but rounding."""
    values = np.concatenate([floats(first), floats(second)])
    return bool(same_but_for_rounding(np.nanmin(values), np.nanmax(values)))


def _totals(values: FloatArray, clusters: Labels | None) -> tuple[FloatArray, FloatArray]:
    """Sum and number of the values in each cluster that has any."""
    sums, sizes = cluster_totals(values[:, None], *cluster_codes(clusters, len(values)))
    there = sizes[:, 0] > 0
    return sums[there, 0], sizes[there, 0]


def _difference_and_error(
    first: tuple[FloatArray, FloatArray], second: tuple[FloatArray, FloatArray]
) -> tuple[float, float]:
    (mean_a, error_a), (mean_b, error_b) = mean_and_error(*first), mean_and_error(*second)
    return mean_a - mean_b, float(np.hypot(error_a, error_b))


def _bootstrap_comparison(difference: float, drawn: FloatArray, level: float) -> Comparison | None:
    interval = percentile_interval(drawn, level)
    if interval is None:
        return None
    beyond = min(np.count_nonzero(drawn <= 0), np.count_nonzero(drawn >= 0))
    p = min(1.0, 2 * (int(beyond) + 1) / (len(drawn) + 1))
    return Comparison(difference, interval.low, interval.high, p)


def _normal_comparison(difference: float, error: float, level: float) -> Comparison:
    interval = normal_interval(difference, error, level)
    return Comparison(difference, interval.low, interval.high, two_sided_p(difference, error))


def two_sided_p(difference: float, error: float, cdf: Callable[[float], SupportsFloat] = _normal_cdf) -> float:
    """Return the two-sided p of a difference, given its standard error and the distribution of their ratio."""
    return 2 * float(cdf(-abs(difference) / error)) if error > 0 else float(difference == 0)


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
    """The share of values at least as far from zero as the observed one."""
    sizes = np.abs(values)
    return float(np.mean(sizes >= abs(observed) - _TIE * sizes.max()))


def coin_flips(count: int, seed: int) -> Callable[[int], FloatArray]:
    """A source of rows of `count` fair coin flips."""
    rng = np.random.default_rng(seed)
    return lambda rows: rng.integers(0, 2, size=(rows, count), dtype=np.int8).astype(np.float64)


def random_choices(count: int, chosen: int, seed: int) -> Callable[[int], FloatArray]:
    """A source of rows in which `chosen` of `count` places, at random, are one and the others zero."""
    rng = np.random.default_rng(seed)

    def draw(rows: int) -> FloatArray:
        # Who holds the smallest random keys is a fair choice, and several times faster than shuffling. Two
        # equal keys at the cut, one chance in a million, only deal one place too many.
        keys = rng.integers(0, 2**32, size=(rows, count), dtype=np.uint32)
        largest_chosen = np.partition(keys, chosen - 1, axis=1)[:, chosen - 1 : chosen]
        return (keys <= largest_chosen).astype(np.float64)

    return draw


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
