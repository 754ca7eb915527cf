"""Confidence intervals, and the jackknife for statistics that are pooled over a whole system."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import FloatArray, floats


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float


def percentile_interval(resampled: FloatArray, level: float) -> Interval | None:
    """The middle `level` of resampled values; None where most resamples leave the statistic undefined."""
    defined = resampled[np.isfinite(resampled)]
    if 2 * len(defined) <= len(resampled):
        return None
    tail = (1 - level) / 2
    low, high = np.quantile(defined, (tail, 1 - tail))
    return Interval(float(low), float(high))


def normal_interval(value: float, standard_error: float, level: float) -> Interval:
    """The interval of an estimate that is normal around its true value.

    >>> round(normal_interval(10.0, 1.0, 0.95).low, 4)
    8.04
    """
    reach = NormalDist().inv_cdf((1 + level) / 2) * standard_error
    return Interval(value - reach, value + reach)


def jackknife_interval(leave_one_out_values: ArrayLike, full_value: float, level: float = 0.95) -> Interval | None:
    """Delete-a-block jackknife: a t interval around `full_value`, one degree of freedom fewer than blocks.

    It suits statistics such as distinct-n, which resampling with replacement would bias through repeats.
    None with fewer than two blocks or where a value is undefined.
    """
    values = floats(leave_one_out_values)
    blocks = len(values)
    if blocks < 2 or not np.isfinite(values).all() or not np.isfinite(full_value):
        return None
    from scipy.special import stdtrit

    standard_error = float(np.sqrt((blocks - 1) * np.var(values)))
    reach = float(stdtrit(blocks - 1, (1 + level) / 2)) * standard_error
    return Interval(full_value - reach, full_value + reach)
