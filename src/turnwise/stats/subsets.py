"""Estimate the variation of a statistic, and its limit for large samples, from subsets of a sample.

A *unit* is drawn as a whole: the rows of one context or dialogue, or of a block of them. A draw is the number of
occurrences of each unit.

Draws are without replacement. The usual bootstrap repeats vectors, which distances between distributions count as less
variety. With fewer vectors than dimensions, its standard error is a third to a half too high.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import FloatArray, IntArray, Labels, cluster_codes, floats
from turnwise.stats.decisions import Evidence, whole_evidence

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


def resampled_evidence(resampled: FloatArray, value: float, units: int, *, difference: bool = True) -> Evidence | None:
    """Return the evidence on a value, from its resamples by `draws_of`; None where most of them have no value."""
    error = _error(resampled, units)
    return None if error is None else whole_evidence(value, error, units - 1, units, difference=difference)


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


def jackknife_evidence(leave_one_out_values: ArrayLike, value: float, *, difference: bool = True) -> Evidence | None:
    """Return the evidence on a value from what it is without each block in turn.

    It suits statistics such as distinct-n, which resampling with replacement would bias through repeats.
    It is None with fewer than two blocks or if a value is undefined.
    """
    values = floats(leave_one_out_values)
    blocks = len(values)
    if blocks < 2 or not np.isfinite(values).all() or not np.isfinite(value):
        return None
    return whole_evidence(value, _jackknife_error(values), blocks - 1, blocks, difference=difference)


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
