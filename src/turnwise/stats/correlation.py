"""Compute Pearson, Spearman, Kendall and partial correlations, plain and under resampling weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import FloatArray, IntArray, complete_rows, floats, is_constant

# Up to this number of pairs, p comes from all orders (40,320 of eight).
MOST_PERMUTED = 8
Method = Literal["pearson", "spearman", "kendall"]
TieGroups = tuple[IntArray, IntArray, IntArray]


@dataclass(frozen=True, slots=True)
class Correlation:
    """Hold a correlation over `n` complete pairs with its two-sided p; None if undefined."""

    value: float | None
    p: float | None
    n: int


def pearson(x: ArrayLike, y: ArrayLike) -> Correlation:
    """Return the product-moment correlation.

    >>> found = pearson([1, 2, 3, None], [1, 0, -1, 7])
    >>> found.value, round(found.p, 3), found.n
    (-1.0, 0.333, 3)
    """
    first, second = _pairs(x, y)
    return _tested(first, second)


def spearman(x: ArrayLike, y: ArrayLike) -> Correlation:
    """Return the Pearson correlation of average ranks.

    >>> found = spearman([1, 2, 3, 4], [2, 4, 6, 900])
    >>> found.value, round(found.p, 3), found.n
    (1.0, 0.083, 4)
    """
    first, second = _pairs(x, y)
    return _tested(average_ranks(first), average_ranks(second))


def kendall(x: ArrayLike, y: ArrayLike) -> Correlation:
    """Return Kendall's tau-b, which corrects for ties; p is exact for small samples without ties."""
    first, second = _pairs(x, y)
    if len(first) < 3 or is_constant(first) or is_constant(second):
        return Correlation(None, None, len(first))
    from scipy.stats import kendalltau

    result = kendalltau(first, second)
    return Correlation(float(result.statistic), float(result.pvalue), len(first))


def correlation(x: ArrayLike, y: ArrayLike, method: Method) -> Correlation:
    """Return the correlation that `method` names."""
    return _METHODS[method](x, y)


def partial_correlation(
    x: ArrayLike, y: ArrayLike, z: ArrayLike, method: Literal["pearson", "spearman"] = "spearman"
) -> Correlation:
    """Return the correlation of x and y with z held fixed.

    It is undefined if z is constant or determines x or y entirely.
    """
    columns = [floats(column) for column in (x, y, z)]
    complete = complete_rows(*columns)
    columns = [column[complete] for column in columns]
    n = int(complete.sum())
    if method == "spearman":
        columns = [average_ranks(column) for column in columns]
    first, second, fixed = columns
    xy = _product_moment(first, second)
    xz = _product_moment(first, fixed)
    yz = _product_moment(second, fixed)
    if n < 4 or xy is None or xz is None or yz is None:
        return Correlation(None, None, n)
    unexplained = (1 - xz**2) * (1 - yz**2)
    # Below this the numerator is rounding error.
    if min(1 - xz**2, 1 - yz**2) < 1e-12:
        return Correlation(None, None, n)
    return _with_p(float(np.clip((xy - xz * yz) / np.sqrt(unexplained), -1, 1)), n, held_fixed=1)


