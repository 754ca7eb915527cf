"""Tests of two systems and of two metrics: exact enumeration, scipy, published values, simulated nulls."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from turnwise.stats.correlation import pearson, spearman
from turnwise.stats.significance import (
    holm,
    label_permutation_test,
    metric_permutation_p,
    paired_bootstrap,
    sign_flip_test,
    unpaired_bootstrap,
    williams_test,
)

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


# --- two systems, same contexts --------------------------------------------------------------------------


def test_sign_flips_of_few_items_are_exact():
    rng = np.random.default_rng(4)
    first, second = rng.normal(0.5, size=9), rng.normal(size=9)
    expected = scipy_stats.permutation_test(
        (first, second), lambda a, b: np.mean(a - b), permutation_type="samples", n_resamples=np.inf
    )
    assert sign_flip_test(first, second) == pytest.approx(expected.pvalue, abs=1e-12)


def test_sampled_sign_flips_approach_the_exact_p():
    rng = np.random.default_rng(5)
    first, second = rng.normal(0.4, size=12), rng.normal(size=12)
    exact = sign_flip_test(first, second, permutations=2**12)
    assert sign_flip_test(first, second, permutations=2**12 - 1) == pytest.approx(exact, abs=0.02)


def test_sign_flips_move_whole_contexts():
    first = np.array([1.0, 2.0, 3.0, 0.5, 0.25, 4.0])
    contexts = ["a", "a", "b", "b", "c", "c"]
    sums = [3.0, 3.5, 4.25]
    totals = [np.dot(signs, sums) for signs in product([1, -1], repeat=3)]
    assert sign_flip_test(first, np.zeros(6), contexts) == np.mean(np.abs(totals) >= sum(sums))


def test_many_contexts_use_the_normal_limit():
    rng = np.random.default_rng(6)
    first, second = rng.normal(0.05, size=3000), rng.normal(size=3000)
    paired_t = scipy_stats.ttest_rel(first, second)
    assert sign_flip_test(first, second) == pytest.approx(paired_t.pvalue, rel=0.05)
    found = paired_bootstrap(first, second)
    assert found.p == pytest.approx(paired_t.pvalue, rel=0.05)
    interval = paired_t.confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-3)
    unpaired = scipy_stats.ttest_ind(first, second, equal_var=False)
    assert unpaired_bootstrap(first, second).p == pytest.approx(unpaired.pvalue, rel=0.05)
    assert label_permutation_test(first, second) == pytest.approx(unpaired.pvalue, rel=0.05)


def test_paired_bootstrap_agrees_with_a_paired_t_test():
    rng = np.random.default_rng(7)
    shared = 3 * rng.normal(size=200)
    first, second = shared + rng.normal(0.2, size=200), shared + rng.normal(size=200)
    expected = scipy_stats.ttest_rel(first, second)
    interval = expected.confidence_interval()
    found = paired_bootstrap(first, second)
    assert found.difference == pytest.approx(first.mean() - second.mean())
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=0.02)
    assert found.p == pytest.approx(expected.pvalue, abs=0.02)
    # Without pairing, what the contexts share drowns the difference.
    apart = unpaired_bootstrap(first, second)
    assert apart.high - apart.low > 2 * (found.high - found.low)


def test_pairs_with_a_gap_are_left_out():
    first, second = np.array([1.0, 2.0, np.nan, 4.0, 5.0]), np.array([0.0, 1.5, 1.0, np.nan, 4.0])
    assert paired_bootstrap(first, second, resamples=200) == paired_bootstrap(
        first[[0, 1, 4]], second[[0, 1, 4]], resamples=200
    )
    assert sign_flip_test(first, second) == 0.25


def test_identical_systems_do_not_differ():
    values = np.arange(20.0)
    found = paired_bootstrap(values, values)
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)
    assert sign_flip_test(values, values) == 1
    assert label_permutation_test(values, values) == 1


# --- two systems, different contexts ---------------------------------------------------------------------


def test_label_permutation_against_all_deals():
    rng = np.random.default_rng(8)
    first, second = rng.normal(1, size=5), rng.normal(size=6)
    values = np.concatenate([first, second])
    observed = first.mean() - second.mean()
    deals = []
    for chosen in combinations(range(11), 5):
        dealt = np.isin(np.arange(11), chosen)
        deals.append(values[dealt].mean() - values[~dealt].mean())
    exact = np.mean(np.abs(deals) >= abs(observed) - 1e-12)
    assert label_permutation_test(first, second, permutations=20_000) == pytest.approx(exact, abs=0.012)


def test_label_permutation_deals_whole_contexts():
    # Two contexts a side: six deals, and only the observed one and its mirror image are this extreme.
    first, second = np.repeat([5.0, 6.0], 30), np.repeat([1.0, 2.0], 30)
    contexts = np.repeat([0, 1], 30)
    p = label_permutation_test(first, second, contexts, contexts, permutations=6000)
    assert p == pytest.approx(1 / 3, abs=0.03)
    assert label_permutation_test(first, second, permutations=500) == pytest.approx(1 / 501)


def test_unpaired_bootstrap_agrees_with_welch():
    rng = np.random.default_rng(9)
    first, second = rng.normal(0.3, 1, size=150), rng.normal(0, 2, size=250)
    interval = scipy_stats.ttest_ind(first, second, equal_var=False).confidence_interval()
    found = unpaired_bootstrap(first, second)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=0.03)


def test_sides_are_drawn_independently():
    # Drawn in step, two equal samples would never differ.
    values = np.random.default_rng(10).normal(size=100)
    found = unpaired_bootstrap(values, values)
    assert found.high - found.low == pytest.approx(2 * 1.96 * np.sqrt(2 * values.var() / 100), rel=0.1)


def test_too_little_to_compare():
    assert paired_bootstrap([1.0], [2.0]) is None
    assert unpaired_bootstrap([1.0, 2.0], [3.0]) is None
    assert sign_flip_test([], []) is None
    assert label_permutation_test([1.0], []) is None


def test_null_p_values_are_uniform():
    rng = np.random.default_rng(11)
    contexts = np.repeat(np.arange(15), 3)
    flips, deals = [], []
    for trial in range(300):
        effect = rng.normal(size=15)[contexts]
        first, second = effect + rng.normal(size=45), rng.normal(size=45)
        flips.append(sign_flip_test(first, second, contexts, permutations=300, seed=trial))
        other = rng.normal(size=15)[contexts] + rng.normal(size=45)
        deals.append(label_permutation_test(first, other, contexts, contexts, permutations=300, seed=trial))
    for p in (flips, deals):
        assert scipy_stats.kstest(p, "uniform").pvalue > 0.001


# --- Holm ------------------------------------------------------------------------------------------------


def test_holm_by_hand():
    # Sorted .005 .01 .03 .04 times 4 3 2 1 is .02 .03 .06 .04; the last may not fall below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
    assert holm([None, 0.02]) == [None, 0.02]


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_keeps_order_and_only_raises(p):
    corrected = holm(p)
    assert all(after >= before for before, after in zip(p, corrected, strict=True))
    assert all(after <= min(1, before * len(p)) + 1e-12 for before, after in zip(p, corrected, strict=True))
    by_size = np.argsort(p, kind="stable")
    assert np.all(np.diff(np.array(corrected)[by_size]) >= 0)


@given(st.floats(-1e6, 1e6, allow_subnormal=False), st.integers(2, 40), st.integers(2, 40), st.integers(0, 2**32 - 1))
def test_rounding_alone_is_no_difference(value, first, second, seed):
    rng = np.random.default_rng(seed)
    # What the same model says to the same text, in batches of different sizes.
    a, b = (value * (1 + 1e-8 * rng.uniform(-1, 1, size)) for size in (first, second))
    assert label_permutation_test(a, b) == 1.0
    found = unpaired_bootstrap(a, b)
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)
    shorter = min(first, second)
    assert sign_flip_test(a[:shorter], b[:shorter]) == 1.0
    found = paired_bootstrap(a[:shorter], b[:shorter])
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)
