"""Intervals over systems, and differences of pooled values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from turnwise.stats.jackknife import jackknife_comparison
from turnwise.stats.systems import system_correlation_interval


def test_the_jackknife_of_a_mean_difference_is_the_t_test() -> None:
    """For means, leaving out one pair at a time is the paired t test in other words."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.3, 1, 25), rng.normal(0, 1, 25)
    differences = a - b
    left_out = [np.delete(differences, k).mean() for k in range(25)]
    found = jackknife_comparison(left_out, float(differences.mean()))
    expected = stats.ttest_rel(a, b)
    assert found is not None
    assert found.p == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_no_spread_and_no_difference_is_certain() -> None:
    same = jackknife_comparison([0.0, 0.0, 0.0], 0.0)
    assert same is not None
    assert same.p == 1.0
    assert jackknife_comparison([0.5], 0.5) is None


def test_clear_systems_keep_their_order_in_every_resample() -> None:
    rng = np.random.default_rng(2)
    systems = np.tile(["a", "b", "c", "d"], 30)
    contexts = np.repeat(np.arange(30), 4)
    quality = np.tile([1.0, 2.0, 3.0, 4.0], 30)
    scores = quality + rng.normal(0, 0.1, 120)
    interval = system_correlation_interval(scores, quality, systems, contexts)
    assert interval is not None
    assert (interval.low, interval.high) == (1.0, 1.0)


def test_resampled_system_means_equal_an_explicit_loop() -> None:
    rng = np.random.default_rng(3)
    systems = np.tile(["a", "b", "c", "d", "e"], 12)
    contexts = np.repeat(np.arange(12), 5)
    scores, ratings = rng.normal(size=60), rng.normal(size=60)
    interval = system_correlation_interval(scores, ratings, systems, contexts, resamples=4000)
    loop = []
    for _ in range(2000):
        drawn = np.concatenate([np.flatnonzero(contexts == c) for c in rng.integers(0, 12, 12)])
        means = [
            (scores[drawn][systems[drawn] == s].mean(), ratings[drawn][systems[drawn] == s].mean()) for s in "abcde"
        ]
        loop.append(stats.spearmanr(*zip(*means, strict=True)).statistic)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(loop, [0.025, 0.975])), abs=0.11)


def test_two_systems_have_no_rank_correlation_worth_an_interval() -> None:
    assert system_correlation_interval([1, 2, 3, 4], [1, 2, 3, 4], list("abab"), [0, 0, 1, 1]) is None
