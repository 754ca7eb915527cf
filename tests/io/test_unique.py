"""Repeated ids, against Python's own set."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.dialogue import Example, Row
from turnwise.errors import TurnwiseError
from turnwise.io.unique import SeenKeys, report_repeats

KEYS = st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20)


@given(st.lists(st.lists(KEYS, max_size=30), max_size=12))
@settings(deadline=None)
def test_it_answers_as_a_set_does(windows: list[list[int]]) -> None:
    seen, model = SeenKeys(), set[int]()
    for window in windows:
        expected = []
        for key in window:
            expected.append(key in model)
            model.add(key)
        assert seen.add(np.array(window, dtype=np.int64)).tolist() == expected
    assert len(seen) == len(model)


def test_runs_stay_few_and_compact() -> None:
    seen = SeenKeys()
    keys = np.random.default_rng(0).permutation(200_000).astype(np.int64)
    for start in range(0, len(keys), 512):
        assert not seen.add(keys[start : start + 512]).any()
    assert seen.add(keys[:1000]).all()
    assert len(seen._runs) <= np.log2(200_000 / 512) + 2
    assert sum(run.nbytes for run in seen._runs) == 8 * len(keys)


def row(key: str, line: int) -> Row:
    return Row(key, "f", line, Example("a", id=key))


@given(st.lists(st.sampled_from("abcdefg"), max_size=40), st.integers(1, 9))
@settings(deadline=None)
def test_order_is_kept_and_only_repeats_are_faulty(ids: list[str], window: int) -> None:
    given_rows = [row(key, line) for line, key in enumerate(ids, 1)]
    found = list(report_repeats(given_rows, window))
    assert [(r.id, r.line) for r in found] == [(r.id, r.line) for r in given_rows]
    assert [r.error is not None for r in found] == [key in ids[:n] for n, key in enumerate(ids)]
    assert all((r.example is None) == (r.error is not None) for r in found)


def test_faulty_rows_pass_through() -> None:
    bad = Row("a", "f", 1, None, "response: missing; give one")
    assert list(report_repeats([bad, row("a", 2), bad])) == [bad, row("a", 2), bad]


def test_rows_before_a_break_are_not_lost() -> None:
    def broken() -> Iterator[Row]:
        yield row("a", 1)
        raise TurnwiseError("the archive is damaged")

    rows = report_repeats(broken())
    assert next(rows).id == "a"
    with pytest.raises(TurnwiseError):
        next(rows)
