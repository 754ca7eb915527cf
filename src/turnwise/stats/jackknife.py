"""A difference of two pooled values, tested by leaving out one block of contexts at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import floats
from turnwise.stats.interval import jackknife_interval
from turnwise.stats.significance import Comparison


def jackknife_comparison(
    leave_one_out_differences: ArrayLike, difference: float, level: float = 0.95
) -> Comparison | None:
    """Interval and two-sided p of a pooled difference; None with fewer than two blocks."""
    values = floats(leave_one_out_differences)
    interval = jackknife_interval(values, difference, level)
    if interval is None:
        return None
    from scipy.special import stdtr

    error = float(np.sqrt((len(values) - 1) * np.var(values)))
    p = float(2 * stdtr(len(values) - 1, -abs(difference) / error)) if error > 0 else float(difference == 0)
    return Comparison(difference, interval.low, interval.high, p)
