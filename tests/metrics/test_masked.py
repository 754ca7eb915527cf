"""What is asked of a masked language model, and what is made of its answers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import turnwise as tw
from tests.metrics.toy_models import Toy
from turnwise.metrics.masked import dialogue_request, surprisals
from turnwise.models.requests import TokenScores, Window

TURNS, RESPONSE = ["do you like tea ?", "why ?"], "i love cats"


def judged(toy: Toy, request) -> TokenScores:
    return toy.ask([request])[request]


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ({"scope": "all"}, "do you like tea ? why ? i love cats"),
        ({"scope": "response"}, "i love cats"),
        ({"separators": ("why", "how"), "scope": "all"}, "do you like tea ? why why ? why how i love cats why"),
        ({"separators": ("why", "how"), "scope": "response"}, "i love cats"),
        ({"separators": ("why", "how"), "scope": "response+eos"}, "i love cats why"),
        ({"separators": ("why",), "scope": "all"}, "do you like tea ? why why ? why i love cats why"),
    ],
)
def test_the_scope_says_which_tokens_are_judged(toy: Toy, options, tokens: str) -> None:
    assert judged(toy, dialogue_request(TURNS, RESPONSE, **options)).tokens == tuple(tokens.split())


def test_separators_are_plain_text(toy: Toy) -> None:
    request = dialogue_request(TURNS[-1:], RESPONSE, scope="all", separators=("_eos", "_go"))
    assert request.text == "why ? _eos _go i love cats _eos"
    assert "_" in judged(toy, request).tokens


def test_the_pair_form_cuts_the_beginning_of_the_context(toy: Toy) -> None:
    request = dialogue_request(TURNS, RESPONSE, scope="all", max_length=9)
    assert request.window == Window(total=9)
    assert judged(toy, request).tokens == ("why", "?", "i", "love", "cats")


def test_surprisals_add_up_to_the_likelihood(toy: Toy) -> None:
    answer = judged(toy, dialogue_request(TURNS, RESPONSE))
    score = tw.load_metric("usr-mlm[reduction=sum,sign=-1]").judge(tw.Example(RESPONSE), [answer])
    assert sum(cost for _, cost in score.tokens) == pytest.approx(score.value)
    mean = tw.load_metric("usr-mlm").judge(tw.Example(RESPONSE), [answer])
    assert mean.value == pytest.approx(-score.value / 3)
    assert [token for token, _ in surprisals(answer)] == RESPONSE.split()


def test_what_each_word_cost_is_in_the_report_and_not_in_the_document(toy: Toy, tmp_path: Path) -> None:
    rows = [
        {"response": text, "context": ["Do you like tea?"], "facts": ["i like tea"], "system": system}
        for system, text in (("a", "Snowing here."), ("b", "Why not?"), ("a", "I hate cats!"), ("b", "yes"))
    ]
    metrics = ["usr", "usl-h", "mlm-likelihood", "vup"]
    result = tw.evaluate(rows, metrics, models=toy.pack.folder, cache="off")
    assert "tokens" not in json.dumps(result.to_dict())
    assert result.judged[0].scores["usl-h"].tokens == result.judged[0].scores["mlm-likelihood"].tokens
    html = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    found = re.search(r'id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    data = json.loads(found[1])
    shown = data["turns"][0]["h"]
    # usr judges the response after its context; usl-h and its part without it.
    assert [[data["metrics"][column]["key"] for column in columns] for columns, *_ in shown] == [["usr"], metrics[1:3]]
    costs = result.judged[0].scores["usr"].tokens
    assert [piece[0] for piece in shown[0][1] if isinstance(piece, list)] == ["Snowing", "here", "."]
    assert sum(piece[1] for piece in shown[0][1] if isinstance(piece, list)) == pytest.approx(
        sum(cost for _, cost in costs), abs=0.02
    )
    assert html.count('<p class="legend">') == 3


def test_nothing_to_judge_is_a_note() -> None:
    nothing = TokenScores((), ())
    assert tw.load_metric("usr-mlm").judge(tw.Example(RESPONSE), [nothing]).note.code == "score.no_tokens"
