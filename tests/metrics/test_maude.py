"""What MAUDE asks of a pack, and what it makes of the answer."""

from __future__ import annotations

import pytest

from turnwise.dialogue import Example
from turnwise.engine.score import judge_examples
from turnwise.errors import TurnwiseError
from turnwise.metrics.registry import expand, load_metric
from turnwise.metrics.signature import signature
from turnwise.models.requests import Converse

EXAMPLE = Example("yes .", ("hi !", "any\npets ?", "why ?"))


def asked(request: str) -> Converse:
    (only,) = load_metric(request).requests(EXAMPLE)
    assert isinstance(only, Converse)
    return only


def test_the_model_gets_the_turns_as_they_are() -> None:
    assert asked("maude") == Converse(("hi !", "any\npets ?", "why ?"), "yes .")
    assert asked("maude[turns=2]").turns == ("any\npets ?", "why ?")


def test_each_mode_asks_its_own_head_and_its_signature_says_so() -> None:
    for mode in ("paper", "released"):
        metric = load_metric(f"maude:{mode}")
        assert asked(f"maude:{mode}").role == f"maude-{mode}"
        assert metric.roles == {f"maude-{mode}"}
        assert f"role:maude-{mode}" in signature(f"maude:{mode}", metric, full=True)
    assert load_metric("maude").roles == {"maude"}


def test_the_score_is_the_chance_that_it_comes_next_and_a_context_is_needed() -> None:
    without = Example("yes .")
    scores = judge_examples(
        [EXAMPLE, without],
        {"it": load_metric("maude")},
        lambda requests: {key: {"other": 0.25, "next": 0.75} for key in requests},
    )
    assert scores[0]["it"].value == 0.75
    assert (scores[1]["it"].value, scores[1]["it"].note.code) == (None, "score.no_context")


def test_it_is_among_the_usual_metrics_where_a_pack_has_it() -> None:
    roles = frozenset({"nup", "dr-f", "vup", "masked-lm", "causal-lm", "encoder"})
    offered = frozenset({"context", "references"})
    assert "maude" not in expand("default", offered, roles)
    assert "maude" in expand("default", offered, roles | {"maude"})


def test_turns_must_be_a_number_or_all() -> None:
    with pytest.raises(TurnwiseError, match="turns=none"):
        load_metric("maude[turns=none]")
