"""Regression of overall ratings against scikit-learn and the values known for USR's Topical-Chat."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax as scipy_softmax
from scipy.stats import spearmanr
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

from turnwise.stats.regression import regress, regress_by_rater, softmax, standardise

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
