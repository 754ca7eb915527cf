"""Fréchet distances agree with scipy's matrix root, however many vectors there are, and behave as distances do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.linalg import sqrtm
from scipy.stats import ortho_group

from turnwise.stats import frechet as frechet_module
from turnwise.stats.frechet import (
    Frechet,
    Moments,
    frechet,
    frechet_by_counts,
    frechet_of_moments,
    frechet_of_rows,
    merged,
    root_trace,
    root_trace_of_rows,
    shapiro_wilk,
)


def by_matrix_root(x: np.ndarray, y: np.ndarray) -> float:
    first, second = np.atleast_2d(np.cov(x.T)), np.atleast_2d(np.cov(y.T))
    root = np.trace(sqrtm(first @ second)).real
    return float(((x.mean(axis=0) - y.mean(axis=0)) ** 2).sum() + np.trace(first) + np.trace(second) - 2 * root)


def two_sets(n: int, m: int, width: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scale = np.exp(-np.arange(width) / 8)
    return rng.normal(size=(n, width)) * scale, rng.normal(size=(m, width)) * scale[::-1] + 0.3


@pytest.mark.parametrize(("n", "m"), [(200, 300), (40, 40), (12, 9), (12, 500), (2, 3), (31, 32)])
def test_scipy_s_matrix_root_gives_the_same(n: int, m: int) -> None:
    x, y = two_sets(n, m, 32)
    assert frechet(x, y).value() == pytest.approx(by_matrix_root(x, y), rel=1e-6)
    assert frechet(y, x).value() == pytest.approx(frechet(x, y).value(), rel=1e-9)


@given(seed=st.integers(0, 10_000), n=st.integers(2, 30), m=st.integers(2, 30), width=st.integers(1, 12))
def test_both_forms_of_the_root_agree(seed: int, n: int, m: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(n, width)), rng.normal(size=(m, width))
    assert root_trace(a.T @ a, b.T @ b) == pytest.approx(root_trace_of_rows(a, b), rel=1e-6)


@given(seed=st.integers(0, 10_000), n=st.integers(2, 40), factor=st.floats(0.1, 10))
def test_what_a_distance_must_do(seed: int, n: int, factor: float) -> None:
    x, y = two_sets(n, n + 3, 6, seed)
    found = frechet(x, y)
    moved = frechet(x + 5, y + 5)
    turned = frechet(x @ (turn := ortho_group.rvs(6, random_state=seed)), y @ turn)
    for same in (moved, turned):
        assert (same.mean, same.spread) == pytest.approx((found.mean, found.spread), rel=1e-6, abs=1e-6)
    scaled = frechet(factor * x, factor * y)
    assert scaled.value() == pytest.approx(factor**2 * found.value(), rel=1e-6)
    # Only the squared form grows with the square: its two terms have one unit.
    assert scaled.value(squared=False) == pytest.approx(factor * found.mean + factor**2 * found.spread, rel=1e-6)
    assert frechet(x, x).value() == pytest.approx(0, abs=1e-6)


def test_repeating_every_vector_changes_covariances_by_their_divisor_only() -> None:
    x, y = two_sets(20, 20, 5)
    once, twice = frechet(x, y), frechet(np.repeat(x, 2, axis=0), np.repeat(y, 2, axis=0))
    assert twice.mean == pytest.approx(once.mean)
    assert twice.spread == pytest.approx(once.spread * (2 * 19) / 39)


def test_a_dimension_that_never_varies_is_no_obstacle() -> None:
    x, y = two_sets(50, 60, 6)
    x[:, 2] = y[:, 2] = 1.0
    assert frechet(x, y).value() == pytest.approx(frechet(np.delete(x, 2, 1), np.delete(y, 2, 1)).value())


def test_a_single_vector_has_no_spread() -> None:
    with pytest.raises(ValueError, match="no covariance"):
        frechet([[1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]])


def test_rounding_never_makes_a_distance_negative() -> None:
    assert Frechet(0.0, -1e-12).value() == 0


@pytest.mark.parametrize("n", [8, 90])
def test_counts_stand_for_copies(n: int) -> None:
    rng = np.random.default_rng(1)
    x, y = two_sets(n, 2 * n, 12)
    units = np.arange(n) % 6
    distance = frechet_by_counts(x, y, units, np.repeat(units, 2), 6)
    for counts in (np.ones(6), rng.integers(0, 3, 6).astype(float), np.array([1.0, 0, 1, 0, 1, 0])):
        x_copies, y_copies = (np.repeat(rows, counts[at].astype(int), axis=0) for rows, at in
                              ((x, units), (y, np.repeat(units, 2))))  # fmt: skip
        found, expected = distance(counts), frechet(x_copies, y_copies)
        assert (found.mean, found.spread) == pytest.approx((expected.mean, expected.spread), rel=1e-6)


def test_rows_and_moments_agree_above_the_width() -> None:
    x, y = two_sets(30, 40, 10)
    found = frechet_of_rows(x, y), frechet_of_moments(Moments.of(x), Moments.of(y))
    assert found[0].value() == pytest.approx(found[1].value(), rel=1e-9)


tables = st.integers(1, 5).flatmap(
    lambda width: arrays(np.float64, st.tuples(st.integers(3, 30), st.just(width)), elements=st.floats(-1e3, 1e3))
)


def assert_same(found: Moments, rows: np.ndarray, among: np.ndarray | None = None) -> None:
    """`among` are all rows that were ever added: what is left after some are taken away is as exact as they were."""
    scale = max(1.0, float(np.abs(rows if among is None else among).max()))
    assert found.n == len(rows)
    np.testing.assert_allclose(found.mean, rows.mean(axis=0), atol=1e-12 * scale)
    centred = rows - rows.mean(axis=0)
    np.testing.assert_allclose(found.scatter, centred.T @ centred, atol=1e-10 * scale**2)


@given(rows=tables, cut=st.integers(0, 30))
def test_parts_add_up_and_come_apart(rows: np.ndarray, cut: int) -> None:
    cut = min(cut, len(rows))
    first, second = Moments.of(rows[:cut]), Moments.of(rows[cut:])
    assert_same(first + second, rows)
    assert_same(second + first, rows)
    if cut > 0:
        assert_same(first + second - second, rows[:cut], rows)


@given(rows=tables)
def test_covariance_is_numpy_s(rows: np.ndarray) -> None:
    for ddof in (0, 1):
        expected = np.atleast_2d(np.cov(rows.T, ddof=ddof))
        np.testing.assert_allclose(Moments.of(rows).covariance(ddof), expected, atol=1e-6)


def test_single_precision_is_summed_in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frechet_module, "ROWS_AT_ONCE", 7)
    rows = (np.random.default_rng(0).normal(size=(1000, 4)) + 1e4).astype(np.float32)
    assert_same(Moments.of(rows), rows.astype(np.float64))


def test_a_stream_of_batches_is_one_table() -> None:
    rows = np.random.default_rng(0).normal(size=(100, 3))
    assert_same(merged(Moments.of(rows[at : at + 9]) for at in range(0, 100, 9)), rows)


def test_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="no vectors"):
        merged([])
    with pytest.raises(ValueError, match="two dimensions"):
        Moments.of([1.0, 2.0])
    with pytest.raises(ValueError, match="no covariance"):
        Moments.of([[1.0, 2.0]]).covariance()
    assert (Moments.of([[1.0]]) - Moments.of([[1.0]])).n == 0


def test_each_dimension_is_tested_by_itself() -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=100), rng.exponential(size=100), np.ones(100)])
    found = shapiro_wilk(rows)
    assert found.n == 100
    for place in range(2):
        expected = stats.shapiro(rows[:, place])
        assert (found.w[place], found.p[place]) == pytest.approx((expected.statistic, expected.pvalue))
    # The third never varies, so there is nothing to test.
    assert len(found.w) == len(found.p) == 2
    assert found.rejected == 0.5


def test_what_cannot_be_tested() -> None:
    with pytest.raises(ValueError, match="too few"):
        shapiro_wilk([[1.0], [2.0]])
    with pytest.raises(ValueError, match="all the same"):
        shapiro_wilk(np.ones((5, 2)))
