"""Self-consistency: the published predictions and ratings through our code, and what is asked of a classifier."""

from __future__ import annotations

import csv
import doctest
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from tests.metrics.toy_models import Toy
from turnwise.dialogue import Example, mean_rating
from turnwise.engine.score import judge_examples
from turnwise.errors import TurnwiseError
from turnwise.metrics.holistic import aggregated, own_turns, pairs_of
from turnwise.metrics.registry import load_metric
from turnwise.metrics.signature import signature
from turnwise.models.requests import Answer, Classify, Request, Window

CONTEXT = ("Any pets?", "No pets.", "Really?", "I have none.", "And your cat?")
EXAMPLE = Example("I have a cat.", CONTEXT)


class Stored:
    """Answers pairs with the probabilities that the authors stored; it knows nothing else."""

    def __init__(self, folder: Path) -> None:
        with (folder / "holistic_logic_ws_dev_matched.tsv").open(encoding="utf-8", newline="") as file:
            pairs = [(row["sentence1"], row["sentence2"]) for row in csv.DictReader(file, delimiter="\t", quoting=3)]
        lines = (folder / "holistic_logic_ws_mnli.pred").read_text(encoding="utf-8").splitlines()
        chances = [float(line.split("\t")[1]) for line in lines]
        self.chances = dict(zip(pairs, chances, strict=True))

    def ask(self, requests: Iterable[Request]) -> Mapping[Request, Answer]:
        answers: dict[Request, Answer] = {}
        for request in requests:
            assert isinstance(request, Classify)
            chance = self.chances[request.text, request.pair or ""]
            answers[request] = {"contradiction": chance, "neutral": 1 - chance, "entailment": 0.0}
        return answers


@pytest.mark.parametrize(
    ("request_", "linear", "ranked"),
    [
        ("consistency", 0.5891, 0.6413),
        ("consistency:released", 0.5891, 0.6413),
        ("consistency:paper", 0.4777, 0.5064),
        ("consistency[aggregate=mean]", 0.4777, 0.5064),
        ("consistency[aggregate=max]", 0.5045, 0.5245),
    ],
)
def test_the_published_predictions_give_the_published_correlations(
    request_: str, linear: float, ranked: float, corpus, data_dir: Path
) -> None:
    examples = corpus("holistic_logic_ws")
    scores = judge_examples(examples, {request_: load_metric(request_)}, Stored(data_dir / "published").ask)
    values = [score[request_].value for score in scores]
    ratings = [mean_rating(example.ratings["logical_consistency"]) for example in examples]
    assert len(values) == 100
    assert pearsonr(values, ratings).statistic == pytest.approx(linear, abs=5e-5)
    assert spearmanr(values, ratings).statistic == pytest.approx(ranked, abs=5e-5)


def test_speakers_decide_and_without_them_parity() -> None:
    assert own_turns(EXAMPLE) == [1, 3]
    assert own_turns(Example("x", ("a", "b"))) == [0]
    assert own_turns(Example("x", ("a",))) == own_turns(Example("x")) == []
    assert own_turns(Example("x", CONTEXT, speakers=("A", "A", "B", "C", "B", "B"))) == [2, 4]


@given(st.lists(st.sampled_from("AB"), min_size=1, max_size=9))
def test_own_turns_are_those_of_the_last_speaker(speakers: list[str]) -> None:
    example = Example("x", tuple("y" * (len(speakers) - 1)), speakers=tuple(speakers))
    assert [speakers[i] for i in own_turns(example)] == [speakers[-1]] * speakers[:-1].count(speakers[-1])


@given(st.lists(st.floats(0, 1), min_size=1))
def test_aggregates_are_ordered(chances: list[float]) -> None:
    mean, most = aggregated(chances, "mean"), aggregated(chances, "max")
    assert min(chances) - 1e-12 <= mean <= most + 1e-12
    assert aggregated(chances, "last") == chances[-1]


def test_what_is_asked() -> None:
    assert load_metric("consistency").requests(EXAMPLE) == [Classify("I have none.", "I have a cat.", role="nli")]
    window = Window(total=128, keep="start")
    assert load_metric("consistency:paper").requests(EXAMPLE) == [
        Classify("No pets.", "I have a cat.", window, "nli"),
        Classify("I have none.", "I have a cat.", window, "nli"),
    ]
    both = load_metric("consistency[direction=both]").requests(EXAMPLE)
    assert [(asked.text, asked.pair) for asked in both] == [
        ("I have none.", "I have a cat."),
        ("I have a cat.", "I have none."),
    ]


def test_the_score_and_its_pairs(toy: Toy) -> None:
    last, mean, released, both = (
        toy.score(f"consistency{form}", EXAMPLE) for form in ("", ":paper", ":released", "[direction=both]")
    )
    chances = dict(pairs_of(mean))
    assert list(chances) == [1, 3]
    assert mean.value == pytest.approx(1 - sum(chances.values()) / 2)
    assert pairs_of(last) == [(3, pytest.approx(chances[3]))]
    assert last.value == pytest.approx(1 - chances[3])
    assert released.value == pytest.approx(5 * last.value)
    backward = toy.pack.model("nli")
    asked = Classify("I have a cat.", "I have none.", role="nli")
    rows = backward.rows(asked)
    other = backward.answer(asked, rows, backward.run(rows))["contradiction"]
    assert both.value == pytest.approx(1 - (chances[3] + other) / 2)


@pytest.mark.parametrize(
    ("example", "code"),
    [
        (Example("Hi!"), "score.no_context"),
        (Example("Hi!", ("Hello!",)), "score.no_earlier_turn"),
        (Example("Hi!", ("A?", "B."), speakers=("A", "B", "C")), "score.no_earlier_turn"),
    ],
)
def test_nothing_to_contradict_is_no_score_and_a_reason(example: Example, code: str, toy: Toy) -> None:
    score = toy.score("consistency", example)
    assert (score.value, score.note.code) == (None, code)
    assert toy.asked == []


def test_a_classifier_of_something_else_is_refused() -> None:
    with pytest.raises(TurnwiseError, match="no label 'contradiction', but other, next"):
        load_metric("consistency").judge(EXAMPLE, [{"other": 0.1, "next": 0.9}])


def test_forms_show_in_range_and_signature() -> None:
    assert load_metric("consistency").range == (0.0, 1.0)
    assert load_metric("consistency:released").range == (0.0, 5.0)
    names = ["consistency", "consistency:paper", "consistency:released", "consistency[direction=both]"]
    assert len({signature(name, load_metric(name), full=True) for name in names}) == len(names)
    for wrong in ("consistency[scale=0]", "consistency[max_length=0]", "consistency[aggregate=first]"):
        with pytest.raises(TurnwiseError):
            load_metric(wrong)


@pytest.mark.parametrize("page", ["consistency"])
def test_examples_of_the_page_run(page: str) -> None:
    file = Path(__file__).parents[2] / "docs" / "metrics" / f"{page}.md"
    result = doctest.testfile(str(file), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0


def test_one_response_is_judged_by_the_models_and_speakers_that_are_named(toy: Toy) -> None:
    models = toy.pack.folder
    for speakers in ((), ("a", "b", "a", "a", "a", "b")):
        wanted = toy.score("consistency", Example("I have a cat.", CONTEXT, speakers=speakers))
        found = load_metric("consistency").score(
            response="I have a cat.", context=CONTEXT, speakers=speakers, models=models
        )
        assert found == wanted
    with pytest.raises(TurnwiseError, match="speakers: name one for every turn of the context, and one for the resp"):
        load_metric("consistency").score(response="no", context=CONTEXT, speakers=["a", "b"])
