"""Correlations of rows that occur several times, for many sets of multiplicities at once.

A bootstrap resample is nothing but a count for every row. Weights have one row per observation and one column
per resample; every function returns one value per column, NaN where a resample leaves it undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np

from turnwise.stats.arrays import FloatArray
from turnwise.stats.correlation import TieGroups, deviations, tie_groups

WeightedMethod = Literal["pearson", "spearman"]
Ranks = tuple[FloatArray, FloatArray]

# A variance this small beside the mean square is rounding error of a constant.
_ROUNDING = 1e-12


def weighted_correlation(x: FloatArray, y: FloatArray, weights: FloatArray, method: WeightedMethod) -> FloatArray:
    """Pearson or Spearman correlation of complete pairs under each column of whole-number weights."""
    if method == "pearson":
        return pearson_of_moments(weights.T @ pearson_moments(x, y))
    return spearman_of_weights(x, y)(weights)


def pearson_moments(x: FloatArray, y: FloatArray) -> FloatArray:
    """What each row adds to a Pearson correlation: it adds up over rows, clusters and resamples."""
    first, second = _standard(x), _standard(y)
    return np.column_stack([np.ones_like(first), first, second, first * first, second * second, first * second])


def pearson_of_moments(totals: FloatArray) -> FloatArray:
    """The correlation of each row of summed moments."""
    with np.errstate(divide="ignore", invalid="ignore"):
        _, mean_x, mean_y, square_x, square_y, product = (totals / totals[:, :1]).T
        variance_x = square_x - mean_x * mean_x
        variance_y = square_y - mean_y * mean_y
        value = (product - mean_x * mean_y) / np.sqrt(variance_x * variance_y)
        constant = (variance_x <= _ROUNDING * square_x) | (variance_y <= _ROUNDING * square_y)
    return np.where(constant, np.nan, np.clip(value, -1.0, 1.0))


def _standard(values: FloatArray) -> FloatArray:
    """Centred and scaled, which costs a correlation nothing and saves it from cancellation."""
    if len(values) == 0 or values.min() == values.max():
        return np.zeros_like(values)
    scaled = deviations(values)
    scaled /= np.sqrt(np.mean(scaled * scaled))
    return scaled


def spearman_of_weights(x: FloatArray, y: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Spearman as a function of weights. Rows are sorted once: a resample changes counts, never the order."""
    ties_x, ties_y = tie_groups(x), tie_groups(y)

    def correlations(weights: FloatArray) -> FloatArray:
        total = weights.sum(axis=0)
        ranks = ranks_of_weights(ties_x, weights, total)
        return spearman_of_ranks(ranks, [ranks_of_weights(ties_y, weights, total)], weights)[0]

    return correlations


def spearman_of_ranks(ranks: Ranks, others: Iterable[Ranks], weights: FloatArray) -> list[FloatArray]:
    """The correlations of a column with others, given what `ranks_of_weights` says of each; it uses up the first."""
    deviation, spread = ranks
    deviation *= weights
    found = []
    for other_deviation, other_spread in others:
        product = np.einsum("ij,ij->j", deviation, other_deviation)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = product / (np.sqrt(spread) * np.sqrt(other_spread))
        found.append(np.where((spread <= 0) | (other_spread <= 0), np.nan, np.clip(value, -1.0, 1.0)))
    return found


def ranks_of_weights(ties: TieGroups, weights: FloatArray, total: FloatArray) -> Ranks:
    """Average ranks of the rows in each resample less their mean, and the sum of their squares."""
    order, starts, group = ties
    size = np.take(weights, order, axis=0)
    if len(starts) < len(order):
        size = np.add.reduceat(size, starts, axis=0)
    # Ranks 1..N deviate by (N^3 - N) / 12 in all, of which a tie of size t hides (t^3 - t) / 12;
    # the linear parts cancel because the sizes add up to N.
    spread = (total * total * total - np.einsum("ij,ij,ij->j", size, size, size)) / 12
    # A group ends at its cumulative size, its mean rank lies (size - 1) / 2 before, and all ranks average
    # (N + 1) / 2; the halves cancel.
    rank = np.cumsum(size, axis=0)
    rank -= total / 2
    size /= 2
    rank -= size
    return np.take(rank, group, axis=0), spread
