"""Regression of overall ratings against scikit-learn and the values known for USR's Topical-Chat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import nnls
from scipy.special import softmax as scipy_softmax
from scipy.stats import spearmanr
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from turnwise.stats.regression import (
    Method,
    fit_linear,
    folds_by_cluster,
    held_out_predictions,
    regress,
    regress_by_rater,
    softmax,
    standardise,
    weight_intervals,
)

QUALITIES = ("Understandable", "Natural", "Maintains Context", "Engaging", "Uses Knowledge")


def ratings_of(data):
    """Raw ratings as (items, slots, qualities) and (items, slots)."""
    return np.stack([data.ratings(quality) for quality in QUALITIES], axis=-1), data.ratings("Overall")


@pytest.mark.parametrize(("leave_out", "n", "expected"), [(None, 360, 0.9687), ("Original Ground Truth", 300, 0.9627)])
def test_topical_chat_overall_from_mean_qualities(rated, leave_out, n, expected):
    data = rated("usr_topicalchat")
    qualities, overall = ratings_of(data.without(leave_out) if leave_out else data)
    fit = regress(qualities.mean(axis=1), overall.mean(axis=1))
    assert fit.n == n
    assert round(fit.spearman, 4) == expected


def test_each_rater_has_a_fit_of_their_own(rated):
    data = rated("usr_topicalchat")
    qualities, overall = ratings_of(data)
    raters = data.raters()
    fits = regress_by_rater(qualities, overall, raters)
    assert {name: fit.n for name, fit in fits.items()} == {"r1": 360, "r2": 180, "r3": 180, "r4": 180, "r5": 180}
    mine = StandardScaler().fit_transform(qualities[raters == "r3"])
    model = LinearRegression().fit(mine, overall[raters == "r3"])
    assert fits["r3"].weights == pytest.approx(model.coef_)
    assert fits["r3"].intercept == pytest.approx(model.intercept_)
    assert sum(fits["r3"].shares) == pytest.approx(1)
    pooled = regress(qualities.reshape(-1, 5), overall.reshape(-1))
    assert pooled.n == 1080


def test_equals_scikit_learn():
    rng = np.random.default_rng(0)
    features = rng.normal(3, 5, size=(50, 3))
    target = features @ [1.0, -2.0, 0.5] + rng.normal(size=50)
    scaled = StandardScaler().fit_transform(features)
    model = LinearRegression().fit(scaled, target)
    fit = regress(features, target)
    assert fit.weights == pytest.approx(model.coef_)
    assert fit.intercept == pytest.approx(model.intercept_)
    assert fit.r2 == pytest.approx(model.score(scaled, target))
    assert fit.spearman == pytest.approx(spearmanr(model.predict(scaled), target).statistic)


def test_a_constant_quality_has_no_weight():
    rng = np.random.default_rng(1)
    features = np.column_stack([rng.normal(size=20), np.full(20, 0.1)])
    fit = regress(features, features[:, 0] * 2)
    assert fit.weights[1] == 0
    assert fit.r2 == pytest.approx(1)


def test_missing_ratings_are_left_out_and_too_few_rows_give_none():
    features = np.array([[1.0], [2.0], [np.nan], [3.0], [5.0]])
    target = np.array([1.0, 2.0, 3.0, np.nan, 4.0])
    fit = regress(features, target)
    assert fit.n == 3
    assert fit.weights == regress(features[[0, 1, 4]], target[[0, 1, 4]]).weights
    assert regress(features[:3], target[:3]) is None


def test_a_constant_target_is_fitted_but_not_explained():
    fit = regress([[1.0], [2.0], [3.0]], [4.0, 4.0, 4.0])
    assert (fit.intercept, fit.r2, fit.spearman) == (4.0, None, None)


@given(arrays(float, (15, 2), elements=st.integers(-50, 50).map(float)))
def test_standardised_columns(table):
    for column, plain in zip(standardise(table).T, table.T, strict=True):
        assert column.mean() == pytest.approx(0, abs=1e-12)
        assert column.std() == pytest.approx(0 if len(set(plain)) == 1 else 1)


@given(st.lists(st.floats(-700, 700), min_size=1, max_size=10))
def test_softmax(values):
    assert softmax(values) == pytest.approx(scipy_softmax(values))
    assert softmax(values).sum() == pytest.approx(1)
    assert softmax(np.array(values) + 5) == pytest.approx(softmax(values))


def test_softmax_of_usr_weights():
    # The published weights of the five qualities, and the shares that the paper's figure shows.
    weights = (0.6601100065, 0.4035348605, 0.5132785702, 0.9605336087, 0.3564255382)
    assert softmax(weights).round(4).tolist() == [0.2116, 0.1637, 0.1827, 0.2858, 0.1562]


NON_NEGATIVE = Method(non_negative=True)


def rated(n: int = 120, seed: int = 0) -> tuple[Any, Any, Any]:
    """Scores of very different scales, ratings that follow two of them, and contexts of six rows."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, 4)) * [1, 100, 0.01, 5] + [0, 1e4, -3, 7]
    scores[:, 3] += 3 * scores[:, 0]
    ratings = 3 + scores[:, 0] - 0.005 * scores[:, 1] + rng.normal(size=n)
    return scores, ratings, np.arange(n) // 6


