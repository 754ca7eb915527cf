"""Sizes of experiments against scipy's distributions and simulation."""

from __future__ import annotations

import numpy as np
import pytest

from turnwise.stats.power import (
    Variance,
    contexts_for,
    difference_variance,
    paired_variance,
    plan_sizes,
    power_of,
    rounded_up,
    unpaired_variance,
    variance_components,
)


def test_the_textbooks_paired_example() -> None:
    # An effect of half a standard deviation needs 34 pairs for 80 % power (Cohen 1988).
    assert contexts_for(0.5, 1.0) == 34
    assert contexts_for(0.2, 1.0) == 199
    assert contexts_for(0.8, 1.0) == 15


@pytest.mark.parametrize(("difference", "n"), [(0.5, 20), (0.1, 400), (0.3, 90)])
def test_power_is_the_share_of_differences_found(difference: float, n: int) -> None:
    values = np.random.default_rng(0).normal(size=(20_000, n)) + difference
    t = values.mean(axis=1) / values.std(axis=1, ddof=1) * np.sqrt(n)
    from scipy.special import stdtrit

    assert power_of(difference, 1.0, n) == pytest.approx(np.mean(np.abs(t) > stdtrit(n - 1, 0.975)), abs=0.012)


@pytest.mark.parametrize("difference", [0.003, 0.01, 0.05])
def test_small_differences_need_many(difference: float) -> None:
    needed = contexts_for(difference, 1.0)
    assert needed is not None
    assert needed == pytest.approx((1.96 + 0.8416) ** 2 / difference**2, rel=0.01)


def test_no_number_of_contexts_finds_nothing() -> None:
    assert contexts_for(0.0, 1.0) is None
    assert contexts_for(1e-6, 1.0) is None
    assert contexts_for(3.0, 0.0) == 6


def test_components_of_a_balanced_and_of_a_ragged_pilot() -> None:
    rng = np.random.default_rng(1)
    table = rng.normal(size=(4000, 1)) * 2 + rng.normal(size=(4000, 3))
    whole = variance_components(table)
    table[rng.random(table.shape) < 0.4] = np.nan
    ragged = variance_components(table)
    for found in (whole, ragged):
        assert found is not None
        assert found.between == pytest.approx(4, rel=0.06)
        assert found.within == pytest.approx(1, rel=0.06)
    assert variance_components([[1.0], [2.0], [4.0]]) == Variance(pytest.approx(7 / 3), 0.0, 3)
    assert variance_components([[1.0, 2.0]]) is None


def test_more_raters_need_fewer_contexts_until_contexts_rule() -> None:
    plans = plan_sizes(0.3, Variance(0.5, 2.0, 40))
    contexts = [one.contexts for one in plans]
    assert contexts == sorted(contexts, reverse=True)
    assert all(one.power >= 0.8 for one in plans)
    assert len(plan_sizes(0.3, Variance(0.5, 0.0, 40))) == 1
    assert plan_sizes(0.3, Variance(0.5, 2.0, 40), pairs=45)[0].contexts > contexts[0]


def test_a_pilots_differences() -> None:
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(2, 500))
    paired = paired_variance(first, second)
    assert paired is not None
    assert paired.between == pytest.approx(float(np.var(first - second, ddof=1)))
    unpaired = unpaired_variance(first)
    assert unpaired is not None
    assert unpaired.between == pytest.approx(2 * float(np.var(first, ddof=1)))
    assert unpaired_variance([1.0, 2.0], ["a", "a"]) is None
    both = difference_variance(Variance(1.0, 0.5, 10), Variance(1.0, 0.5, 12), 0.75)
    assert both == Variance(pytest.approx(0.5), 1.0, 10)


def test_planned_numbers_are_round() -> None:
    assert [rounded_up(one) for one in (7, 99, 101, 1999, 12345)] == [7, 99, 110, 2000, 13000]
