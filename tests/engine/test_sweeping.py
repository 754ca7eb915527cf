"""Python's own sweeping is as it was after a run, whatever became of the run."""

from __future__ import annotations

import gc

import pytest

import turnwise
from turnwise.engine.sweeping import SELDOM, seldom_swept


@pytest.fixture(autouse=True)
def _as_before():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@seldom_swept()
def fail() -> None:
    assert gc.get_threshold() == SELDOM
    raise ValueError("stop")


def test_it_is_rarer_within_and_as_before_afterwards() -> None:
    gc.set_threshold(700, 10, 10)
    with pytest.raises(ValueError, match="stop"):
        fail()
    assert gc.get_threshold() == (700, 10, 10)
    turnwise.evaluate([{"response": "hello there"}], "length")
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("own", [(0, 10, 10), (2_000_000, 5, 5)])
def test_a_choice_of_ones_own_is_kept(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with seldom_swept():
        assert gc.get_threshold() == own
