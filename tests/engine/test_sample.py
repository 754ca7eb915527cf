"""Which turns keep their tokens: all that a report shows, and of a large run not many more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.dialogue import Example, Row
from turnwise.engine import sample
from turnwise.engine.sample import TurnSample, shown_turns
from turnwise.engine.score import Judged
from turnwise.metrics.base import Score

TOKENS = (("tea", 1.0),)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"ALL_UP_TO": 20, "EVENLY": 8, "AT_THE_ENDS": 8, "AT_EACH_END": 2, "BLOCK": 5}
    for name, size in sizes.items():
        monkeypatch.setattr(sample, name, size)


def judged(number: int, values: tuple[float | None, ...] | None) -> Judged:
    if values is None:
        return Judged(Row(str(number), "f", number, None, error="bad"), {})
    scores = {str(place): Score(value, tokens=TOKENS) for place, value in enumerate(values)}
    return Judged(Row(str(number), "f", number, Example("x")), scores)


VALUES = st.sampled_from([None, 0.0, 1.0, 2.0, 3.0, float("inf")])


@given(st.lists(st.one_of(st.none(), st.tuples(VALUES, VALUES)), max_size=90))
@settings(max_examples=200, deadline=None)
def test_every_turn_that_is_shown_keeps_its_tokens(rows: list[tuple[float | None, float | None] | None]) -> None:
    seen, keeper = [], TurnSample(["0", "1"])
    for number, values in enumerate(rows):
        seen.append(judged(number, values))
        keeper.see(seen)
    read = [item for item in seen if item.row.example]
    assert [item.row.line for item in seen] == list(range(len(rows)))
    assert [[s.value for s in item.scores.values()] for item in read] == [list(v) for v in rows if v is not None]
    columns = {
        key: np.array([np.nan if (v := item.scores[key].value) is None or np.isinf(v) else v for item in read])
        for key in ("0", "1")
    }
    for place in shown_turns(columns, len(read)):
        assert all(score.tokens == TOKENS for score in read[place].scores.values()), place
    holding = sum(bool(item.scores["0"].tokens) for item in read)
    # An even sample, two ends of two metrics, and a block that is not looked through yet.
    assert holding <= max(sample.ALL_UP_TO, sample.EVENLY + 8) + sample.BLOCK


def test_small_runs_are_shown_whole() -> None:
    assert shown_turns({"0": np.arange(20.0)}, 20).tolist() == list(range(20))
    assert shown_turns({}, 0).tolist() == []


def test_large_runs_show_the_ends_and_an_even_sample() -> None:
    values = np.sin(np.arange(64.0))
    places = shown_turns({"0": values}, 64)
    order = np.argsort(values)
    assert set(range(0, 64, 8)) | set(order[:2]) | set(order[-2:]) == set(places.tolist())
