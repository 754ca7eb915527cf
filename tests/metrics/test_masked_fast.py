"""The fast form of the masked-LM metrics: one pass with nothing masked, its own signature, its own constants."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.metrics.toy_models import Toy
from turnwise.dialogue import Example
from turnwise.errors import TurnwiseError
from turnwise.metrics import usr
from turnwise.metrics.masked import fast_form
from turnwise.metrics.registry import load_metric
from turnwise.metrics.signature import signature
from turnwise.models.requests import MaskedLikelihood

PUBLISHED_FEEDS = "/".join(map(str, usr.PUBLISHED_FEEDS))

EXAMPLE = Example("I love cats, do you?", ("Hello!", "Do you like dogs?"), facts=("i love cats .",))
OTHER = Example("why not ?", ("i like music", "Tea?"), facts=("no",))
MASKED = ["usr-mlm", "usr-mlm:released", "usr-mlm:paper", "mlm-likelihood", "mlm-nce", "mlm-ppl", "mlm-slor"]


@pytest.mark.parametrize("name", MASKED)
def test_one_row_answers_what_took_one_per_token(toy: Toy, name: str) -> None:
    exact, fast = (toy.score(request, EXAMPLE) for request in (name, fast_form(name)))
    assert [token for token, _ in fast.tokens] == [token for token, _ in exact.tokens]
    assert fast.value != exact.value
    model = toy.pack.model("masked-lm")
    rows = {r.masked: model.rows(r) for r in toy.asked if isinstance(r, MaskedLikelihood)}
    assert (len(rows[True]), len(rows[False])) == (len(exact.tokens), 1)
    assert not any(request.masked for request in load_metric(fast_form(name)).requests(EXAMPLE)[:1])


def test_the_fast_score_is_made_of_the_fast_likelihoods(toy: Toy) -> None:
    score = toy.score("mlm-ppl[fast=true]", EXAMPLE)
    costs = [cost for _, cost in score.tokens]
    assert score.value == pytest.approx(math.exp(sum(costs) / len(costs)))
    assert score.parts["log-likelihood"] == pytest.approx(-sum(costs))


def test_nothing_to_judge_is_a_note(toy: Toy) -> None:
    score = toy.score("mlm-nce[fast=true]", Example(""))
    assert (score.value, score.note.code) == (None, "score.no_tokens")


def test_both_forms_have_signatures_of_their_own() -> None:
    for name in (*MASKED, "usr[constants=batch]", "usl-h[constants=batch]"):
        exact, fast = (signature(request, load_metric(request), full=True) for request in (name, fast_form(name)))
        assert "|fast:false|" in exact
        assert exact.replace("|fast:false|", "|fast:true|") == fast
    assert "fast" not in signature("lm-likelihood", load_metric("lm-likelihood"), full=True)


@pytest.mark.parametrize(
    ("whole", "part"), [("usr", "usr-mlm"), ("usl-h", "mlm-likelihood"), ("usl-a", "mlm-likelihood")]
)
def test_a_composite_takes_the_fast_form_of_its_parts(toy: Toy, whole: str, part: str) -> None:
    request = f"{whole}[fast=true,constants=batch]"
    scores = toy.judge([request, fast_form(part)], EXAMPLE, OTHER)
    assert [s[request].parts[fast_form(part)] for s in scores] == [s[fast_form(part)].value for s in scores]
    assert scores[0][request].tokens == scores[0][fast_form(part)].tokens
    assert all(score.value is not None for score in load_metric(request).settle([s[request] for s in scores]))
    assert not any(request.masked for request in toy.asked if isinstance(request, MaskedLikelihood))


def test_constants_of_the_exact_form_are_none_for_the_fast_one(toy: Toy, tmp_path: Path) -> None:
    published = f"feeds={PUBLISHED_FEEDS},constants=published"
    for request in (f"usr[fast=true,{published}]", f"usr[mlm=usr-mlm[fast=true],{published}]"):
        with pytest.raises(
            TurnwiseError, match=r"no calibration for 'usr-mlm\[fast=true\]' in 'published'.*constants=batch"
        ):
            load_metric(request)
    with pytest.raises(TurnwiseError, match=r"no calibration for 'mlm-likelihood\[fast=true\]'"):
        load_metric("usl-h[fast=true,constants=published]")
    own = tmp_path / "own.json"
    own.write_text(json.dumps({"mlm-likelihood[fast=true]": {"quantiles": {"0.25": 1.0, "0.75": 3.0}}}))
    score = toy.score(f"usl-h[fast=true,constants={own}]", EXAMPLE)
    raw = score.parts["mlm-likelihood[fast=true]"]
    assert score.parts["likability"] == pytest.approx(min(max((raw - 1) / 2, 0), 1))


@pytest.mark.parametrize(
    "request_", ["usr[fast=true,feeds=dr_c/dr_c/dr_c/dr_c/dr_c]", "usl-h[fast=true,likability=empathy]"]
)
def test_without_a_fast_part_there_is_no_fast_form(request_: str) -> None:
    with pytest.raises(TurnwiseError, match="none of its parts has a fast form"):
        load_metric(request_)
