"""The weighted bootstrap against explicit resampling, closed forms and its own promises."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from turnwise.stats.arrays import cluster_codes
from turnwise.stats.bootstrap import (
    bootstrap,
    correlation_interval,
    mean_interval,
    spearman_intervals,
)
from turnwise.stats.correlation import correlation, weighted_correlation

METHODS = ("pearson", "spearman")


def cluster_weights(labels: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return how often each row occurs in each resample: (rows, resamples)."""
    return bootstrap(lambda weights: weights.T, labels, len(labels), resamples, seed).T


def sample(rows: int, seed: int = 0, tied: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    y = x + rng.normal(size=rows)
    return (np.round(x), np.round(2 * y) / 2) if tied else (x, y)


# --- clusters and weights --------------------------------------------------------------------------------


@given(st.lists(st.one_of(st.none(), st.text(max_size=2), st.integers(0, 3)), max_size=30))
def test_rows_share_a_code_exactly_when_they_share_a_label(labels):
    codes, count = cluster_codes(labels, len(labels))
    assert set(codes) == set(range(count))
    for i, left in enumerate(labels):
        for j, right in enumerate(labels):
            together = i == j or (left is not None and left == right)
            assert (codes[i] == codes[j]) == together


def test_labels_must_match_rows():
    with pytest.raises(ValueError, match="2 cluster labels for 3 rows"):
        mean_interval([1, 2, 3], ["a", "b"])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(1, 20))
def test_every_resample_draws_as_many_clusters_as_there_are(labels, resamples):
    weights = cluster_weights(np.array(labels), resamples, 0)
    assert weights.shape == (len(labels), resamples)
    firsts = [labels.index(label) for label in set(labels)]
    assert (weights[firsts].sum(axis=0) == len(firsts)).all()
    for label in set(labels):
        rows = weights[np.array(labels) == label]
        assert (rows == rows[0]).all()


def test_draws_are_multinomial():
    weights = cluster_weights(np.arange(10), 40_000, 1)
    assert weights.mean() == 1
    # Var = 1 - 1/K and Cov = -1/K for K clusters drawn K times.
    covariance = np.cov(weights)
    assert np.diag(covariance) == pytest.approx(np.full(10, 0.9), abs=0.03)
    assert covariance[0, 1:] == pytest.approx(np.full(9, -0.1), abs=0.03)


# --- weighted correlations are those of the resampled rows -----------------------------------------------


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_weighted_equals_scipy_on_resampled_rows(method, tied):
    x, y = sample(120, tied=tied)
    weights = cluster_weights(np.arange(120) // 3, 50, 5)
    reference = {"pearson": pearsonr, "spearman": spearmanr}[method]
    expected = []
    for counts in weights.T.astype(int):
        rows = np.repeat(np.arange(120), counts)
        expected.append(reference(x[rows], y[rows]).statistic)
    assert weighted_correlation(x, y, weights, method) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_a_resample_of_one_value_is_undefined_and_silent(method):
    x, y = np.array([0.1, 0.3, 0.7, 0.7]), np.array([1.1, 2.3, 3.7, 0.2])
    weights = np.array([[4, 1, 0], [0, 1, 0], [0, 1, 1], [0, 1, 3]], dtype=float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = weighted_correlation(x, y, weights, method)
    assert np.isnan(found).tolist() == [True, False, True]
    assert found[1] == pytest.approx(correlation(x, y, method).value)


# --- intervals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_correlation_interval_equals_an_explicit_clustered_bootstrap(method):
    x, y = sample(90, tied=True)
    clusters = np.repeat(np.arange(30), 3)
    rng = np.random.default_rng(9)
    members = [np.flatnonzero(clusters == cluster) for cluster in range(30)]
    values = []
    for _ in range(1500):
        rows = np.concatenate([members[cluster] for cluster in rng.integers(0, 30, size=30)])
        values.append(correlation(x[rows], y[rows], method).value)
    expected = np.quantile(values, [0.025, 0.975])
    found = correlation_interval(x, y, clusters, method, resamples=20_000)
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=0.015)


def test_mean_interval_equals_an_explicit_clustered_bootstrap():
    rng = np.random.default_rng(2)
    clusters = rng.integers(0, 40, size=200)
    values = rng.normal(size=200) + 2 * rng.normal(size=40)[clusters]
    members = [np.flatnonzero(clusters == cluster) for cluster in range(40)]
    means = [
        values[np.concatenate([members[cluster] for cluster in rng.integers(0, 40, size=40)])].mean()
        for _ in range(3000)
    ]
    found = mean_interval(values, clusters, resamples=20_000)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=0.06)
    # Rows of a context move together, so pretending that they do not would be too sure.
    alone = mean_interval(values, None)
    assert found.high - found.low > 1.3 * (alone.high - alone.low)


