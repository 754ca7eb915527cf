"""Standard errors from subsets are those of new samples, and extrapolation takes most of a bias away."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from turnwise.stats.bootstrap import system_correlation_interval
from turnwise.stats.frechet import frechet, frechet_by_counts
from turnwise.stats.subsets import (
    draws_of,
    extrapolated,
    jackknife_evidence,
    resampled_evidence,
    units_of,
)


def test_units_are_clusters_or_blocks_of_like_size() -> None:
    units, count = units_of(np.array([5, 5, 9, 7]))
    assert count == 3
    assert units[0] == units[1]
    units, count = units_of(np.arange(1000))
    assert count == 64
    assert set(np.bincount(units)) == {15, 16}


def test_draws_leave_a_fifth_out() -> None:
    draws = draws_of(50, 200)
    assert draws.shape == (200, 50)
    assert set(draws.sum(axis=1)) == {40}
    assert set(np.unique(draws)) == {0, 1}
    assert draws_of(1).shape == (0, 1)
    assert (draws_of(30, seed=1) == draws_of(30, seed=1)).all()


def test_the_error_of_a_mean_is_the_textbook_s() -> None:
    values = np.random.default_rng(0).normal(size=60)
    means = draws_of(60, 4000) @ values / 48
    found = resampled_evidence(means, float(values.mean()), 60)
    assert found is not None
    assert found.error == pytest.approx(values.std(ddof=1) / np.sqrt(60), rel=0.05)
    interval = found.interval()
    assert interval is not None
    assert interval.high - values.mean() == pytest.approx(stats.t.ppf(0.975, 59) * found.error)


def test_a_difference_and_its_p() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=80), rng.normal(size=80)
    draws = draws_of(80, 2000)
    differences = draws @ (x + 1 - y) / 64
    found = resampled_evidence(differences, float((x + 1 - y).mean()), 80)
    assert found is not None
    assert found.p() < 1e-6
    none = resampled_evidence(np.zeros(9), 0.0, 10)
    assert none is not None
    assert none.p() == 1
    assert resampled_evidence(np.full(9, 0.5), 0.5, 10) is None


def test_undefined_resamples() -> None:
    assert resampled_evidence(np.array([np.nan] * 6 + [1.0] * 4), 1.0, 10) is None
    assert resampled_evidence(np.array([1.0, 2.0, np.nan]), 1.5, 10) is not None
    assert resampled_evidence(np.empty(0), 1.0, 1) is None


def sample(n: int, rng: np.random.Generator, width: int = 40) -> tuple[np.ndarray, np.ndarray]:
    scale = np.exp(-np.arange(width) / 8)
    x = rng.normal(size=(n, width)) * scale
    return x, 0.5 * x + rng.normal(size=(n, width)) * scale + 0.1


def test_frechet_errors_are_those_of_new_samples() -> None:
    rng = np.random.default_rng(0)
    values = [frechet(*sample(60, rng)).value() for _ in range(200)]
    errors = []
    for _ in range(10):
        x, y = sample(60, rng)
        units, count = units_of(np.arange(60))
        distance = frechet_by_counts(x, y, units, units, count)
        found = resampled_evidence(np.array([distance(draw).value() for draw in draws_of(count)]), 0.0, count)
        assert found is not None
        errors.append(found.error)
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.35)


def test_extrapolation_takes_most_of_the_bias_away() -> None:
    rng = np.random.default_rng(0)
    truth = frechet(*sample(100_000, rng)).value()
    plain, debiased = [], []
    for _ in range(15):
        x, y = sample(100, rng)
        units, count = units_of(np.arange(100))
        distance = frechet_by_counts(x, y, units, units, count)
        plain.append(frechet(x, y).value())
        limit = extrapolated(lambda counts, of=distance: of(counts).value(), count)
        assert limit is not None
        debiased.append(limit)
    assert np.mean(plain) > 1.2 * truth
    assert abs(np.mean(debiased) - truth) < 0.35 * (np.mean(plain) - truth)


def test_extrapolation_is_exact_on_a_line() -> None:
    assert extrapolated(lambda counts: 3 + 8 / counts.sum(), 40) == pytest.approx(3)
    assert extrapolated(lambda counts: counts.sum(), 9) is None


def test_the_jackknife_of_a_mean_difference_is_the_t_test() -> None:
    """For means, leaving out one pair at a time is the paired t test in other words."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.3, 1, 25), rng.normal(0, 1, 25)
    differences = a - b
    left_out = [np.delete(differences, k).mean() for k in range(25)]
    found = jackknife_evidence(left_out, float(differences.mean()))
    expected = stats.ttest_rel(a, b)
    assert found is not None
    assert found.p() == pytest.approx(expected.pvalue)
    interval, ours = expected.confidence_interval(0.95), found.interval()
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high))


def test_a_p_never_comes_from_no_spread() -> None:
    same = jackknife_evidence([0.0, 0.0, 0.0], 0.0)
    assert same is not None
    assert same.p() == 1.0
    assert jackknife_evidence([0.5], 0.5) is None
    assert jackknife_evidence([0.5, 0.5], 0.5) is None
    few = jackknife_evidence([0.5, 0.5001, 0.5], 0.5)
    assert few is not None
    assert few.p() >= 0.25
    interval = few.interval()
    assert interval is not None
    assert interval.low <= 0
    # The value of one system need not be told from zero.
    one = jackknife_evidence([0.5, 0.5001, 0.5], 0.5, difference=False)
    assert one is not None
    assert one.interval().low > 0.49  # type: ignore[union-attr]


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
