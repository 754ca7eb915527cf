"""Estimate the variation of a statistic, and its limit for large samples, from subsets of a sample.

A *unit* is drawn as a whole: the rows of one context or dialogue, or of a block of them. A draw is the number of
occurrences of each unit.

Draws are without replacement. The usual bootstrap repeats vectors, which distances between distributions count as less
variety. With fewer vectors than dimensions, its standard error is a third to a half too high.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import FloatArray, IntArray, Labels, cluster_codes, floats
from turnwise.stats.bootstrap import Interval, normal_interval
from turnwise.stats.significance import Comparison, two_sided_p

ValueOf = Callable[[FloatArray], float]

# Enough blocks for a standard error that is right within a tenth, few enough to keep the moments of each.
MOST_UNITS = 64
# Standard errors settle long before percentiles do.
RESAMPLES = 100
# The share of the units in each resample.
KEPT = 0.8
# The sizes at which `extrapolated` computes a value, as shares of the sample, and the draws at each.
SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)
DRAWS = 6


def units_of(clusters: Labels, most: int = MOST_UNITS) -> tuple[IntArray, int]:
    """Return the unit of every row: its cluster, or a block of clusters if there are more than `most`.

    >>> units_of(["a", "b", "c", "a"], most=2)
    (array([0, 1, 0, 0]), 2)
    """
    codes, count = cluster_codes(clusters, len(clusters))
    return codes % most, min(count, most)


def draws_of(units: int, resamples: int = RESAMPLES, seed: int = 0) -> FloatArray:
    """Return resamples as counts, shape (resamples, units), of four fifths of the units; none of a single unit."""
    if units < 2:
        return np.empty((0, units))
    rng = np.random.default_rng(seed)
    return np.array([_subset(units, _kept(units), rng) for _ in range(resamples)])


def resampled_interval(resampled: FloatArray, value: float, units: int, level: float = 0.95) -> Interval | None:
    """Return a normal interval around a value, from its resamples by `draws_of`; None if most are undefined."""
    error = _error(resampled, units)
    return None if error is None else normal_interval(value, error, level)


def resampled_comparison(
    differences: FloatArray, difference: float, units: int, level: float = 0.95
) -> Comparison | None:
    """Return interval and two-sided p of the difference of two values on the same resamples."""
    error = _error(differences, units)
    if error is None:
        return None
    from scipy.special import ndtr

    interval = normal_interval(difference, error, level)
    return Comparison(difference, interval.low, interval.high, two_sided_p(difference, error, ndtr))


def extrapolated(value_of: ValueOf, units: int, seed: int = 0) -> float | None:
    """Return the limit of a value for large samples: the intercept of a line in 1 / size.

    The line is fitted to the values of subsets and of the whole. The result is None with too few units for subsets.
    """
    if units < 2 * len(SHARES):
        return None
    rng = np.random.default_rng(seed)
    inverse, values = [1.0], [value_of(np.ones(units))]
    for share in SHARES:
        size = round(share * units)
        inverse.append(units / size)
        values.append(float(np.mean([value_of(_subset(units, size, rng)) for _ in range(DRAWS)])))
    return float(np.polynomial.polynomial.polyfit(inverse, values, 1)[0])


def jackknife_interval(leave_one_out_values: ArrayLike, full_value: float, level: float = 0.95) -> Interval | None:
    """Return the delete-a-block jackknife's t interval around `full_value`; its degrees of freedom are blocks - 1.

    It suits statistics such as distinct-n, which resampling with replacement would bias through repeats.
    It is None with fewer than two blocks or if a value is undefined.
    """
    values = floats(leave_one_out_values)
    blocks = len(values)
    if blocks < 2 or not np.isfinite(values).all() or not np.isfinite(full_value):
        return None
    from scipy.special import stdtrit

    reach = float(stdtrit(blocks - 1, (1 + level) / 2)) * _jackknife_error(values)
    return Interval(full_value - reach, full_value + reach)


def jackknife_comparison(
    leave_one_out_differences: ArrayLike, difference: float, level: float = 0.95
) -> Comparison | None:
    """Return interval and two-sided p of a pooled difference; None with fewer than two blocks."""
    values = floats(leave_one_out_differences)
    interval = jackknife_interval(values, difference, level)
    if interval is None:
        return None
    from scipy.special import stdtr

    p = two_sided_p(difference, _jackknife_error(values), partial(stdtr, len(values) - 1))
    return Comparison(difference, interval.low, interval.high, p)


def _kept(units: int) -> int:
    return min(round(KEPT * units), units - 1)


def _subset(units: int, size: int, rng: np.random.Generator) -> FloatArray:
    chosen = np.zeros(units)
    chosen[rng.permutation(units)[:size]] = 1.0
    return chosen


def _error(resampled: FloatArray, units: int) -> float | None:
    """Return the standard error of the whole from overlapping subsets, scaled as the delete-many jackknife."""
    defined = resampled[np.isfinite(resampled)]
    if len(defined) < 2 or 2 * len(defined) <= len(resampled):
        return None
    kept = _kept(units)
    return float(np.std(defined, ddof=1) * np.sqrt(kept / (units - kept)))


def _jackknife_error(values: FloatArray) -> float:
    return float(np.sqrt((len(values) - 1) * np.var(values)))