@pytest.mark.parametrize("alpha", [0.0, 0.5, 40.0])
def test_weights_are_those_of_scikit_learn(alpha: float) -> None:
    scores, ratings, _ = rated()
    scaler = StandardScaler().fit(scores)
    model = (Ridge(alpha=alpha) if alpha else LinearRegression()).fit(scaler.transform(scores), ratings)
    ours = fit_linear(scores, ratings, Method(ridge=alpha))
    np.testing.assert_allclose(ours.weights, model.coef_, rtol=1e-8)
    assert ours.intercept == pytest.approx(model.intercept_)
    np.testing.assert_allclose(ours.mean, scaler.mean_)
    np.testing.assert_allclose(ours.deviation, scaler.scale_)
    np.testing.assert_allclose(ours.predict(scores), model.predict(scaler.transform(scores)))


def test_weights_that_may_not_be_negative_are_those_of_scipy() -> None:
    scores, ratings, _ = rated()
    standard = StandardScaler().fit_transform(scores)
    expected, _ = nnls(standard, ratings - ratings.mean())
    ours = fit_linear(scores, ratings, NON_NEGATIVE)
    np.testing.assert_allclose(ours.weights, expected, atol=1e-9)
    assert (expected == 0).any(), "the test is of interest only where the constraint binds"


def test_ridge_and_non_negative_together_are_least_squares_with_extra_rows() -> None:
    scores, ratings, _ = rated()
    standard = np.vstack([StandardScaler().fit_transform(scores), np.sqrt(30.0) * np.eye(4)])
    expected, _ = nnls(standard, np.concatenate([ratings - ratings.mean(), np.zeros(4)]))
    ours = fit_linear(scores, ratings, Method(ridge=30.0, non_negative=True))
    np.testing.assert_allclose(ours.weights, expected, atol=1e-9)


def test_a_metric_that_does_not_vary_gets_no_weight() -> None:
    scores, ratings, _ = rated()
    scores[:, 2] = 0.1
    ours = fit_linear(scores, ratings)
    assert ours.weights[2] == 0
    assert np.isfinite(ours.predict(scores)).all()


def test_a_metric_given_twice_shares_its_weight() -> None:
    scores, ratings, _ = rated()
    once = fit_linear(scores, ratings)
    twice = fit_linear(np.column_stack([scores, scores[:, 0]]), ratings)
    assert twice.weights[0] == pytest.approx(twice.weights[-1])
    assert twice.weights[0] + twice.weights[-1] == pytest.approx(once.weights[0])


def test_raters_who_rated_everything_average_to_their_mean() -> None:
    scores, ratings, _ = rated()
    people = np.column_stack([ratings + 1, 2 * ratings, ratings[::-1]])
    alone = fit_linear(scores, people)
    together = fit_linear(scores, people.mean(axis=1))
    np.testing.assert_allclose(alone.weights, together.weights)
    assert alone.intercept == pytest.approx(together.intercept)


def test_each_rater_is_fitted_to_what_they_rated() -> None:
    scores, ratings, _ = rated()
    people = np.column_stack([ratings, -ratings])
    people[:80, 1] = np.nan
    scaler = StandardScaler().fit(scores)
    standard = scaler.transform(scores)
    models = [LinearRegression().fit(standard, ratings), LinearRegression().fit(standard[80:], -ratings[80:])]
    ours = fit_linear(scores, people)
    np.testing.assert_allclose(ours.weights, np.mean([model.coef_ for model in models], axis=0))
    assert ours.intercept == pytest.approx(np.mean([model.intercept_ for model in models]))


