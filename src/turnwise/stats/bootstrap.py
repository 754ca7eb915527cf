"""Clustered bootstrap: rows of one context are correlated, so whole contexts are drawn.

A resample is kept as the number of times that each cluster was drawn, never as a copy of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import (
    FloatArray,
    IntArray,
    Labels,
    cluster_codes,
    complete_rows,
    floats,
    is_constant,
    sum_by_cluster,
)
from turnwise.stats.correlation import (
    WeightedMethod,
    pearson_moments,
    pearson_of_moments,
    ranks_of_weights,
    spearman_of_ranks,
    tie_groups,
)

Statistic = Callable[[FloatArray], FloatArray]
Seed = int | np.random.SeedSequence

RESAMPLES = 10_000
# Weights are made this many at a time: half a megabyte stays in the processor's cache.
_WEIGHTS_AT_ONCE = 2**16


@dataclass(frozen=True, slots=True)
class Interval:
    """Hold a confidence interval."""

    low: float
    high: float


def percentile_interval(resampled: FloatArray, level: float) -> Interval | None:
    """Return the middle `level` of resampled values; None if at most half of them are defined."""
    defined = resampled[np.isfinite(resampled)]
    if 2 * len(defined) <= len(resampled):
        return None
    tail = (1 - level) / 2
    low, high = np.quantile(defined, (tail, 1 - tail))
    return Interval(float(low), float(high))


def normal_interval(value: float, standard_error: float, level: float) -> Interval:
    """Return the interval of an estimate that is normal around its true value.

    >>> round(normal_interval(10.0, 1.0, 0.95).low, 4)
    8.04
    """
    reach = NormalDist().inv_cdf((1 + level) / 2) * standard_error
    return Interval(value - reach, value + reach)


def bootstrap(statistic: Statistic, clusters: Labels | None, rows: int, resamples: int, seed: Seed) -> FloatArray:
    """Return the statistic of every resample; the first axis is that of the resamples.

    `statistic` takes weights (rows, some resamples) and gives one value, or one row of values, for each.
    """
    codes, count = cluster_codes(clusters, rows)
    rng = np.random.default_rng(seed)
    every_row_alone = rows == count and bool((codes == np.arange(rows)).all())
    at_once = max(1, _WEIGHTS_AT_ONCE // max(rows, 1))
    parts = []
    for start in range(0, resamples, at_once):
        drawn = _draw(count, min(at_once, resamples - start), rng)
        parts.append(statistic(drawn if every_row_alone else drawn[codes]))
    return np.concatenate(parts)


def mean_interval(
    values: ArrayLike,
    clusters: Labels | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> Interval | None:
    """Return the clustered percentile interval of a mean, as the reproduced tables have it; None below two clusters.

    NaN values are left out. Intervals of new results come from `stats.decisions`.
    """
    table = floats(values)[:, None]
    codes, count = cluster_codes(clusters, len(table))
    if count < 2:
        return None
    return percentile_interval(resampled_means(*cluster_totals(table, codes, count), resamples, seed)[:, 0], level)


def correlation_interval(
    x: ArrayLike,
    y: ArrayLike,
    clusters: Labels | None = None,
    method: WeightedMethod = "spearman",
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> Interval | None:
    """Return the clustered percentile interval of a correlation; None if the correlation is undefined."""
    first, second = floats(x), floats(y)
    codes, _ = cluster_codes(clusters, len(first))
    complete = complete_rows(first, second)
    first, second = first[complete], second[complete]
    if method == "spearman":
        return spearman_intervals([first], [second], codes[complete], resamples, seed, level)[0][0]
    codes, count = cluster_codes(codes[complete], len(first))
    if len(first) < 3 or is_constant(first) or is_constant(second) or count < 2:
        return None
    # Moments add up within a cluster, so the cost depends on the number of clusters alone.
    totals = sum_by_cluster(pearson_moments(first, second), codes, count)
    drawn = bootstrap(lambda weights: pearson_of_moments(weights.T @ totals), None, count, resamples, seed)
    return percentile_interval(drawn, level)


def cluster_totals(values: FloatArray, codes: IntArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the sum and the number of non-missing values, by cluster and column."""
    present = ~np.isnan(values)
    sums = sum_by_cluster(np.where(present, values, 0.0), codes, count)
    return sums, sum_by_cluster(present.astype(np.float64), codes, count)


