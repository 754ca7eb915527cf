"""Tests of two metrics: exact enumeration, scipy, published values, simulated nulls."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from turnwise.stats.correlation import pearson, spearman
from turnwise.stats.significance import metric_permutation_p, williams_test

# --- two metrics -----------------------------------------------------------------------------------------


def test_williams_against_the_published_example():
    # Silver, Hittner & May (2006), "depcor": r = .3, .4, .5, n = 100.
    found = williams_test(0.3, 0.4, 0.5, 100)
    assert round(found.t, 4) == -1.0767
    assert round(found.p, 4) == 0.2843
    assert found.freedom == 97


def test_williams_keeps_its_level_when_two_metrics_are_equally_good():
    rng = np.random.default_rng(0)
    covariance = np.array([[1, 0.5, 0.5], [0.5, 1, 0.6], [0.5, 0.6, 1]])
    p = []
    for _ in range(2000):
        human, a, b = rng.multivariate_normal(np.zeros(3), covariance, size=40).T
        table = np.corrcoef([human, a, b])
        p.append(williams_test(table[0, 1], table[0, 2], table[1, 2], 40).p)
    assert np.mean(np.array(p) < 0.05) == pytest.approx(0.05, abs=0.015)
    assert np.mean(np.array(p) < 0.5) == pytest.approx(0.5, abs=0.035)


def test_williams_without_room_for_chance():
    assert williams_test(0.5, 0.4, 0.3, 3) is None
    assert williams_test(0.5, 0.5, 1.0, 50) is None


@given(st.floats(-0.6, 0.6), st.floats(-0.6, 0.6), st.floats(-0.2, 0.9), st.integers(4, 500))
def test_williams_is_antisymmetric(first, second, between, n):
    forth, back = williams_test(first, second, between, n), williams_test(second, first, between, n)
    if forth is not None:
        assert forth.t == pytest.approx(-back.t)
        assert forth.p == pytest.approx(back.p)
        assert 0 <= forth.p <= 1


@pytest.mark.parametrize("method", ["pearson", "spearman"])
def test_metric_permutation_against_all_swaps(method):
    rng = np.random.default_rng(1)
    human = rng.normal(size=8)
    first, second = human + 0.6 * rng.normal(size=8), 0.3 * human + rng.normal(size=8)
    scale = scipy_stats.rankdata if method == "spearman" else np.asarray
    a, b, y = (scipy_stats.zscore(scale(column)) for column in (first, second, human))
    observed = pearson(a, y).value - pearson(b, y).value
    differences = []
    for swap in product([False, True], repeat=8):
        left, right = np.where(swap, b, a), np.where(swap, a, b)
        differences.append(pearson(left, y).value - pearson(right, y).value)
    exact = np.mean(np.abs(differences) >= abs(observed) - 1e-12)
    found = metric_permutation_p(first, second, human, method=method, permutations=20_000)
    assert found == pytest.approx(exact, abs=0.012)


def test_metric_permutation_tells_a_good_metric_from_noise():
    rng = np.random.default_rng(2)
    human = rng.normal(size=150)
    good, noise = human + 0.5 * rng.normal(size=150), rng.normal(size=150)
    assert metric_permutation_p(good, noise, human, permutations=2000) < 0.001
    assert metric_permutation_p(good, 3 * good + 1, human, permutations=500) == 1
    williams = williams_test(
        spearman(good, human).value, spearman(noise, human).value, spearman(good, noise).value, 150
    )
    assert williams.p < 0.001
    assert metric_permutation_p(good, np.ones(150), human) is None


def test_metric_permutation_swaps_whole_clusters():
    rng = np.random.default_rng(3)
    contexts = np.repeat(np.arange(2), 20)
    human, a, b = rng.normal(size=(3, 40))
    # Two clusters have four arrangements, two of which are the observed one and its mirror image.
    p = metric_permutation_p(a, b, human, contexts, method="pearson", permutations=4000)
    assert p > 0.45
