"""Coherence and fluency: the percentile's oracle, what the language model is asked, and one reading of a context."""

from __future__ import annotations

import doctest
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

import turnwise as tw
from tests.metrics.toy_models import Toy
from turnwise.dialogue import Example
from turnwise.errors import TurnwiseError
from turnwise.metrics.base import Score
from turnwise.metrics.holistic import above_cutoff, reduced
from turnwise.metrics.registry import load_metric
from turnwise.metrics.scaling import measure
from turnwise.metrics.signature import signature
from turnwise.models.requests import Continuation

DOCS = Path(__file__).parents[2] / "docs"

EXAMPLE = Example("I like tea, very much.", ("hello!", "do you like tea?"))
OTHERS = [Example("no.", ("why?",)), Example("the piano", ("a b c", "how are you")), Example("yes", ("tea",))]
RAW = (-10.0, -20.0, -30.0, -40.0, -200.0)


# --- the formulas ---------------------------------------------------------------------------------------


def test_oracle_of_the_percentile() -> None:
    cutoff = float(np.quantile(RAW, 0.05))
    assert cutoff == pytest.approx(-168)
    assert above_cutoff(RAW, cutoff) == pytest.approx([0.940476, 0.880952, 0.821429, 0.761905, 0], abs=5e-7)


def test_the_metric_normalises_as_the_oracle_does() -> None:
    scores = [Score(None, {"raw": raw}, evidence=raw) for raw in RAW]
    unread = Score(None, note="no context")
    settled = load_metric("coherence:released").settle([*scores, unread])
    assert [score.value for score in settled] == pytest.approx([*above_cutoff(RAW, -168.0), None])
    assert settled[-1] is unread
    assert settled[0].parts["cutoff"] == pytest.approx(-168)


@given(st.lists(st.floats(-500, -0.01), min_size=1, max_size=40), st.floats(0, 1))
def test_normalised_scores_lie_in_the_unit_interval_in_the_same_order(raw: list[float], level: float) -> None:
    normal = above_cutoff(raw, float(np.quantile(raw, level)))
    assert ((normal >= 0) & (normal < 1)).all()
    assert (np.diff(normal[np.argsort(raw)]) >= 0).all()


@given(st.lists(st.floats(-50, 0), min_size=1, max_size=20))
def test_reductions_are_numpys(log_probs: list[float]) -> None:
    assert reduced(log_probs, "sum") == pytest.approx(len(log_probs) * reduced(log_probs, "mean"))
    assert reduced(log_probs, "min") <= reduced(log_probs, "median") <= max(log_probs)


def test_a_cutoff_of_nothing_is_said() -> None:
    with pytest.raises(ValueError, match="cutoff of 0"):
        above_cutoff([-1.0], 0)
    (score,) = load_metric("fluency:paper").settle([Score(None, {"raw": 0.0}, evidence=0.0)])
    assert score.value is None
    assert score.note.code == "score.no_cutoff"


# --- the requests ---------------------------------------------------------------------------------------


def test_what_is_asked() -> None:
    def asked(request: str) -> Continuation:
        (only,) = load_metric(request).requests(EXAMPLE)
        assert isinstance(only, Continuation)
        return only

    assert asked("coherence") == Continuation("do you like tea?", " I like tea, very much.")
    assert asked("coherence:released") == asked("coherence:paper") == Continuation(*_texts(asked("coherence")), False)
    assert asked("coherence[turns=all]").context == "hello! do you like tea?"
    assert asked("coherence[turns=all,separator=newline]") == Continuation(
        "hello!\ndo you like tea?\n", EXAMPLE.response
    )
    assert asked("fluency") == asked("fluency:paper") == Continuation("", EXAMPLE.response)
    assert asked("fluency:released") == Continuation("", EXAMPLE.response, begin=False)
    assert asked("fluency[role=causal-lm-untuned]").role == "causal-lm-untuned"


def _texts(request: Continuation) -> tuple[str, str]:
    return request.context, request.response


def test_forms_of_the_score(toy: Toy) -> None:
    mean, total = toy.score("coherence", EXAMPLE), toy.score("coherence[reduction=sum]", EXAMPLE)
    costs = [cost for _, cost in mean.tokens]
    assert mean.value == pytest.approx(-np.mean(costs))
    assert total.value == pytest.approx(-sum(costs)) == pytest.approx(mean.parts["log-likelihood"])
    assert toy.score("coherence[reduction=min]", EXAMPLE).value == pytest.approx(-max(costs))
    assert toy.score("coherence[reduction=median]", EXAMPLE).value == pytest.approx(-np.median(costs))
    assert len(toy.asked) == 4
    assert len(set(toy.asked)) == 1


def test_released_fluency_leaves_the_first_token_out(toy: Toy) -> None:
    whole = toy.score("fluency", EXAMPLE)
    judged = toy.judge("fluency:released", EXAMPLE)[0]["fluency:released"]
    assert len(judged.tokens) == len(whole.tokens) - 1
    assert [token for token, _ in judged.tokens] == [token for token, _ in whole.tokens[1:]]
    assert judged.parts["raw"] == pytest.approx(judged.parts["log-likelihood"] / judged.parts["tokens"])


def test_released_coherence_is_the_difference_of_two_likelihoods(toy: Toy) -> None:
    """log P(q r) - log P(q), each without its first token, as the authors' code has it."""
    model = toy.pack.model("causal-lm")

    def likelihood(text: str) -> float:
        asked = Continuation("", text, begin=False)
        rows = model.rows(asked)
        return sum(model.answer(asked, rows, model.run(rows)).log_probs)

    query = EXAMPLE.context[-1]
    expected = likelihood(f"{query} {EXAMPLE.response}") - likelihood(query)
    judged = toy.judge("coherence:released", EXAMPLE)[0]["coherence:released"]
    assert judged.parts["raw"] == pytest.approx(expected, abs=1e-4)