@given(st.lists(st.integers(0, 15), min_size=2, max_size=80), st.integers(2, 12), st.integers(0, 99))
def test_no_cluster_is_in_two_folds_and_every_fold_has_rows(clusters: list[int], folds: int, seed: int) -> None:
    found = folds_by_cluster(clusters, folds, seed)
    used = min(folds, len(set(clusters)))
    assert set(found.tolist()) == set(range(used))
    assert len(set(zip(clusters, found.tolist(), strict=True))) == len(set(clusters))
    sizes = np.bincount([found[clusters.index(cluster)] for cluster in set(clusters)])
    assert sizes.max() - sizes.min() <= 1
    np.testing.assert_array_equal(found, folds_by_cluster(clusters, folds, seed))


@pytest.mark.parametrize("alpha", [1e-12, 3.0])
def test_held_out_predictions_are_those_of_scikit_learn(alpha: float) -> None:
    scores, ratings, clusters = rated()
    folds = folds_by_cluster(clusters, 5, seed=1)
    pipeline = make_pipeline(StandardScaler(), Ridge(alpha=alpha))
    expected = cross_val_predict(pipeline, scores, ratings, groups=folds, cv=LeaveOneGroupOut())
    ours = held_out_predictions(scores, ratings, folds, Method(ridge=alpha))
    np.testing.assert_allclose(ours, expected, rtol=1e-7)


def test_a_row_does_not_move_its_own_prediction() -> None:
    scores, ratings, clusters = rated()
    folds = folds_by_cluster(clusters, 5, seed=0)
    before = held_out_predictions(scores, ratings, folds)
    ratings[0] += 1000
    after = held_out_predictions(scores, ratings, folds)
    mine = folds == folds[0]
    np.testing.assert_allclose(after[mine], before[mine], rtol=1e-6)
    assert not np.allclose(after[~mine], before[~mine])


@pytest.mark.slow
def test_intervals_are_those_of_refitting_resampled_clusters() -> None:
    scores, ratings, clusters = rated()
    ours = weight_intervals(scores, ratings, clusters, resamples=2000, seed=0)
    rng = np.random.default_rng(5)
    drawn = []
    for _ in range(2000):
        rows = np.concatenate([np.flatnonzero(clusters == c) for c in rng.integers(0, 20, size=20)])
        standard = StandardScaler().fit_transform(scores[rows])
        drawn.append(LinearRegression().fit(standard, ratings[rows]).coef_)
    expected = np.quantile(drawn, [0.025, 0.975], axis=0).T
    found = np.array([[interval.low, interval.high] for interval in ours if interval])
    np.testing.assert_allclose(found, expected, atol=0.06)


@pytest.mark.parametrize("method", [Method(), NON_NEGATIVE, Method(ridge=5.0)])
def test_intervals_hold_the_weights_and_are_the_same_every_time(method: Method) -> None:
    scores, ratings, clusters = rated()
    weights = fit_linear(scores, ratings, method).weights
    first = weight_intervals(scores, ratings, clusters, method, resamples=500)
    assert first == weight_intervals(scores, ratings, clusters, method, resamples=500)
    for weight, interval in zip(weights, first, strict=True):
        assert interval is not None
        assert interval.low - 1e-9 <= weight <= interval.high + 1e-9
    assert weight_intervals(scores, ratings, np.zeros(len(scores)), method) == [None] * 4


def test_noise_fits_its_own_sample_and_nothing_else() -> None:
    """Scores that have nothing to do with the ratings explain k / (n - 1) of their variance, and none held out."""
    rng = np.random.default_rng(0)
    n, k = 60, 8
    explained, predicted = [], []
    for _ in range(300):
        scores, ratings = rng.normal(size=(n, k)), rng.normal(size=n)
        explained.append(np.corrcoef(fit_linear(scores, ratings).predict(scores), ratings)[0, 1] ** 2)
        folds = folds_by_cluster(np.arange(n) // 3, 10, seed=0)
        predicted.append(np.corrcoef(held_out_predictions(scores, ratings, folds), ratings)[0, 1])
    assert np.mean(explained) == pytest.approx(k / (n - 1), abs=0.015)
    assert np.mean(predicted) < 0.02
