"""Correlation over systems: few points, each the mean of many turns, so it is the contexts that are resampled."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import Labels, cluster_codes, floats
from turnwise.stats.bootstrap import RESAMPLES, cluster_totals, resampled_means
from turnwise.stats.interval import Interval, percentile_interval


def system_correlation_interval(
    scores: ArrayLike,
    ratings: ArrayLike,
    systems: Labels,
    clusters: Labels,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> Interval | None:
    """The interval of Spearman's correlation between mean scores and mean ratings of systems.

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