def resampled_means(sums: FloatArray, sizes: FloatArray, resamples: int, seed: Seed) -> FloatArray:
    """Return the means of resampled clusters, given each cluster's sums and sizes: shape (resamples, columns)."""

    def means(weights: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.divide(weights.T @ sums, weights.T @ sizes)

    return bootstrap(means, None, len(sums), resamples, seed)


def mean_and_error(sums: FloatArray, sizes: FloatArray) -> tuple[float, float]:
    """Return a mean over clusters, and its cluster-robust standard error."""
    clusters = int(np.count_nonzero(sizes))
    mean = sums.sum() / sizes.sum()
    deviations = sums - mean * sizes
    variance = clusters / (clusters - 1) * (deviations @ deviations) / sizes.sum() ** 2
    return float(mean), float(np.sqrt(variance))


def _draw(count: int, resamples: int, rng: np.random.Generator) -> FloatArray:
    """Return multinomial counts of `count` draws among as many clusters, one column per resample."""
    # Counting draws is several times faster than the generator's own multinomial.
    cells = rng.integers(0, count, size=(count, resamples))
    cells *= resamples
    cells += np.arange(resamples)
    counts = np.bincount(cells.ravel(), minlength=count * resamples)
    return counts.reshape(count, resamples).astype(np.float64)


def spearman_intervals(
    scores: Sequence[ArrayLike],
    ratings: Sequence[ArrayLike],
    clusters: Labels | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> list[list[Interval | None]]:
    """Return the `correlation_interval` of each column of scores with each of ratings; no value may be missing.

    >>> ((found, constant),) = spearman_intervals([[1, 2, 3, 4]], [[1, 2, 3, 4], [1, 1, 1, 1]], resamples=50)
    >>> round(found.low, 9), constant
    (1.0, None)
    """
    left, right = [floats(column) for column in scores], [floats(column) for column in ratings]
    known: list[list[Interval | None]] = [[None] * len(right) for _ in left]
    rows = len(left[0]) if left else 0
    _, count = cluster_codes(clusters, rows)
    varied = [[place for place, column in enumerate(side) if not is_constant(column)] for side in (left, right)]
    if rows < 3 or count < 2 or not all(varied):
        return known
    ties = [[tie_groups(side[place]) for place in places] for side, places in zip((left, right), varied, strict=True)]

    def correlations(weights: FloatArray) -> FloatArray:
        total = weights.sum(axis=0)
        ranked = [ranks_of_weights(one, weights, total) for one in ties[1]]
        found = []
        for one in ties[0]:
            ranks = ranks_of_weights(one, weights, total)
            found += spearman_of_ranks(ranks, ranked, weights)
        return np.stack(found, axis=1)

    drawn = bootstrap(correlations, clusters, rows, resamples, seed)
    places = [(i, j) for i in varied[0] for j in varied[1]]
    for (i, j), column in zip(places, drawn.T, strict=True):
        known[i][j] = percentile_interval(column, level)
    return known


def system_correlation_interval(
    scores: ArrayLike,
    ratings: ArrayLike,
    systems: Labels,
    clusters: Labels,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> Interval | None:
    """Return the interval of Spearman's correlation between mean scores and mean ratings of systems.

    Resamples in which every system has the same mean have no correlation and are left out.
    """
    from scipy.stats import rankdata

    by_system, count = cluster_codes(systems, len(systems))
    by_cluster, clusters_found = cluster_codes(clusters, len(clusters))
    if count < 3 or clusters_found < 2:
        return None
    member = by_system[:, None] == np.arange(count)
    columns = [np.where(member, floats(values)[:, None], np.nan) for values in (scores, ratings)]
    means = resampled_means(*cluster_totals(np.hstack(columns), by_cluster, clusters_found), resamples, seed)
    means = means[~np.isnan(means).any(axis=1)]
    ranks = [rankdata(half, axis=1) - (count + 1) / 2 for half in (means[:, :count], means[:, count:])]
    lengths = np.sqrt((ranks[0] ** 2).sum(axis=1) * (ranks[1] ** 2).sum(axis=1))
    defined = lengths > 0
    if not defined.any():
        return None
    return percentile_interval((ranks[0] * ranks[1]).sum(axis=1)[defined] / lengths[defined], level)