def test_coverage_of_the_mean_interval_is_near_its_level():
    rng = np.random.default_rng(6)
    clusters = np.repeat(np.arange(50), 4)
    hits = 0
    for trial in range(300):
        values = rng.normal(size=200) + rng.normal(size=50)[clusters]
        interval = mean_interval(values, clusters, resamples=500, seed=trial)
        hits += interval.low <= 0 <= interval.high
    assert 0.90 <= hits / 300 <= 0.985


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from(METHODS))
def test_intervals_hold_the_estimate_and_depend_only_on_the_seed(seed, method):
    x, y = sample(60, seed)
    clusters = np.arange(60) % 20
    found = correlation_interval(x, y, clusters, method, resamples=400, seed=seed)
    assert found.low <= correlation(x, y, method).value <= found.high
    assert found == correlation_interval(x, y, clusters, method, resamples=400, seed=seed)
    mean = mean_interval(x, clusters, resamples=400, seed=seed)
    assert mean.low <= x.mean() <= mean.high
    wider = mean_interval(x, clusters, resamples=400, seed=seed, level=0.99)
    assert wider.low <= mean.low
    assert wider.high >= mean.high


def test_string_labels_and_codes_give_the_same_interval():
    x, y = sample(40)
    names = [f"context {row % 10}" for row in range(40)]
    codes = np.arange(40) % 10
    assert correlation_interval(x, y, names, resamples=300) == correlation_interval(x, y, codes, resamples=300)


def test_incomplete_pairs_do_not_count():
    x, y = sample(30)
    gappy = np.concatenate([x, [np.nan, 5.0]]), np.concatenate([y, [1.0, np.nan]])
    clusters = np.arange(32) // 2
    assert correlation_interval(*gappy, clusters, resamples=200) == correlation_interval(
        x, y, clusters[:30], resamples=200
    )


@pytest.mark.parametrize("method", METHODS)
def test_undefined_intervals_are_none(method):
    x, y = sample(10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert correlation_interval(x, np.ones(10), None, method) is None
        assert correlation_interval(x, y, ["same"] * 10, method) is None
        assert correlation_interval([], [], None, method) is None
        assert mean_interval([]) is None
        assert mean_interval([1.0]) is None
        assert mean_interval([1.0, 2.0], ["same", "same"]) is None


def test_memory_stays_flat_however_many_rows_and_resamples():
    rows = 200_000
    x, y = sample(rows)
    tracemalloc.start()
    correlation_interval(x, y, np.arange(rows) // 2, "spearman", resamples=3)
    mean_interval(x, np.arange(rows) % 1000, resamples=20_000)
    correlation_interval(x[:2000], y[:2000], None, "pearson", resamples=20_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6


def test_any_statistic_of_weights_can_be_resampled():
    values = np.arange(12.0)
    drawn = bootstrap(lambda weights: weights.T @ values / 12, values // 3, 12, 5000, seed=0)
    assert drawn.shape == (5000,)
    # Four clusters with means 1, 4, 7, 10: the mean of four draws has variance 11.25 / 4.
    assert drawn.var() == pytest.approx(11.25 / 4, rel=0.06)


def test_a_table_of_intervals_holds_those_of_its_pairs():
    rng = np.random.default_rng(4)
    columns = [rng.normal(size=40), rng.integers(0, 3, 40).astype(float), np.ones(40)]
    ratings = [columns[0] + rng.normal(size=40), rng.integers(1, 6, 40).astype(float), np.zeros(40)]
    clusters = np.arange(40) // 4
    found = spearman_intervals(columns, ratings, clusters, resamples=300, seed=2)
    for i, column in enumerate(columns):
        for j, rating in enumerate(ratings):
            assert found[i][j] == correlation_interval(column, rating, clusters, resamples=300, seed=2)
    assert spearman_intervals(columns, ratings, np.zeros(40), resamples=9) == [[None] * 3] * 3
    assert spearman_intervals([], ratings) == []
