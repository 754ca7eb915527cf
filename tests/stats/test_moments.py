"""Moments are numpy's, whatever way the vectors are cut up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from turnwise.stats import moments
from turnwise.stats.moments import Moments, merged

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
    monkeypatch.setattr(moments, "ROWS_AT_ONCE", 7)
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
