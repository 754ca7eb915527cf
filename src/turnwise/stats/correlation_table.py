"""Intervals of many rank correlations over the same rows: each column is ranked once, not once for every pair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import FloatArray, Labels, cluster_codes, floats
from turnwise.stats.bootstrap import RESAMPLES, bootstrap
from turnwise.stats.correlation import tie_groups
from turnwise.stats.interval import Interval, percentile_interval
from turnwise.stats.weighted import ranks_of_weights, spearman_of_ranks


def spearman_intervals(
    scores: Sequence[ArrayLike],
    ratings: Sequence[ArrayLike],
    clusters: Labels | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> list[list[Interval | None]]:
    """For each column of scores and each of ratings, none with gaps, what `correlation_interval` gives for the two.

    >>> ((found, constant),) = spearman_intervals([[1, 2, 3, 4]], [[1, 2, 3, 4], [1, 1, 1, 1]], resamples=50)
    >>> round(found.low, 9), constant
    (1.0, None)
    """
    left, right = [floats(column) for column in scores], [floats(column) for column in ratings]
    known: list[list[Interval | None]] = [[None] * len(right) for _ in left]
    rows = len(left[0]) if left else 0
    _, count = cluster_codes(clusters, rows)
    varied = [[place for place, column in enumerate(side) if _varies(column)] for side in (left, right)]
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


def _varies(column: FloatArray) -> bool:
    return bool(column.min() < column.max())
