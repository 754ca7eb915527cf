"""USR on a toy pack: what is asked, what is made of it, and what the options change."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

from tests.metrics.toy_models import Toy
from turnwise.dialogue import Example
from turnwise.errors import TurnwiseError
from turnwise.metrics import usr
from turnwise.metrics.registry import expand, load_metric
from turnwise.metrics.signature import signature
from turnwise.metrics.usr import usr_score
from turnwise.models.requests import Classify, MaskedLikelihood, Window

PUBLISHED_FEEDS = "/".join(map(str, usr.PUBLISHED_FEEDS))
PUBLISHED_WEIGHTS = "/".join(map(str, usr.PUBLISHED_WEIGHTS))

FACTS = ("i play the piano .", "i love cats .", "i hate tea .")
EXAMPLE = Example("I love cats, do you?", ("Hello!", "Do you like dogs?"), facts=FACTS)
OTHER = Example("why not ?", ("i like music", "Tea?"), facts=("no",))
GROUP = ["usr", "usr-mlm", "usr-dr-c", "usr-dr-f"]


def asked(request: str, example: Example = EXAMPLE):
    (only,) = load_metric(request).requests(example)
    return only


# --- what is asked --------------------------------------------------------------------------------------


def test_usr_mlm_released_reads_the_last_turn_and_judges_all_of_it() -> None:
    text = "do you like dogs ? _eos _go i love cats , do you ? _eos"
    assert asked("usr-mlm:released") == MaskedLikelihood(text, window=Window(keep="last"))


def test_usr_mlm_paper_is_the_negated_sum_over_the_response(toy: Toy) -> None:
    score, mended = (toy.score(f"usr-mlm:paper{sign}", EXAMPLE) for sign in ("", "[sign=1]"))
    assert score.value > 0
    assert mended.value == -score.value
    assert [token for token, _ in score.tokens] == "i love cats , do you ?".split()
    assert load_metric("usr-mlm:paper").higher_is_better is False
    assert load_metric("usr-mlm").higher_is_better is True


def test_modes_of_usr_mlm_differ_as_specified(toy: Toy) -> None:
    released, response = (toy.score(f"usr-mlm:released{o}", EXAMPLE) for o in ("", "[scope=response]"))
    costs = [cost for _, cost in released.tokens]
    assert released.value == pytest.approx(-np.mean(costs))
    assert len(costs) == released.parts["tokens"] > response.parts["tokens"] == 7
    assert toy.score("usr-mlm:paper", EXAMPLE).value == pytest.approx(-7 * response.value)
    everything = toy.score("usr-mlm:released[turns=all]", EXAMPLE)
    assert everything.tokens[0][0] == "hello"


def test_a_line_that_is_too_long_keeps_its_end(toy: Toy) -> None:
    # As the authors cut: the first token kept stands where the opening one stood, and is not judged.
    score = toy.score("usr-mlm:released[max_length=9]", EXAMPLE)
    assert [token for token, _ in score.tokens] == ["do", "you", "?", "_", "e", "##o", "##s"]
    long = Example(response="I love cats.", context=("tea " * 500,))
    assert [token for token, _ in toy.score("usr-mlm:paper", long).tokens] == ["i", "love", "cats", "."]


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ("[max_length=6,scope=all]", "dogs ? why"),
        ("[max_length=6,scope=all,truncation=start]", "dogs ? why"),
        ("[max_length=6,scope=all,truncation=end]", "do you why"),
        (":released[max_length=5,truncation=end]", "do you like"),
    ],
)
def test_which_side_is_cut_is_an_option(toy: Toy, options: str, tokens: str) -> None:
    example = Example("why", EXAMPLE.context)
    assert [token for token, _ in toy.score(f"usr-mlm{options}", example).tokens] == tokens.split()


def test_which_side_usr_dr_cuts_is_an_option() -> None:
    assert asked("usr-dr-c:released").window == Window(total=128, keep="start")
    assert asked("usr-dr-c:released[truncation=end]").window == Window(total=128, keep="start")
    assert asked("usr-dr-f:released[truncation=start]").window == Window(total=128, keep="end")
    assert asked("usr-dr-f[fact=all]").window is None


def test_usr_dr_released_texts() -> None:
    window = Window(total=128, keep="start")
    facts = "i play the piano . i love cats . i hate tea ."
    response = "_go i love cats , do you ? _eos"
    assert asked("usr-dr-c:released") == Classify(f"do you like dogs ? _eos {facts} _eos", response, window, "nup")
    assert asked("usr-dr-f:released") == Classify(f"{facts} _eos", response, window, "dr-f")


def test_usr_dr_reads_texts_as_the_models_were_trained_on_them() -> None:
    about_the_fact = Classify("i love cats .", EXAMPLE.response, role="dr-f")
    about_the_context = Classify("Hello! [SEP] Do you like dogs?", EXAMPLE.response, role="nup")
    assert load_metric("usr-dr-c[fact=closest]").requests(EXAMPLE) == [about_the_context, about_the_fact]
    assert asked("usr-dr-f[fact=closest]") == about_the_fact
    each = [Classify(fact, EXAMPLE.response, role="dr-f") for fact in FACTS]
    assert load_metric("usr-dr-f").requests(EXAMPLE) == each
    assert load_metric("usr-dr-c").requests(EXAMPLE) == [about_the_context, *each]
    context = "i love cats . [SEP] Hello! [SEP] Do you like dogs?"
    assert asked("usr-dr-c[reading=together,fact=closest]") == Classify(context, EXAMPLE.response, role="nup")
    assert asked("usr-dr-c[reading=together,fact=closest,turns=1]").text == "i love cats . [SEP] Do you like dogs?"


def test_context_and_fact_count_alike(toy: Toy) -> None:
    score = toy.score("usr-dr-c", EXAMPLE)
    alone = Example(EXAMPLE.response, EXAMPLE.context)
    assert score.parts["fact"] == toy.score("usr-dr-f", EXAMPLE).value
    assert score.parts["context"] == toy.score("usr-dr-c", alone).value == toy.score("nup", alone).value
    assert score.value == pytest.approx((score.parts["context"] + score.parts["fact"]) / 2)
    closest = toy.score("usr-dr-c[fact=closest]", EXAMPLE)
    assert closest.parts["fact"] == toy.score("usr-dr-f[fact=closest]", EXAMPLE).value


def test_the_best_fact_is_the_best_of_all(toy: Toy) -> None:
    best = toy.score("usr-dr-f[fact=best]", EXAMPLE)
    each = [toy.score("usr-dr-f", Example("I love cats, do you?", facts=(fact,))).value for fact in FACTS]
    assert best.value == pytest.approx(max(each))
    assert list(best.parts.values()) == pytest.approx(each)


# --- missing things -------------------------------------------------------------------------------------


@pytest.mark.parametrize("facts", [(), ("_nofact",), ("",), (" ", "\u200b")])
def test_without_a_fact_there_is_a_note(toy: Toy, facts: tuple[str, ...]) -> None:
    example = Example("yes", ("do you play ?",), facts=facts)
    scores = toy.judge([*GROUP, "usr[missing=none]"], example)[0]
    assert (scores["usr-dr-f"].value, scores["usr-dr-f"].note.code) == (None, "score.no_facts")
    assert scores["usr-dr-c"].value is not None
    assert str(scores["usr"].note) == "no facts: an average usr-dr-f was counted"
    assert "Uses Knowledge contribution" not in scores["usr"].parts
    assert (scores["usr[missing=none]"].value, scores["usr[missing=none]"].note.code) == (None, "score.no_facts")
    published = f"usr[feeds={PUBLISHED_FEEDS},weights={PUBLISHED_WEIGHTS},constants=published]"
    average = usr_score(scores["usr-mlm"].value, scores["usr-dr-c"].value, 0.8472124995904354)
    assert toy.score(published, example).value == pytest.approx(average.item())


@pytest.mark.parametrize("context", [(), ("",), (" ", "\u200b")])
def test_without_a_context_there_is_a_note(toy: Toy, context: tuple[str, ...]) -> None:
    scores = toy.judge(GROUP, Example("yes", context, facts=("i play",)))[0]
    assert [note and note.code for name in GROUP for note in [scores[name].note]] == [*["score.no_context"] * 3, None]


def test_a_pack_without_the_model_says_so(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    roles = {name: role for name, role in toy.pack.manifest.roles.items() if name != "dr-f"}
    monkeypatch.setattr(toy.pack, "_models", {})
    monkeypatch.setattr(toy.pack, "manifest", type(toy.pack.manifest)(**(vars(toy.pack.manifest) | {"roles": roles})))
    with pytest.raises(TurnwiseError, match="pack 'toy' has no model for 'dr-f'"):
        toy.score("usr", EXAMPLE)


# --- the composite --------------------------------------------------------------------------------------


def test_the_whole_group_costs_one_pass(toy: Toy) -> None:
    toy.judge(GROUP, EXAMPLE, OTHER)
    # Likelihood, context and validity of two responses, and each fact: three of the one, one of the other.
    assert len(toy.asked) == 2 * 3 + 3 + 1


@pytest.mark.parametrize("request_", ["usr", "usr:released", "usr[feeds=mlm/dr_c/dr_c/dr_c/dr_c]"])
def test_contributions_add_up(toy: Toy, request_: str) -> None:
    score = toy.score(request_, EXAMPLE)
    added = [value for name, value in score.parts.items() if name.endswith("contribution")]
    assert len(added) == 5
    assert score.parts["intercept"] + sum(added) == pytest.approx(score.value, abs=1e-12)
    assert score.tokens


def test_released_is_the_published_regression_of_released_parts(toy: Toy) -> None:
    parts = [toy.score(f"{name}:released", EXAMPLE).value for name in GROUP[1:]]
    score = toy.score("usr:released", EXAMPLE)
    assert score.value == pytest.approx(usr_score(*parts).item())
    assert [score.parts[name] for name in GROUP[1:]] == parts
    assert score.parts["usr-dr-c normalised"] == pytest.approx((parts[1] - 0.8604811806918587) / 0.30259338627812254)


def test_any_metric_may_stand_for_a_quality(toy: Toy) -> None:
    request = "usr[feeds=vup/vup/dr_c/empathy/length,weights=1/0/0/2/0.5,intercept=0,constants=batch]"
    judged = [scores[request] for scores in toy.judge(request, EXAMPLE, OTHER)]
    first, second = load_metric(request).settle(judged)
    assert {"vup", "usr-dr-c", "empathy", "length"} <= set(first.parts)
    # Of two responses one lies a deviation above the mean and the other a deviation below.
    signs = [1 if first.parts[name] > second.parts[name] else -1 for name in ("vup", "empathy", "length")]
    assert first.value == pytest.approx(signs[0] + 2 * signs[1] + 0.5 * signs[2])


def test_own_weights_feeds_and_constants(toy: Toy) -> None:
    request = "usr[feeds=dr_c/dr_c/dr_c/dr_c/dr_c,weights=1/0/0/0/0.5,intercept=2,means=0/0.5/0,stds=1/0.25/1]"
    score = toy.score(request, EXAMPLE)
    chance = toy.score("usr-dr-c", EXAMPLE).value
    assert score.value == pytest.approx(2 + 1.5 * (chance - 0.5) / 0.25)
    assert {type(request) for request in toy.asked} == {Classify}


def test_a_part_may_have_options_of_its_own(toy: Toy) -> None:
    score = toy.score("usr[mlm=usr-mlm[scope=all,reduction=sum],constants=batch]", EXAMPLE)
    alone = toy.score("usr-mlm[scope=all,reduction=sum]", EXAMPLE).value
    assert score.parts["usr-mlm[scope=all,reduction=sum]"] == alone


@pytest.mark.parametrize(
    ("request_", "form"),
    [
        ("usr[mlm=usr-mlm[reduction=sum]]", "usr-mlm[reduction=sum]"),
        ("usr:released[mlm=usr-mlm:paper]", "usr-mlm:paper"),
        ("usr:released[mlm=usr-mlm:recommended]", "usr-mlm:recommended"),
        ("usr:released[dr_c=usr-dr-c[fact=best]]", "usr-dr-c[fact=best]"),
        ("usr[feeds=vup/vup/nup/mlm/dr_f,mlm=mlm-nce[fast=false],dr_f=iwf[reduction=max]]", "iwf[reduction=max]"),
    ],
)
def test_constants_of_one_form_are_not_read_as_anothers(request_: str, form: str) -> None:
    words = f"no calibration for '{re.escape(form)}' .*give constants=batch, or a JSON file of your own"
    with pytest.raises(TurnwiseError, match=words):
        load_metric(request_)


def test_constants_are_found_for_the_usual_form_written_out() -> None:
    for usual, written in (
        ("usr", "usr[mlm=usr-mlm[scope=response,turns=1],dr_f=usr-dr-f[fact=best]]"),
        ("usr[fast=true]", "usr[mlm=usr-mlm[fast=true,reduction=mean]]"),
        ("usr:released", "usr:released[mlm=usr-mlm:released[scope=all,tokenised=true]]"),
    ):
        assert load_metric(written).regression == load_metric(usual).regression


def test_batch_z_scores(toy: Toy) -> None:
    examples = [EXAMPLE, OTHER, Example("tea", ("how are you ?",), facts=("i like tea",)), Example("no", ())]
    request = f"usr[constants=batch,feeds={PUBLISHED_FEEDS},weights={PUBLISHED_WEIGHTS}]"
    metric = load_metric(request)
    judged = [scores[request] for scores in toy.judge(request, *examples)]
    assert [score.value for score in judged] == [None] * 4
    settled = metric.settle(judged)
    assert settled[3] == judged[3]
    columns = {part: [s.parts[f"usr-{part.replace('_', '-')}"] for s in judged[:3]] for part in ("mlm", "dr_c", "dr_f")}
    expected = usr_score(*columns.values(), metric.regression.standardised_on(columns))
    assert [score.value for score in settled[:3]] == pytest.approx(expected)
    assert np.mean([score.value for score in settled[:3]]) == pytest.approx(metric.intercept)
    assert load_metric("usr").settle(judged) == judged


def test_paper_mode_awaits_the_batch_and_weighs_likelihood_upwards(toy: Toy) -> None:
    metric = load_metric("usr:paper")
    judged = [scores["usr:paper"] for scores in toy.judge("usr:paper", EXAMPLE, OTHER)]
    assert (judged[0].value, judged[0].note) == (None, None)
    likelihood, first, second = "usr-mlm:paper[sign=1]", *metric.settle(judged)
    higher = max(first, second, key=lambda score: score.parts[likelihood])
    assert higher.parts["Natural contribution"] == pytest.approx(0.4035348605308456)


# --- requests -------------------------------------------------------------------------------------------


def test_signatures_show_modes_and_options() -> None:
    names = ["usr-mlm", "usr-mlm:released", "usr-mlm:paper", "usr-mlm[scope=all]", "usr", "usr:released"]
    signatures = [signature(name, load_metric(name), full=True) for name in names]
    assert len(set(signatures)) == len(names)
    assert "|mode:released|scope:all|reduction:mean|sign:1|turns:1|separators:_eos/_go|" in signatures[1]
    assert "|feeds:vup/vup/nup/mlm/dr_f|" in signatures[4]
    assert "|constants:turnwise-mini#" in signatures[4]
    assert "|constants:published#" in signatures[5]
    assert f"|feeds:{PUBLISHED_FEEDS}|" in signatures[5]


def test_models_are_those_of_the_parts_in_use() -> None:
    assert load_metric("usr").roles == {"vup", "masked-lm", "nup", "dr-f"}
    assert load_metric("usr:released").roles == {"masked-lm", "nup", "dr-f"}
    assert load_metric("usr[feeds=mlm/dr_c/dr_c/dr_c/dr_c]").roles == {"masked-lm", "nup", "dr-f"}
    assert load_metric("usr-dr-c[reading=together]").roles == {"nup"}
    assert load_metric("usr[mlm=vup]").roles == {"vup", "nup", "dr-f"}


def test_the_group_is_filtered_by_what_a_file_has() -> None:
    roles = frozenset({"vup", "masked-lm", "nup", "dr-f"})
    assert list(expand("usr+", frozenset({"context"}), roles)) == ["usr", "usr-mlm", "usr-dr-c"]
    assert list(expand("usr+", frozenset({"context", "facts"}), roles)) == GROUP
    with pytest.raises(TurnwiseError, match="models that are not there: dr-f, masked-lm, nup, vup"):
        expand("usr+", frozenset({"context"}))


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ("usr[feeds=mlm/mlm]", "write five of mlm, dr_c, dr_f"),
        ("usr[feeds=mlm/mlm/mlm/mlm/nupp]", "did you mean 'nup'"),
        ("usr[feeds=mlm/mlm/mlm/mlm/meteor,constants=published]", "no calibration for 'meteor'"),
        ("usr[feeds=mlm/mlm/mlm/mlm/nup,means=1/2/3,stds=1/1/1]", "give constants for others"),
        ("usr[weights=1/2]", "write 5 numbers"),
        ("usr[means=1/2/3]", "go together"),
        (f"usr[feeds={PUBLISHED_FEEDS},means=1/2/3,stds=1/1/0]", "greater than 0"),
        ("usr[constants=mine]", "no constants are called 'mine'"),
        ("usr[mlm=usr-mml]", "did you mean 'usr-mlm'"),
        ("usr-mlm[sign=2]", "write 1 or -1"),
        ("usr-mlm[turns=0]", "or all"),
        ("usr-mlm[scope=response+eos]", "needs separators"),
        ("usr-mlm[max_length=4]", "option max_length=4: write a whole number from 5 up"),
        ("usr-mlm:released[max_length=2]", "from 3 up"),
        ("usr-dr-f[max_length=0]", "from 5 up"),
        ("usr-dr-c[truncation=middle]", "choose one of start, end"),
        ("usr-mlm[scope=half]", "choose one of all, response, response+eos"),
    ],
)
def test_a_request_that_cannot_be_met_is_answered_in_one_line(request_: str, words: str) -> None:
    with pytest.raises(TurnwiseError) as caught:
        load_metric(request_)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_examples_of_the_page_run() -> None:
    page = Path(__file__).parents[2] / "docs" / "metrics" / "usr.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
