"""The request language: NAME, NAME:mode, NAME[key=value], lists and groups."""

from __future__ import annotations

import re

import pytest

from turnwise.errors import TurnwiseError
from turnwise.metrics.registry import CLASSIC, expand, lacking, load_metric, split_list
from turnwise.metrics.signature import signature


def test_a_name_a_mode_and_options() -> None:
    metric = load_metric("bleu-4:released[corpus=true]")
    assert (metric.name, metric.mode) == ("bleu-4", "released")
    assert metric.options()["corpus"] is True


def test_commas_split_only_outside_brackets() -> None:
    assert split_list("f1, bleu-4[corpus=true,x=1] ,,length") == ["f1", "bleu-4[corpus=true,x=1]", "length"]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ("blue-4", "did you mean 'bleu-4'"),
        ("nonsense", "turnwise list metrics"),
        ("f1:print", "no mode 'print'"),
        ("bleu-4[corpus]", "write corpus=VALUE"),
        ("bleu-4[corpus=maybe]", "true or false"),
        ("prd[beta=nan]", "option beta=nan: write a number"),
        ("usr[intercept=inf]", "option intercept=inf: write a number"),
        ("meteor[alpha=nan]", "write a number"),
        (f"prd[clusters={'9' * 400}]", "write a whole number"),
        ("prd[clusters=1e3]", "option clusters=1e3: write a whole number"),
        ("bleu-4[size=3]", "no option 'size'"),
        ("bleu-4[", "write NAME"),
        ("meteor:released", "METEOR 1.5"),
    ],
)
def test_a_request_that_cannot_be_met_is_answered_in_one_line(request_: str, words: str) -> None:
    with pytest.raises(TurnwiseError) as caught:
        load_metric(request_)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_group_gives_only_what_the_file_has_the_needs_of() -> None:
    assert list(expand("classic", frozenset())) == ["length", "distinct-1", "distinct-2"]
    assert list(expand("classic", frozenset({"references", "context"}))) == list(CLASSIC)


def test_a_metric_asked_for_by_name_stays_whatever_the_file_has() -> None:
    assert list(expand("f1:released,classic", frozenset())) == ["f1:released", "length", "distinct-1", "distinct-2"]


@pytest.mark.parametrize(
    ("request_", "short"),
    [
        ("usr", r"usr\|models:mini#1\|scale:turnwise-mini#[0-9a-f]{8}"),
        ("usr:released", r"usr\|mode:released\|models:mini#1\|scale:published#[0-9a-f]{8}"),
        ("usr[constants=published-earlier,means=0/0/0,stds=1/1/1,feeds=mlm/mlm/mlm/mlm/mlm]", r"usr\|feeds:mlm/.*"),
        ("usr:paper", r"usr\|mode:paper\|models:mini#1"),
        ("usl-h[alphas=0.2/0.3/0.5]", r"usl-h\|alphas:0.2/0.3/0.5\|models:mini#1\|scale:turnwise-mini#[0-9a-f]{8}"),
        ("bleu-4:released[corpus=true]", r"bleu-4\|mode:released\|corpus:true\|models:mini#1"),
        ("consistency[scale=2]", r"consistency\|scale:2.0\|models:mini#1"),
    ],
)
def test_the_short_signature_holds_only_what_is_not_usual(request_: str, short: str) -> None:
    metric = load_metric(request_)
    assert re.fullmatch(short + r"\|turnwise:[\w.]+", signature(request_, metric, "mini#1"))
    full = signature(request_, metric, "mini#1", full=True)
    assert full.startswith(f"{metric.name}|mode:{metric.mode}|")
    assert all(f"|{option}:" in full for option in metric.options())


def test_the_signature_tells_everything_that_the_numbers_depend_on() -> None:
    plain, corpus = (signature(name, load_metric(name), full=True) for name in ("bleu-4", "bleu-4[corpus=true]"))
    assert plain != corpus
    assert plain.startswith("bleu-4|mode:recommended|")
    assert "turnwise:" in plain


def test_the_models_that_a_form_asks_are_those_that_it_names() -> None:
    assert lacking("bertscore:released", frozenset({"encoder"})) == ["encoder-roberta-large"]
    assert load_metric("bertscore[encoder=nup-trunk]").roles == {"nup-trunk"}
    assert load_metric("coherence[role=causal-lm-large]").roles == {"causal-lm-large"}
    assert load_metric("usr-dr-c:released").roles == {"nup"}