def test_what_cannot_be_judged_has_a_reason(toy: Toy) -> None:
    assert toy.score("coherence", Example("Hi!")).note.code == "score.no_context"
    assert toy.score("fluency", Example("")).note.code == "score.no_tokens"
    assert toy.score("fluency:released", Example("a")).note.code == "score.no_tokens"
    assert toy.score("fluency", Example("a")).value is not None


def test_responses_to_one_context_share_its_reading(toy: Toy) -> None:
    read: list[int] = []
    model = toy.pack.model("causal-lm")
    network = model.network  # type: ignore[attr-defined]

    class Counting(type(network)):
        def __init__(self):
            self.session = network.session

        def log_probs(self, prefixes, source, batch, wanted):
            read.append(int(prefixes.mask.sum()))
            return network.log_probs(prefixes, source, batch, wanted)

    model.network = Counting()  # type: ignore[attr-defined]
    try:
        context = ("do you like tea? " * 2,)
        examples = [Example(reply, context) for reply in ("yes", "no", "the piano", "why")]
        scores = toy.judge("coherence", *examples)
    finally:
        model.network = network  # type: ignore[attr-defined]
    length = len(model.tokens.plain(context[0]).ids)  # type: ignore[attr-defined]
    # The begin-of-text token is read too, and the last token of a context is where its answers start.
    assert read == [length]
    alone = [toy.score("coherence", example).value for example in examples]
    assert [score["coherence"].value for score in scores] == pytest.approx(alone, abs=1e-5)


# --- the percentile's source ----------------------------------------------------------------------------


def test_the_batch_is_the_whole_run(toy_pack) -> None:
    rows = [
        {"id": str(i), "context": list(e.context), "response": e.response, "system": "bot"}
        for i, e in enumerate([EXAMPLE, *OTHERS])
    ]
    requests = ["coherence", "coherence[constants=batch]", "fluency:released", "coherence[constants=batch,quantile=0]"]
    result = tw.evaluate(rows, requests, models=toy_pack.folder, cache="off")
    raw = result.turns["coherence"].to_numpy()
    assert result.turns[requests[1]].to_numpy() == pytest.approx(above_cutoff(raw, np.quantile(raw, 0.05)))
    assert result.turns[requests[3]].to_numpy() == pytest.approx(above_cutoff(raw, raw.min()))
    assert result.turns["fluency:released"].min() == 0


def test_a_stored_reference(toy: Toy, tmp_path: Path) -> None:
    values = [toy.score("coherence", example).value or 0.0 for example in OTHERS]
    file = tmp_path / "reference.json"
    file.write_text(json.dumps(measure({"coherence": values})))
    request = f"coherence[constants={file}]"
    score = toy.score(request, EXAMPLE)
    cutoff = float(np.quantile(values, 0.05))
    assert score.value == pytest.approx(float(above_cutoff(score.parts["raw"], cutoff)))
    assert "reference.json#" in signature(request, load_metric(request), full=True)
    # A quantile of means says nothing of sums.
    with pytest.raises(TurnwiseError, match=r"no calibration for 'coherence\[reduction=sum\]'"):
        load_metric(f"coherence[reduction=sum,constants={file}]")
    with pytest.raises(TurnwiseError, match="no calibration for 'coherence:released'"):
        load_metric(f"coherence:released[constants={file}]")
    with pytest.raises(TurnwiseError, match=r"no quantile 0\.07"):
        load_metric(f"coherence[constants={file},quantile=0.07]")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("corpus", "quality", "forms"),
    [
        ("coherence", "context_coherence", ["coherence", "coherence[reduction=sum]", "coherence:released"]),
        ("fluency", "fluency", ["fluency", "fluency:released"]),
    ],
)
def test_the_pages_say_how_far_the_bundled_model_agrees_with_people(
    data_dir: Path, corpus: str, quality: str, forms: list[str]
) -> None:
    result = tw.evaluate(data_dir / "human" / f"holistic_{corpus}.jsonl", forms)
    people = [np.mean(item.row.example.ratings[quality]) for item in result.judged if item.row.example]
    page = (DOCS / "metrics" / f"{corpus}.md").read_text(encoding="utf-8")
    for form in forms:
        found = spearmanr(result.turns[form].to_list(), people).statistic
        line = next(line for line in page.splitlines() if line.startswith(f"| `{form}`"))
        assert f"{found:.3f}".removeprefix("0") in line, line
        assert found > 0.69


def test_forms_show_in_range_and_signature() -> None:
    assert load_metric("coherence").range[1] == 0
    assert load_metric("coherence:released").range == (0.0, 1.0)
    names = ["coherence", "coherence:paper", "coherence:released", "fluency", "fluency:paper", "fluency:released"]
    assert len({signature(name, load_metric(name), full=True) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ("coherence[turns=0]", "or all"),
        ("coherence[quantile=2]", "from 0 to 1"),
        ("coherence[constants=nowhere]", "no constants are called 'nowhere'"),
        ("coherence[constants=published]", "no calibration for 'coherence'"),
        ("fluency[reduction=max]", "choose one of mean, sum, median, min"),
        ("fluency[turns=2]", "no option 'turns'"),
    ],
)
def test_a_request_that_cannot_be_met_is_answered_in_one_line(request_: str, words: str) -> None:
    with pytest.raises(TurnwiseError) as caught:
        load_metric(request_)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("page", ["coherence", "fluency"])
def test_examples_of_the_page_run(page: str) -> None:
    file = Path(__file__).parents[2] / "docs" / "metrics" / f"{page}.md"
    result = doctest.testfile(str(file), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
