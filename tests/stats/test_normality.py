"""Normality by dimension is scipy's, with W and p kept apart."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from turnwise.stats.normality import shapiro_wilk


def test_each_dimension_is_tested_by_itself() -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=100), rng.exponential(size=100), np.ones(100)])
    found = shapiro_wilk(rows)
    assert found.n == 100
    for place in range(2):
        expected = stats.shapiro(rows[:, place])
        assert (found.w[place], found.p[place]) == pytest.approx((expected.statistic, expected.pvalue))
    # The third never varies, so there is nothing to test.
    assert len(found.w) == len(found.p) == 2
    assert found.rejected == 0.5


def test_what_cannot_be_tested() -> None:
    with pytest.raises(ValueError, match="too few"):
        shapiro_wilk([[1.0], [2.0]])
    with pytest.raises(ValueError, match="all the same"):
        shapiro_wilk(np.ones((5, 2)))