def tie_groups(values: FloatArray) -> TieGroups:
    """Return the sorting order, the start of each group of equal values in it, and the group of every value."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    is_start = np.ones(len(values), dtype=np.bool_)
    is_start[1:] = ordered[1:] != ordered[:-1]
    group = np.empty(len(values), dtype=np.intp)
    group[order] = np.cumsum(is_start) - 1
    return order, np.flatnonzero(is_start), group


def average_ranks(values: ArrayLike) -> FloatArray:
    """Return ranks from 1; equal values share the mean of their ranks. No value may be NaN.

    >>> average_ranks([10, 30, 10, 20])
    array([1.5, 4. , 1.5, 3. ])
    """
    _, _, group = tie_groups(floats(values))
    sizes = np.bincount(group)
    ranks: FloatArray = (np.cumsum(sizes) - (sizes - 1) / 2)[group]
    return ranks


def _pairs(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    first, second = floats(x), floats(y)
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(f"cannot pair arrays of shapes {first.shape} and {second.shape}")
    complete = complete_rows(first, second)
    return first[complete], second[complete]


def _product_moment(x: FloatArray, y: FloatArray) -> float | None:
    if len(x) < 3 or is_constant(x) or is_constant(y):
        return None
    first, second = deviations(x), deviations(y)
    length = np.sqrt((first @ first) * (second @ second))
    return float(np.clip(first @ second / length, -1, 1)) if np.isfinite(length) and length > 0 else None


def deviations(values: FloatArray) -> FloatArray:
    """Return differences from the mean, scaled so that their squares neither overflow nor vanish."""
    with np.errstate(over="ignore", invalid="ignore"):
        differences = values - values.mean()
        # A power of two changes no digit, so that what is exact stays exact.
        _, exponent = np.frexp(np.abs(differences).max())
    scaled: FloatArray = np.ldexp(differences, -exponent)
    return scaled


def _tested(x: FloatArray, y: FloatArray) -> Correlation:
    """Return the correlation with its p: from all orders of few pairs, else from the t test.

    The t test gives p = 0 for three or four systems in perfect order, which chance often produces.
    """
    value = _product_moment(x, y)
    if value is None or len(x) > MOST_PERMUTED:
        return _with_p(value, len(x), held_fixed=0)
    first, second = deviations(x), deviations(y)
    length = np.sqrt((first @ first) * (second @ second))
    others = second[_orders(len(y))] @ first / length
    return Correlation(value, float(np.mean(np.abs(others) >= abs(value) - 1e-9)), len(x))


@lru_cache
def _orders(n: int) -> IntArray:
    return np.array(list(permutations(range(n))), dtype=np.intp)


def _with_p(value: float | None, n: int, held_fixed: int) -> Correlation:
    if value is None:
        return Correlation(None, None, n)
    from scipy.special import betainc

    # The t test of a correlation, written through the beta distribution that it stands for.
    half_freedom = (n - 2 - held_fixed) / 2
    p = 2 * betainc(half_freedom, half_freedom, (1 - abs(value)) / 2)
    return Correlation(value, float(min(p, 1.0)), n)


_METHODS: Mapping[Method, Callable[[ArrayLike, ArrayLike], Correlation]] = {
    "pearson": pearson,
    "spearman": spearman,
    "kendall": kendall,
}


WeightedMethod = Literal["pearson", "spearman"]
Ranks = tuple[FloatArray, FloatArray]

# A variance this small beside the mean square is rounding error of a constant.
_ROUNDING = 1e-12


def weighted_correlation(x: FloatArray, y: FloatArray, weights: FloatArray, method: WeightedMethod) -> FloatArray:
    """Return the Pearson or Spearman correlation of complete pairs under each column of whole-number weights."""
    if method == "pearson":
        return pearson_of_moments(weights.T @ pearson_moments(x, y))
    return spearman_of_weights(x, y)(weights)


def pearson_moments(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the moments of each row, which add up over rows, clusters and resamples."""
    first, second = _standard(x), _standard(y)
    return np.column_stack([np.ones_like(first), first, second, first * first, second * second, first * second])


def pearson_of_moments(totals: FloatArray) -> FloatArray:
    """Return the correlation of each row of summed moments."""
    with np.errstate(divide="ignore", invalid="ignore"):
        _, mean_x, mean_y, square_x, square_y, product = (totals / totals[:, :1]).T
        variance_x = square_x - mean_x * mean_x
        variance_y = square_y - mean_y * mean_y
        value = (product - mean_x * mean_y) / np.sqrt(variance_x * variance_y)
        constant = (variance_x <= _ROUNDING * square_x) | (variance_y <= _ROUNDING * square_y)
    return np.where(constant, np.nan, np.clip(value, -1.0, 1.0))


def _standard(values: FloatArray) -> FloatArray:
    """Return centred and scaled values, which keep a correlation from cancellation."""
    if not len(values) or is_constant(values):
        return np.zeros_like(values)
    scaled = deviations(values)
    scaled /= np.sqrt(np.mean(scaled * scaled))
    return scaled


def spearman_of_weights(x: FloatArray, y: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return Spearman's correlation as a function of weights. Rows are sorted once for all resamples."""
    ties_x, ties_y = tie_groups(x), tie_groups(y)

    def correlations(weights: FloatArray) -> FloatArray:
        total = weights.sum(axis=0)
        ranks = ranks_of_weights(ties_x, weights, total)
        return spearman_of_ranks(ranks, [ranks_of_weights(ties_y, weights, total)], weights)[0]

    return correlations


def spearman_of_ranks(ranks: Ranks, others: Iterable[Ranks], weights: FloatArray) -> list[FloatArray]:
    """Return the correlations of one column with others, from their `ranks_of_weights`; overwrites `ranks`."""
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
    """Return the average ranks of the rows in each resample less their mean, and the sum of their squares."""
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
