"""Clustered bootstrap: rows of one context rise and fall together, so whole contexts are drawn.

A resample is kept as the number of times that each cluster was drawn, never as a copy of the data.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import (
    FloatArray,
    IntArray,
    Labels,
    cluster_codes,
    complete_rows,
    floats,
    sum_by_cluster,
)
from turnwise.stats.interval import Interval, normal_interval, percentile_interval
from turnwise.stats.weighted import WeightedMethod, pearson_moments, pearson_of_moments, spearman_of_weights

Statistic = Callable[[FloatArray], FloatArray]
Seed = int | np.random.SeedSequence

RESAMPLES = 10_000
# With more clusters than this a mean is normal for every purpose; resampling would only add noise and time.
MANY_CLUSTERS = 2_000
# Weights are made this many at a time: half a megabyte stays in the processor's cache.
_WEIGHTS_AT_ONCE = 2**16


def cluster_weights(clusters: Labels, resamples: int, rng: np.random.Generator) -> FloatArray:
    """How often each row occurs in each resample of whole clusters: shape (rows, resamples)."""
    codes, count = cluster_codes(clusters, len(clusters))
    return _draw(count, resamples, rng)[codes]


def bootstrap(statistic: Statistic, clusters: Labels | None, rows: int, resamples: int, seed: int) -> FloatArray:
    """The statistic of every resample, first axis resamples.

    `statistic` takes weights (rows, some resamples) and gives one value, or one row of values, for each.
    """
    return _bootstrap(statistic, *cluster_codes(clusters, rows), resamples, seed)


def mean_interval(
    values: ArrayLike,
    clusters: Labels | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> Interval | None:
    """The clustered interval of a mean; None with fewer than two clusters. NaN values are left out."""
    return mean_intervals(floats(values)[:, None], clusters, resamples, seed, level)[0]


def mean_intervals(
    values: ArrayLike,
    clusters: Labels | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> list[Interval | None]:
    """The intervals of the means of several columns, all on the same resamples.

    Percentile bootstrap up to MANY_CLUSTERS clusters; beyond, the normal interval with the cluster-robust
    standard error, which is what the bootstrap converges to.
    """
    table = floats(values)
    codes, count = cluster_codes(clusters, len(table))
    if count < 2:
        return [None] * table.shape[1]
    return intervals_of_totals(*cluster_totals(table, codes, count), resamples, seed, level)


def intervals_of_totals(
    sums: FloatArray, sizes: FloatArray, resamples: int = RESAMPLES, seed: int = 0, level: float = 0.95
) -> list[Interval | None]:
    """The same, given what the values of each cluster add up to and how many they are, by cluster and column."""
    count, columns = sums.shape
    drawn = resampled_means(sums, sizes, resamples, seed) if count <= MANY_CLUSTERS else None
    intervals: list[Interval | None] = []
    for column in range(columns):
        if np.count_nonzero(sizes[:, column]) < 2:
            intervals.append(None)
        elif drawn is not None:
            intervals.append(percentile_interval(drawn[:, column], level))
        else:
            mean, error = mean_and_error(sums[:, column], sizes[:, column])
            intervals.append(normal_interval(mean, error, level))
    return intervals


def correlation_interval(
    x: ArrayLike,
    y: ArrayLike,
    clusters: Labels | None = None,
    method: WeightedMethod = "spearman",
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> Interval | None:
    """The clustered percentile interval of a correlation; None where the correlation itself is undefined."""
    first, second = floats(x), floats(y)
    codes, _ = cluster_codes(clusters, len(first))
    complete = complete_rows(first, second)
    first, second = first[complete], second[complete]
    codes, count = cluster_codes(codes[complete], len(first))
    undefined = len(first) < 3 or first.min() == first.max() or second.min() == second.max()
    if undefined or count < 2:
        return None
    if method == "pearson":
        # Moments add up within a cluster, so the cost depends on the number of clusters alone.
        totals = sum_by_cluster(pearson_moments(first, second), codes, count)
        drawn = _bootstrap(
            lambda weights: pearson_of_moments(weights.T @ totals), np.arange(count), count, resamples, seed
        )
    else:
        drawn = _bootstrap(spearman_of_weights(first, second), codes, count, resamples, seed)
    return percentile_interval(drawn, level)


def cluster_totals(values: FloatArray, codes: IntArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Sums and numbers of the values that are there, by cluster and column."""
    present = ~np.isnan(values)
    sums = sum_by_cluster(np.where(present, values, 0.0), codes, count)
    return sums, sum_by_cluster(present.astype(np.float64), codes, count)


def resampled_means(sums: FloatArray, sizes: FloatArray, resamples: int, seed: Seed) -> FloatArray:
    """Means of resampled clusters, given each cluster's sums and sizes: shape (resamples, columns)."""

    def means(weights: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.divide(weights.T @ sums, weights.T @ sizes)

    return _bootstrap(means, np.arange(len(sums)), len(sums), resamples, seed)


def mean_and_error(sums: FloatArray, sizes: FloatArray) -> tuple[float, float]:
    """A mean over clusters, and its cluster-robust standard error."""
    clusters = int(np.count_nonzero(sizes))
    mean = sums.sum() / sizes.sum()
    deviations = sums - mean * sizes
    variance = clusters / (clusters - 1) * (deviations @ deviations) / sizes.sum() ** 2
    return float(mean), float(np.sqrt(variance))


def _bootstrap(statistic: Statistic, codes: IntArray, count: int, resamples: int, seed: Seed) -> FloatArray:
    rng = np.random.default_rng(seed)
    rows = len(codes)
    every_row_alone = rows == count and bool((codes == np.arange(rows)).all())
    at_once = max(1, _WEIGHTS_AT_ONCE // max(rows, 1))
    parts = []
    for start in range(0, resamples, at_once):
        drawn = _draw(count, min(at_once, resamples - start), rng)
        parts.append(statistic(drawn if every_row_alone else drawn[codes]))
    return np.concatenate(parts)


def _draw(count: int, resamples: int, rng: np.random.Generator) -> FloatArray:
    """Multinomial counts of `count` draws among as many clusters, one column per resample."""
    # Counting draws is several times faster than the generator's own multinomial.
    cells = rng.integers(0, count, size=(count, resamples))
    cells *= resamples
    cells += np.arange(resamples)
    counts = np.bincount(cells.ravel(), minlength=count * resamples)
    return counts.reshape(count, resamples).astype(np.float64)
