"""Calibrated means: generalised least squares, quadrature, and raters whose bias is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from turnwise.stats.calibrate import calibrate

ROWS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("uvwxyz"), st.floats(-5, 5)), min_size=1, max_size=30
)
VARIANCES = st.floats(0.1, 4)


@given(ROWS, VARIANCES, VARIANCES)
def test_without_ends_it_is_generalised_least_squares(rows, bias: float, noise: float) -> None:
    systems, raters, ratings = zip(*rows, strict=True)
    found = calibrate(ratings, systems, raters, bias_variance=bias, noise_variance=noise)
    design = np.array([[name == system for name in found.systems] for system in systems], dtype=float)
    same = np.array([[one == other for one in raters] for other in raters], dtype=float)
    weight = np.linalg.inv(noise * np.eye(len(rows)) + bias * same)
    covariance = np.linalg.inv(design.T @ weight @ design)
    expected = covariance @ design.T @ weight @ np.array(ratings)
    assert [s.mean for s in found.systems.values()] == pytest.approx(expected, abs=1e-8)
    assert [s.std for s in found.systems.values()] == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-8)
    assert [s.n for s in found.systems.values()] == design.sum(axis=0).tolist()
    left = np.array(ratings) - design @ expected
    biases = {rater: bias * (weight @ left)[np.array(raters) == rater].sum() for rater in found.biases}
    assert found.biases == pytest.approx(biases, abs=1e-8)


def test_where_everybody_rates_everything_the_plain_means_remain() -> None:
    ratings = np.random.default_rng(1).normal(3, 1, (5, 7))
    systems, raters = np.indices(ratings.shape).reshape(2, -1).tolist()
    found = calibrate(ratings.ravel(), systems, raters)
    assert [s.mean for s in found.systems.values()] == pytest.approx(ratings.mean(axis=1))


def test_it_finds_what_raters_hid() -> None:
    rng = np.random.default_rng(2)
    quality, bias = rng.uniform(2, 4, 10), rng.normal(0, 1, 60)
    # Kind raters got the worse systems: the plain means are turned around.
    raters = rng.integers(0, 60, 3000)
    chance = np.exp(-2 * bias[raters][:, None] * quality)
    systems = np.array([rng.choice(10, p=row / row.sum()) for row in chance])
    ratings = quality[systems] + bias[raters] + rng.normal(0, 1, 3000)
    found = calibrate(ratings, systems.tolist(), raters.tolist())
    means = np.array([found.systems[i].mean for i in range(10)])
    plain = np.array([ratings[systems == i].mean() for i in range(10)])
    assert np.corrcoef(means, quality)[0, 1] > 0.95
    assert np.corrcoef(plain, quality)[0, 1] < 0.5
    assert np.corrcoef([found.biases[i] for i in range(60)], bias)[0, 1] > 0.95


@pytest.mark.parametrize("ratings", [[4.0], [1.0, 1.0, 2.0], [4.0] * 6])
def test_the_ends_of_a_scale_are_those_of_quadrature(ratings: list[float]) -> None:
    low, high = 1.0, 4.0
    raters = [f"r{i}" for i in range(len(ratings))]
    found = calibrate(ratings, ["a"] * len(ratings), raters, scale=(low, high)).systems["a"]

    def density(quality: float) -> float:
        prior = norm.cdf(high - quality) - norm.cdf(low - quality)
        return float(prior * np.prod(norm.pdf(ratings, quality, np.sqrt(2))))

    mass, first, second = (quad(lambda q, k=k: q**k * density(q), -8, 14, limit=200)[0] for k in range(3))
    mean = first / mass
    assert found.mean == pytest.approx(mean, abs=0.01)
    assert found.std == pytest.approx(np.sqrt(second / mass - mean**2), rel=0.02)


def test_far_ends_change_nothing_and_draws_are_seeded() -> None:
    rows = [3.0, 4.0, 2.0, 4.0], ["a", "a", "b", "b"], ["u", "v", "u", "w"]
    free, far = calibrate(*rows), calibrate(*rows, scale=(-100, 100))
    assert [s.mean for s in far.systems.values()] == pytest.approx([s.mean for s in free.systems.values()])
    assert [s.std for s in far.systems.values()] == pytest.approx([s.std for s in free.systems.values()], rel=0.02)
    assert calibrate(*rows, scale=(1, 4)) == calibrate(*rows, scale=(1, 4))
    assert calibrate(*rows, scale=(1, 4), seed=1) != calibrate(*rows, scale=(1, 4))


def test_missing_ratings_and_bad_requests() -> None:
    found = calibrate([None, 3.0], ["a", "b"], ["u", "v"])
    assert list(found.systems) == ["b"]
    assert list(found.biases) == ["v"]
    assert calibrate([None], ["a"], ["u"]).systems == {}
    with pytest.raises(ValueError, match="one of each a row"):
        calibrate([1.0, 2.0], ["a"], ["u", "v"])
    with pytest.raises(ValueError, match="lower end"):
        calibrate([1.0], ["a"], ["u"], scale=(5, 1))
    with pytest.raises(ValueError, match="outside the scale 1 to 4"):
        calibrate([1.0, -50.0], ["a", "b"], ["u", "v"], scale=(1, 4))
    with pytest.raises(ValueError, match="infinite"):
        calibrate([1.0, float("inf")], ["a", "b"], ["u", "v"])
    for changed in ({"bias_variance": 0.0}, {"noise_variance": 0.0}):
        with pytest.raises(ValueError, match="above 0"):
            calibrate([1.0, 2.0], ["a", "b"], ["u", "v"], **changed)
