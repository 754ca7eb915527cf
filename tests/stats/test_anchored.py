"""Anchored estimates against ppi-python, closed forms and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from turnwise.stats.anchored import FEWEST_LABELLED, anchored_difference, anchored_mean, cross_fitted, sample_rows


def _draw(seed: int, rows: int = 400, labelled: int = 80, quality: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    people = rng.normal(size=rows)
    scores = quality * people + np.sqrt(1 - quality**2) * rng.normal(size=rows)
    return scores, np.where(np.arange(rows) < labelled, people, np.nan)


def test_the_estimate_is_that_of_ppi_python() -> None:
    ppi = pytest.importorskip("ppi_py")
    scores, ratings = _draw(0)
    on = ~np.isnan(ratings)
    for weight in (0.0, 0.4, 1.0, None):
        found = anchored_mean(scores, ratings, weight=weight)
        assert found is not None
        # Theirs counts unrated rows alone, so the same weight has another size.
        theirs = found.weight * np.sum(~on) / len(on)
        expected = ppi.ppi_mean_pointestimate(ratings[on], scores[on], scores[~on], lam=theirs)
        assert found.value == pytest.approx(float(np.squeeze(expected)), abs=1e-12)


def test_many_rows_give_the_interval_of_ppi_python() -> None:
    ppi = pytest.importorskip("ppi_py")
    scores, ratings = _draw(1, rows=20_000, labelled=4_000)
    on = ~np.isnan(ratings)
    found = anchored_mean(scores, ratings)
    assert found is not None
    low, high = ppi.ppi_mean_ci(ratings[on], scores[on], scores[~on], alpha=0.05)
    assert (found.low, found.high) == pytest.approx((low.item(), high.item()), abs=0.001)


def test_without_weight_it_is_the_ratings_own_t_interval() -> None:
    scores, ratings = _draw(2)
    found = anchored_mean(scores, ratings, weight=0.0)
    assert found is not None
    seen = ratings[~np.isnan(ratings)]
    assert found.value == pytest.approx(seen.mean())
    assert found.evidence.error == pytest.approx(stats.sem(seen), rel=1e-9)
    assert found.worth == found.n == 80


def test_a_perfect_metric_is_worth_all_rows() -> None:
    people = np.random.default_rng(3).normal(size=400)
    ratings = np.where(np.arange(400) < 50, people, np.nan)
    found = anchored_mean(2 * people + 5, ratings)
    assert found is not None
    assert found.value == pytest.approx(people.mean())
    assert found.worth == pytest.approx(400, rel=0.35)
    rows = anchored_mean(2 * people + 5, ratings, target="rows")
    assert rows is not None
    assert rows.high - rows.low < 1e-6


def test_all_rows_rated_leave_nothing_to_infer_about_them() -> None:
    scores, _ = _draw(4)
    people = np.random.default_rng(4).normal(size=400)
    found = anchored_mean(scores, people, target="rows")
    assert found is not None
    assert found.value == pytest.approx(people.mean())
    assert (found.low, found.high) == pytest.approx((found.value, found.value))


def test_too_few_labels_are_refused() -> None:
    scores, ratings = _draw(5, labelled=FEWEST_LABELLED - 1)
    assert anchored_mean(scores, ratings) is None
    scores, ratings = _draw(5, labelled=60)
    assert anchored_mean(scores, ratings, np.arange(400) // 6) is None
    assert anchored_mean(scores, ratings, np.arange(400) // 3) is not None


def test_rows_without_a_score_still_count() -> None:
    scores, ratings = _draw(6)
    scores[::7] = np.nan
    found = anchored_mean(scores, ratings)
    assert found is not None
    assert np.isfinite([found.low, found.high]).all()
    useless = anchored_mean(np.full(400, np.nan), ratings)
    assert useless is not None
    assert useless.value == pytest.approx(np.nanmean(ratings))


def test_weights_undo_how_rows_were_picked() -> None:
    rng = np.random.default_rng(7)
    people = rng.normal(size=2000)
    chance = np.where(people > 0, 0.2, 0.05)
    errors = []
    for _ in range(200):
        ratings = np.where(rng.random(2000) < chance, people, np.nan)
        found = anchored_mean(np.zeros(2000), ratings, weights=1 / chance, target="rows")
        assert found is not None
        errors.append(found.value - people.mean())
    assert np.mean(errors) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("quality", [0.0, 0.8])
@pytest.mark.parametrize("target", ["population", "rows"])
def test_intervals_cover(quality: float, target: str) -> None:
    covered, widths = [], []
    for seed in range(400):
        scores, ratings = _draw(seed, quality=quality, labelled=50)
        people = np.random.default_rng(seed).normal(size=400)
        found = anchored_mean(scores, ratings, target=target)  # type: ignore[arg-type]
        assert found is not None
        covered.append(found.low <= (0 if target == "population" else people.mean()) <= found.high)
        widths.append((found.high - found.low) / (found.labels_only.high - found.labels_only.low))
    assert np.mean(covered) >= 0.92
    assert np.mean(widths) < (0.8 if quality else 1.05)


def test_a_difference_on_shared_contexts_is_that_of_the_differences() -> None:
    rng = np.random.default_rng(8)
    hard = rng.normal(size=300)
    sides = []
    for shift in (0.3, 0.0):
        people = hard + 0.3 * rng.normal(size=300) + shift
        sides.append((people + 0.5 * rng.normal(size=300), np.where(np.arange(300) < 60, people, np.nan)))
    contexts = [f"c{row}" for row in range(300)]
    paired = anchored_difference(sides[0], sides[1], (contexts, contexts))
    apart = anchored_difference(sides[0], sides[1], (contexts, [f"d{row}" for row in range(300)]))
    assert paired is not None
    assert apart is not None
    assert paired.evidence.error < 0.6 * apart.evidence.error
    assert paired.evidence.p() < 0.05
    plain = stats.ttest_rel(sides[0][1][:60], sides[1][1][:60]).confidence_interval()
    assert (paired.labels_only.low, paired.labels_only.high) == pytest.approx((plain.low, plain.high), abs=0.02)


def test_fitting_on_the_same_labels_needs_folds() -> None:
    naive, fair = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        noise, people = rng.normal(size=(400, 25)), rng.normal(size=400)
        ratings = np.where(np.arange(400) < 50, people, np.nan)

        def fit(on: np.ndarray, x: np.ndarray = noise, y: np.ndarray = ratings) -> np.ndarray:
            return np.asarray(x @ np.linalg.lstsq(x[on], y[on])[0])

        for scores, found in ((fit(~np.isnan(ratings)), naive), (cross_fitted(fit, ratings), fair)):
            one = anchored_mean(scores, ratings)
            assert one is not None
            found.append(one.low <= 0 <= one.high)
    assert np.mean(fair) >= 0.88
    assert np.mean(naive) < np.mean(fair)


def test_sampled_rows_stand_for_all() -> None:
    scores = np.random.default_rng(9).random(500)
    scores[:3] = np.nan
    found = sample_rows(scores, 60)
    assert len(set(found.rows)) == 60
    assert found.weights.sum() == pytest.approx(497)
    assert np.bincount(found.strata).tolist() == [12] * 5
    assert not np.isnan(scores[found.rows]).any()
    assert np.average(scores[found.rows], weights=found.weights) == pytest.approx(np.nanmean(scores), abs=0.03)
    assert (sample_rows(scores, 60).rows == found.rows).all()
    assert len(sample_rows(scores, 9_999).rows) == 497
