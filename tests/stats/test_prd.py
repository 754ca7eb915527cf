"""Curves of precision and recall: their identities, their averages, and the clusters that they rest on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score

from turnwise.stats import prd as prd_module
from turnwise.stats.prd import Curve, clustered, f_beta, kmeans, kmeans_runs, prd_curve, slopes

shares = st.lists(st.floats(0, 1), min_size=4, max_size=4).filter(lambda xs: sum(xs) > 0.01)


def normalised(weights: list[float]) -> np.ndarray:
    return np.array(weights) / sum(weights)


@given(generated=shares, real=shares)
def test_identities(generated: list[float], real: list[float]) -> None:
    g, r = normalised(generated), normalised(real)
    curve, swapped = prd_curve(g, r), prd_curve(r, g)
    # F1 is symmetric, at least one minus the total variation, and F(l) = 2 a(l) / (1 + l).
    assert curve.score() == pytest.approx(swapped.score(), abs=1e-9)
    assert curve.score() >= 1 - np.abs(g - r).sum() / 2 - 1e-9
    by_slope = 2 * curve.precision / (1 + slopes())
    np.testing.assert_allclose(f_beta(curve.precision, curve.recall), by_slope, atol=1e-9)
    assert curve.score(beta=8) == pytest.approx(swapped.score(beta=1 / 8), abs=1e-6)
    for values in (curve.precision, curve.recall):
        assert values.min() >= 0
        assert values.max() <= 1


@given(generated=shares, real=shares)
def test_the_grid_is_fine_enough(generated: list[float], real: list[float]) -> None:
    g, r = normalised(generated), normalised(real)
    # F is monotone between the slopes G / R, so its largest value is at one of them.
    corners = [a / b for a, b in zip(g, r, strict=True) if a > 1e-6 and b > 1e-6]
    exact = max([2 * np.minimum(slope * r, g).sum() / (1 + slope) for slope in corners] or [0.0])
    assert prd_curve(g, r).score() == pytest.approx(exact, abs=2e-3)


def test_both_orders_of_averaging() -> None:
    runs = prd_curve([[1.0, 0.0], [0.2, 0.8]], [[0.5, 0.5], [0.9, 0.1]])
    alone = [prd_curve(g, r).score() for g, r in (([1.0, 0.0], [0.5, 0.5]), ([0.2, 0.8], [0.9, 0.1]))]
    assert runs.score(order="mean-of-max") == pytest.approx(np.mean(alone))
    mean = Curve(runs.precision.mean(axis=0, keepdims=True), runs.recall.mean(axis=0, keepdims=True))
    assert runs.score() == pytest.approx(mean.score(order="mean-of-max"))
    assert runs.score() < runs.score(order="mean-of-max")


def blobs(n: int = 300, width: int = 16, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, width)) * np.exp(-np.arange(width) / 4)


@pytest.mark.parametrize("flavour", ["lloyd", "mini-batch"])
def test_clusters_are_as_tight_as_scikit_learn_s(flavour: str) -> None:
    rows = blobs()
    theirs = KMeans(8, n_init=1) if flavour == "lloyd" else MiniBatchKMeans(8, n_init=10)
    expected = [theirs.set_params(random_state=seed).fit(rows).inertia_ for seed in range(10)]
    found = [kmeans(rows, 8, seed, flavour, 1 if flavour == "lloyd" else 10)[1] for seed in range(10)]  # type: ignore[arg-type]
    assert np.mean(found) < 1.03 * np.mean(expected)


@pytest.mark.parametrize("flavour", ["lloyd", "mini-batch"])
def test_clear_clusters_are_found(flavour: str) -> None:
    centres = 100 * np.eye(5, 16)
    truth = np.repeat(np.arange(5), 40)
    labels, inertia = kmeans(blobs(200) + centres[truth], 5, 3, flavour, 5)  # type: ignore[arg-type]
    assert adjusted_rand_score(truth, labels) == 1
    assert inertia < 200 * 16


def test_a_seed_is_a_seed_and_repeats_do_no_harm() -> None:
    rows = np.repeat(blobs(30), 4, axis=0)
    first, second = (kmeans(rows, 30, 7)[0] for _ in range(2))
    assert (first == second).all()
    assert kmeans(np.ones((9, 2)), 3)[1] == pytest.approx(0, abs=1e-12)
    with pytest.raises(ValueError, match="2 vectors cannot be put into 3 clusters"):
        kmeans(np.ones((2, 2)), 3)


def test_equal_sets_score_one_and_separate_sets_nothing() -> None:
    rows = blobs(80)
    assert clustered(rows, rows, 10, 3).curve().score() == pytest.approx(1)
    assert clustered(rows, rows + 1000, 10, 3).curve().score() == pytest.approx(0, abs=1e-9)
    with pytest.raises(ValueError, match="fewer than 20 clusters"):
        clustered(rows[:19], rows)


def test_a_lost_mode_costs_recall_and_a_false_one_precision() -> None:
    one, two = blobs(100, seed=1), blobs(100, seed=2) + 50
    lost = clustered(one, np.concatenate([one, two]), 8, 4).curve()
    assert lost.score(beta=1 / 8) > 0.95
    assert lost.score(beta=8) < 0.6
    false = clustered(np.concatenate([one, two]), one, 8, 4).curve()
    assert false.score(beta=8) > 0.95
    assert false.score(beta=1 / 8) < 0.6


def test_counts_stand_for_copies() -> None:
    rows, others = blobs(40), blobs(50, seed=1)
    found = clustered(rows, others, 5, 2)
    counts, other_counts = np.arange(40) % 3, np.arange(50) % 2
    again = type(found)(found.generated.repeat(counts, axis=1), found.real.repeat(other_counts, axis=1), 5)
    weighted = found.curve(counts.astype(float), other_counts.astype(float))
    assert weighted.score() == pytest.approx(again.curve().score())


def test_runs_together_are_the_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the rows are too many to be held against one another, and starts are made a few at a time."""
    rows = blobs()
    alone = [kmeans(rows, 8, seed, "mini-batch", 3) for seed in (3, 4)]
    for limits in ((2048, 2**22), (10, len(rows) * 4 * 2)):
        monkeypatch.setattr(prd_module, "MOST_SQUARE", limits[0])
        monkeypatch.setattr(prd_module, "AT_ONCE", limits[1])
        for (labels, inertia), (expected, fit) in zip(
            kmeans_runs(rows, 8, [3, 4], "mini-batch", 3), alone, strict=True
        ):
            assert (labels == expected).all()
            assert inertia == pytest.approx(fit)


def test_a_start_is_worth_what_its_centres_are() -> None:
    points = prd_module.PointSet(blobs(50))
    chosen, fits = prd_module.spread_starts(points, 6, 4, [np.random.default_rng(seed) for seed in range(2)])
    for places, fit in zip(chosen.reshape(-1, 6), fits.ravel(), strict=True):
        assert len(set(places)) == 6
        distances = ((points.rows[:, None] - points.rows[places]) ** 2).sum(axis=2)
        assert fit == pytest.approx(distances.min(axis=1).sum())
