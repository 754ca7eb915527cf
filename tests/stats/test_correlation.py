"""Correlations against scipy, closed forms and published values."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats as scipy_stats

from turnwise.stats.correlation import (
    MOST_PERMUTED,
    average_ranks,
    correlation,
    kendall,
    partial_correlation,
    pearson,
    spearman,
)

# Small whole numbers make ties likely; they are exact, so that comparisons need no tolerance for the input.
numbers = st.integers(-20, 20).map(float)
pairs = st.integers(3, 30).flatmap(lambda n: arrays(float, (2, n), elements=numbers))

REFERENCES = {
    "pearson": scipy_stats.pearsonr,
    "spearman": scipy_stats.spearmanr,
    "kendall": scipy_stats.kendalltau,
}


@given(pairs)
def test_equals_scipy(pair):
    x, y = pair
    for method, reference in REFERENCES.items():
        found = correlation(x, y, method)
        if len(set(x)) == 1 or len(set(y)) == 1:
            assert (found.value, found.p) == (None, None)
            continue
        expected = reference(x, y)
        assert found.value == pytest.approx(expected.statistic, abs=1e-12)
        # At a perfect correlation p depends on the last bit of the value. Of few pairs it is exact, see below.
        if len(x) > MOST_PERMUTED or method == "kendall":
            assert found.p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-7)
        assert found.n == len(x)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(3, 6).flatmap(lambda n: arrays(float, (2, n), elements=numbers)))
def test_p_of_few_pairs_is_that_of_every_order(pair):
    x, y = pair
    for method in ("pearson", "spearman"):
        found = correlation(x, y, method)
        if found.value is None:
            continue

        def size(shuffled: np.ndarray, method: str = method) -> float:
            # What is the same but for rounding must tie: scipy's own allowance for that is nothing around 0.
            return round(abs(REFERENCES[method](x, shuffled).statistic), 9)

        expected = scipy_stats.permutation_test(
            (y,), size, permutation_type="pairings", alternative="greater", n_resamples=np.inf, vectorized=False
        )
        assert found.p == pytest.approx(expected.pvalue)


def test_three_systems_in_perfect_order_are_no_certainty():
    assert spearman([1, 2, 3], [10, 20, 30]).p == pytest.approx(1 / 3)
    assert pearson([1, 2, 3, 4], [1, 2, 3, 4]).p == pytest.approx(2 / 24)


@given(st.lists(numbers, min_size=1, max_size=50))
def test_average_ranks_equal_scipy(values):
    assert average_ranks(values).tolist() == scipy_stats.rankdata(values).tolist()


@given(pairs)
def test_spearman_ignores_monotone_maps(pair):
    x, y = pair
    plain = spearman(x, y).value
    assert spearman(np.exp(x / 7), y**3 + 5 * y).value == plain
    if plain is not None:
        assert spearman(-x, y).value == pytest.approx(-plain, abs=1e-12)


@given(pairs)
def test_symmetric_and_bounded(pair):
    x, y = pair
    for method in REFERENCES:
        forth, back = correlation(x, y, method), correlation(y, x, method)
        assert forth.n == back.n
        if forth.value is None:
            assert back.value is None
        else:
            assert forth.value == pytest.approx(back.value, abs=1e-12)
            assert -1 <= forth.value <= 1
            assert 0 <= forth.p <= 1


@pytest.mark.parametrize("method", REFERENCES)
@pytest.mark.parametrize(
    ("x", "y"),
    [([], []), ([1], [2]), ([1, 2], [1, 2]), ([1, 2, None], [1, 2, 3]), ([0.1] * 5, [1, 2, 3, 4, 5])],
)
def test_undefined_is_none_without_a_warning(method, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = correlation(x, y, method)
    assert (found.value, found.p) == (None, None)


def test_incomplete_pairs_are_dropped():
    x, y = [1.0, 2.0, np.nan, 4.0, 5.0], [2.0, 1.0, 9.0, np.nan, 7.0]
    assert spearman(x, y) == spearman([1, 2, 5], [2, 1, 7])


def test_infinite_scores_have_ranks_but_no_moments():
    x, y = [-np.inf, 1.0, 2.0, 3.0], [1.0, 2.0, 4.0, 3.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pearson(x, y).value is None
        assert spearman(x, y).value == pytest.approx(0.8)


@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_extreme_magnitudes(scale):
    x, y = np.array([1.0, 2.0, 4.0, 3.0]), np.array([1.0, 3.0, 2.0, 4.0])
    assert pearson(x * scale, y).value == pytest.approx(pearson(x, y).value, abs=1e-12)


def test_different_lengths_are_refused():
    with pytest.raises(ValueError, match="cannot pair"):
        pearson([1, 2, 3], [1, 2])


@pytest.mark.parametrize("method", ["pearson", "spearman"])
def test_partial_correlation_is_that_of_residuals(method):
    rng = np.random.default_rng(3)
    z = rng.normal(size=80)
    x, y = z + rng.normal(size=80), 0.5 * z + rng.normal(size=80)
    found = partial_correlation(x, y, z, method)
    columns = [scipy_stats.rankdata(v) if method == "spearman" else v for v in (x, y, z)]
    left = [column - np.polyval(np.polyfit(columns[2], column, 1), columns[2]) for column in columns[:2]]
    value = np.corrcoef(left)[0, 1]
    t = value * np.sqrt(77 / (1 - value**2))
    assert found.value == pytest.approx(value, abs=1e-10)
    assert found.p == pytest.approx(2 * scipy_stats.t.sf(abs(t), 77), rel=1e-8)


def test_partial_correlation_without_anything_left_is_undefined():
    x, y = np.arange(10.0), np.array([3.0, 1, 4, 1, 5, 9, 2, 6, 5, 3])
    assert partial_correlation(x, y, 2 * x + 1).value is None
    assert partial_correlation(x, y, np.ones(10)).value is None
    assert partial_correlation(x[:3], y[:3], y[3:6]).value is None


# MAUDE's mean score, calibrated fluency and calibrated inquisitiveness of 29 systems.
MAUDE_SYSTEMS = """
.9333 3.0914 2.4152  .8137 3.0281 1.9487  .8537 3.3618 2.4354  .9026 3.5140 2.3637  .9137 3.4175 2.4651
.9008 3.4668 2.5328  .9319 3.5384 2.6636  .9415 3.5227 2.6338  .9574 3.4208 2.7863  .9213 3.4464 2.5573
.9151 3.3425 2.5260  .7446 2.5359 2.0020  .8864 3.3714 2.4624  .7813 3.1889 2.2805  .8786 3.4431 2.5631
.9330 3.3893 2.5649  .8982 3.4366 2.5133  .8995 3.4267 2.4927  .9128 3.4121 2.2768  .9351 3.3511 2.6332
.9322 3.4030 2.5449  .9041 3.5625 2.4707  .9029 3.5320 2.6237  .9094 3.4903 2.5559  .8989 3.5513 2.4773
.9145 3.3486 2.5066  .8505 2.9317 2.1957  .7619 2.3977 2.0722  .8430 3.2559 2.3129
"""


def test_maude_calibrated_correlations():
    maude, fluency, inquisitive = np.array(MAUDE_SYSTEMS.split(), dtype=float).reshape(29, 3).T
    assert round(spearman(maude, fluency).value, 3) == 0.370
    assert round(spearman(maude, inquisitive).value, 3) == 0.728
    assert spearman(maude, fluency).n == 29


@pytest.mark.parametrize(
    ("corpus", "quality", "expected"),
    [
        ("holistic_coherence", "context_coherence", (-0.4484, -0.4939)),
        ("holistic_fluency", "fluency", (-0.6280, -0.6483)),
    ],
)
def test_length_against_holistic_ratings(rated, corpus, quality, expected):
    data = rated(corpus)
    lengths = [len(row["response"].split()) for row in data.rows]
    means = data.ratings(quality).mean(axis=1)
    found = (pearson(lengths, means).value, spearman(lengths, means).value)
    assert tuple(round(value, 4) for value in found) == expected


def test_kendall_of_a_hand_counted_case():
    # Of six pairs one is discordant, one is tied in y: (4 - 1) / sqrt(6 * 5).
    assert kendall([1, 2, 3, 4], [1, 3, 2, 3]).value == pytest.approx(3 / np.sqrt(30))
