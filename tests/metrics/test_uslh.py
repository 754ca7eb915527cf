"""USL-H: the specification's oracles for the composition, and the metrics on a toy pack."""

from __future__ import annotations

import dataclasses
import doctest
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gmean, hmean

import turnwise as tw
from tests.metrics.toy_models import Toy
from turnwise.dialogue import Example
from turnwise.errors import TurnwiseError
from turnwise.metrics.registry import expand, lesser_form, load_metric
from turnwise.metrics.scaling import clamp, load_constants
from turnwise.metrics.signature import signature
from turnwise.metrics.uslh import compose, compose_ratings, likability, terms
from turnwise.models.export.build_pack import build_pack
from turnwise.models.requests import Classify, Window

EXAMPLE = Example("I love cats, do you?", ("Hello!", "Do you like dogs?"))
OTHER = Example("why not ?", ("i like music", "Tea?"))
UNIT = st.floats(0, 1)
ROLES = frozenset({"vup", "nup", "masked-lm"})


# --- the composition ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("triple", "composition", "expected"),
    [
        ((1, 0, 0.7), "HS", 0.33),
        ((1, 1, 0), "HS", 0.66),
        ((1, 1, 1), "HS", 1.00),
        ((0, 0, 0.3), "HS", 0),
        ((0, 1, 1), "HS", 0.67),
        ((0, 1, 1), "H", 0),
        ((0, 1, 1), "A", 0.67),
        ((1, 0, 1), "A", 0.67),
        ((1, 0, 1), "HS", 0.33),
        ((1, 1, 1), "H", 1.00),
    ],
)
def test_oracles(triple: tuple[float, float, float], composition, expected: float) -> None:
    assert compose(*triple, composition).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("vup", "nup", "nll", "expected"),
    [
        (0.811803936958313, 0.012801747769117355, 37.09322030283511, 0.27455753585893217),
        (0.9703407883644104, 0.0053728255443274975, 16.509640213102102, 0.322046671738695),
    ],
)
def test_published_outputs(vup: float, nup: float, nll: float, expected: float) -> None:
    bounds = load_constants("published").bounds("mlm-likelihood", (0.25, 0.75))
    assert compose(vup, nup, clamp(nll, *bounds)).item() == pytest.approx(expected, abs=1e-11)


def test_ratings_of_the_papers_tables() -> None:
    assert compose_ratings([(1, 1, 0)] * 3 + [(1, 1, 1)]) == pytest.approx(0.745)
    assert compose_ratings([(1, 0, None)] + [(0, 0, None)] * 3) == pytest.approx(0.0825)
    assert compose_ratings([(1, 1, None), (None, 1, 1)]) is None
    assert compose_ratings([(1, 1, 1), (None, 1, 1)], "H") == pytest.approx(1)


@given(UNIT, UNIT, UNIT)
def test_terms_add_up_and_the_hierarchy_holds(u: float, s: float, q: float) -> None:
    for composition in ("H", "HS", "A"):
        assert sum(terms(u, s, q, composition).values()) == pytest.approx(compose(u, s, q, composition).item())
    full, simplified, average = (compose(u, s, q, c).item() for c in ("H", "HS", "A"))
    assert full <= simplified + 1e-12
    assert simplified <= average + 1e-12


@given(st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0.01, 1), st.lists(st.floats(0.1, 9), min_size=3, max_size=3))
def test_means_are_scipys(u: float, s: float, q: float, weights: list[float]) -> None:
    assert compose(u, s, q, "geometric", weights).item() == pytest.approx(gmean([u, s, q], weights=weights))
    assert compose(u, s, q, "harmonic", weights).item() == pytest.approx(hmean([u, s, q], weights=weights))


def test_means_are_nothing_where_a_quality_is_nothing() -> None:
    assert compose([0, 1], [1, 1], [1, 0], "geometric").tolist() == [0, 0]
    assert compose([0, 1], [1, 1], [1, 0], "harmonic").tolist() == [0, 0]
    assert compose(0, 1, 1, "harmonic", (0, 0.5, 0.5)).item() == 1


def test_several_likable_qualities() -> None:
    assert likability([[1, 0], [0, 1]]).tolist() == [0.5, 0.5]
    assert likability([[1, 0], [0, 1]], [0.9, 0.1]) == pytest.approx([0.9, 0.1])


# --- the parts ------------------------------------------------------------------------------------------


def test_what_vup_and_nup_ask() -> None:
    def asked(request: str):
        (only,) = load_metric(request).requests(EXAMPLE)
        return only

    assert asked("vup") == Classify(EXAMPLE.response, role="vup")
    assert asked("vup:released").window == Window(total=25)
    assert asked("nup") == Classify("Hello! [SEP] Do you like dogs?", EXAMPLE.response, role="nup")
    window = Window(50, 25, 25, together=True)
    assert asked("nup:released") == Classify("Hello! Do you like dogs?", EXAMPLE.response, window, "nup")
    assert asked("nup:paper").text == "Do you like dogs?"
    assert asked("nup:released[context_length=100,response_length=25]").window == Window(125, 100, 25, together=True)
    assert asked("empathy") == Classify(EXAMPLE.response, role="emotion")
    assert asked("empathy[turns=1]").text == "Do you like dogs?"


def test_forms_of_the_likelihood(toy: Toy) -> None:
    names = ["mlm-likelihood", "mlm-nce", "mlm-ppl", "mlm-slor", "iwf"]
    scores = toy.judge(names, EXAMPLE)[0]
    total, tokens = scores["mlm-nce"].parts["log-likelihood"], 7
    assert scores["mlm-likelihood"].value == pytest.approx(-total)
    assert scores["mlm-nce"].value == pytest.approx(total / tokens)
    assert scores["mlm-ppl"].value == pytest.approx(math.exp(-total / tokens))
    words = -sum(cost for _, cost in scores["iwf"].tokens)
    assert scores["mlm-slor"].value == pytest.approx((total - words) / tokens)
    assert sum(cost for _, cost in scores["mlm-likelihood"].tokens) == pytest.approx(-total)
    assert len(toy.asked) == 2


def test_rarity_is_that_of_the_counted_words(toy: Toy) -> None:
    # The pack's texts have 11 words, all different; every count has one added, and so has what was never seen.
    counts = {"i": 1, "like": 1, "yes": 1, "cats": 0}
    rarity = [-math.log((count + 1) / (11 + 11 + 1)) for count in counts.values()]
    example = Example("I like yes cats")
    assert toy.score("iwf", example).value == pytest.approx(np.mean(rarity), abs=1e-6)
    assert toy.score("iwf[reduction=max]", example).value == pytest.approx(max(rarity), abs=1e-6)


def test_a_causal_model_may_judge_specificity(toy: Toy) -> None:
    score = toy.score("usl-h[likability=lm-likelihood,constants=batch]", EXAMPLE)
    alone = toy.score("lm-likelihood", EXAMPLE)
    assert score.parts["lm-likelihood"] == alone.value == pytest.approx(sum(cost for _, cost in alone.tokens))


# --- the composite --------------------------------------------------------------------------------------


def test_the_whole_family_costs_one_pass(toy: Toy) -> None:
    toy.judge(["usl-h", "usl-a", "vup", "nup", "mlm-likelihood", "mlm-nce", "mlm-ppl"], EXAMPLE, OTHER)
    assert len(toy.asked) == 6


def test_the_score_is_the_composition_of_its_parts(toy: Toy) -> None:
    for request, form in (("usl-h", "HS"), ("usl-a", "A"), ("usl-h[composition=H]", "H")):
        score = toy.score(request, EXAMPLE)
        bounds = load_constants("turnwise-mini").bounds("mlm-likelihood", (0.25, 0.75))
        normal = clamp(score.parts["mlm-likelihood"], *bounds).item()
        assert score.parts["mlm-likelihood normalised"] == score.parts["likability"] == normal
        assert score.value == compose(score.parts["vup"], score.parts["usr-dr-c"], normal, form).item()
        added = [value for name, value in score.parts.items() if name.endswith("contribution")]
        assert sum(added) == pytest.approx(score.value, abs=1e-12)
        assert [token for token, _ in score.tokens] == "i love cats , do you ?".split()


def test_alphas_betas_and_other_qualities(toy: Toy) -> None:
    request = "usl-h[likability=specificity/empathy,betas=0.2/0.8,alphas=0/0/1,composition=A]"
    score = toy.score(request, EXAMPLE)
    empathy = toy.score("empathy", EXAMPLE).value
    assert score.value == pytest.approx(0.2 * score.parts["mlm-likelihood normalised"] + 0.8 * empathy)
    assert toy.score("usl-h[likability=empathy]", EXAMPLE).parts["likability"] == pytest.approx(empathy)
    assert toy.score("usl-h[understandable=nup,sensible=vup,likability=distinct-1]", EXAMPLE).value is not None


@pytest.mark.parametrize("composition", ["HS", "H", "A"])
def test_each_likable_quality_has_its_share_of_the_last_term(toy: Toy, composition: str) -> None:
    score = toy.score(f"usl-h[likability=specificity/empathy,betas=0.7/0.3,composition={composition}]", EXAMPLE)
    last = {"HS": "SL", "H": "USL", "A": "L"}[composition]
    shares = [score.parts[f"{name} contribution"] for name in ("mlm-likelihood", "empathy")]
    assert sum(shares) == pytest.approx(score.parts[f"{last} contribution"])
    assert "mlm-likelihood contribution" not in toy.score("usl-h", EXAMPLE).parts


def test_weights_below_zero_leave_the_range() -> None:
    assert load_metric("usl-h").range == (0, 1)
    assert load_metric("usl-h[alphas=0.7/0.6/-0.3]").range == (-math.inf, math.inf)


def test_a_part_may_have_the_separating_mark_in_its_own_options() -> None:
    own = "usr-mlm[separators=_eos/_go,sign=-1]"
    metric = load_metric(f"usl-h[likability=empathy/{own},constants=batch]")
    assert list(metric.members) == ["vup", "usr-dr-c", "empathy", own]
    assert list(load_metric(f"usr[feeds=vup/vup/nup/{own}/dr_f,constants=batch]").members) == [
        "vup",
        "nup",
        own,
        "dr_f",
    ]


@pytest.mark.parametrize(
    "request_",
    ["usl-h", "usl-a", "usl-h[composition=H,likability=specificity/empathy,betas=0.7/0.3]", "usr", "usr:released"],
)
def test_the_breakdown_adds_up(toy: Toy, request_: str) -> None:
    score = toy.score(request_, dataclasses.replace(EXAMPLE, facts=("i like dogs",)))
    added = sum(part.contribution for part in score.breakdown)
    assert score.parts.get("intercept", 0) + added == pytest.approx(score.value)
    for part in score.breakdown:
        assert part.raw == score.parts[part.name]
        assert part.scaled == score.parts.get(f"{part.name} normalised", part.raw)


def test_modes_differ_as_specified(toy: Toy) -> None:
    long = Example("why " * 40, ("tea ?", "i like dogs"))
    released, bare = toy.score("usl-h:released", long), toy.score("usl-h", long)
    assert released.parts["mlm-likelihood"] == bare.parts["mlm-likelihood"]
    assert released.parts["vup"] == toy.score("vup:released", long).value != bare.parts["vup"]
    assert released.parts["nup"] == toy.score("nup:released", long).value
    assert load_metric("usl-h:paper").clamp == (0, 1)


def test_paper_mode_is_min_max_over_the_run(toy: Toy) -> None:
    examples = [EXAMPLE, OTHER, Example("tea", ("how ?",)), Example("no context")]
    judged = [scores["usl-h:paper"] for scores in toy.judge("usl-h:paper", *examples)]
    assert [score.value for score in judged] == [None] * 4
    settled = load_metric("usl-h:paper").settle(judged)
    raw = np.array([score.parts["mlm-likelihood"] for score in judged[:3]])
    normal = [score.parts["mlm-likelihood normalised"] for score in settled[:3]]
    assert normal == pytest.approx((raw - raw.min()) / np.ptp(raw))
    assert settled[3].note.code == "score.no_context"


def test_signatures_show_modes_and_options() -> None:
    names = [
        "usl-h",
        "usl-h:released",
        "usl-h:paper",
        "usl-h[alphas=0.2/0.3/0.5]",
        "usl-h[likability=empathy]",
        "usl-a",
    ]
    signatures = [signature(name, load_metric(name), full=True) for name in names]
    assert len(set(signatures)) == len(names)
    assert "|composition:HS|alphas:0.2/0.3/0.5|" in signatures[3]
    assert "composition" not in signatures[5]


def test_models_are_those_of_the_parts_in_use() -> None:
    assert load_metric("usl-h").roles == {"vup", "nup", "dr-f", "masked-lm"}
    assert load_metric("usl-h[likability=empathy]").roles == {"vup", "nup", "dr-f", "emotion"}
    assert load_metric("usl-h:released").roles == load_metric("usl-h[sensible=nup]").roles == ROLES


def test_sense_is_made_after_the_context_and_what_the_speaker_knows(toy: Toy) -> None:
    knows = replace(EXAMPLE, facts=("i have two cats", "i like music"))
    aware, unaware, context = (toy.score(name, knows) for name in ("usl-h", "usl-h[sensible=nup]", "nup"))
    fact = toy.score("usr-dr-f", knows).value
    assert aware.parts["usr-dr-c"] == pytest.approx((context.value + fact) / 2)
    assert aware.value != unaware.value
    assert toy.score("usl-h", EXAMPLE).value == toy.score("usl-h[sensible=nup]", EXAMPLE).value == unaware.value
    for mode in ("released", "paper"):
        assert load_metric(f"usl-h:{mode}").requests(knows) == load_metric(f"usl-h:{mode}").requests(EXAMPLE)


def test_the_group() -> None:
    def names(roles: frozenset[str]) -> list[str]:
        return list(expand("usl-h+", frozenset({"context"}), roles))

    assert names(ROLES | {"dr-f"}) == ["usl-h", "vup", "nup", "usr-dr-c", "mlm-likelihood"]
    assert names(ROLES) == ["usl-h[sensible=nup]", "vup", "nup", "mlm-likelihood"]
    assert names(ROLES - {"nup"}) == ["vup", "mlm-likelihood"]
    assert names(ROLES - {"vup"} | {"dr-f"}) == ["nup", "usr-dr-c", "mlm-likelihood"]


def test_models_that_know_no_facts_have_a_form_of_their_own(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    own = tmp_path / "own"
    build_pack(list(checkpoints.values()), own, name="own", licence="none", fineness=None)
    remedy = r"^usl-h: the models have none for dr-f; usl-h does without them if you ask for usl-h\[sensible=nup\]$"
    with pytest.raises(TurnwiseError, match=remedy):
        tw.evaluate([{"context": ["a"], "response": "b"}], "usl-h", models=own, cache="off")
    row = {"context": ["a"], "response": "b", "facts": ["c"]}
    judged = tw.evaluate([row], "usl-h+", models=own, cache="off").judged[0]
    assert judged.scores["usl-h[sensible=nup]"].value is not None


def test_a_form_that_asks_less_is_named_only_where_it_can_be_answered() -> None:
    def form(request: str, roles: frozenset[str]) -> str | None:
        return lesser_form(load_metric(request), roles)

    assert form("usl-a[likability=empathy]", ROLES | {"emotion"}) == "usl-a[likability=empathy,sensible=nup]"
    assert form("usl-h", ROLES | {"dr-f"}) is None, "nothing is lacking"
    assert form("usl-h", ROLES - {"vup"}) is form("usl-h", ROLES - {"masked-lm"} | {"dr-f"}) is None
    for already in ("usl-h[sensible=nup]", "usl-h:released"):
        assert form(already, ROLES - {"vup"}) is None
    with pytest.raises(TurnwiseError, match=r"^`models=paper`: 'vup' was bert-base-uncased fine-tuned on dialogues"):
        tw.evaluate([{"context": ["a"], "response": "b"}], "usl-h", models="paper", cache="off")


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ("usl-h[alphas=1/1/1]", "add up to 1"),
        ("usl-h[alphas=1/2]", "write 3 numbers"),
        ("usl-h[alphas=2/-0.5/-0.5,composition=geometric]", "a mean has no weights below 0"),
        ("usl-h[likability=specificity/empathy,betas=2/-1,composition=harmonic]", "a mean has no weights below 0"),
        ("usl-h[betas=0.5/0.5]", "write 1 numbers"),
        ("usl-h[clamp=0.75/0.25]", "the lower first"),
        ("usl-h[clamp=0/1,constants=published]", "no quantile 0"),
        ("usl-h[clamp=0.3/0.6]", "no quantile 0.3"),
        ("usl-h[likability=mlm-slor,constants=published]", "no calibration for 'mlm-slor'"),
        ("usl-h[likability=iwf[reduction=max]]", "no calibration for 'iwf[reduction=max]'"),
        ("usl-h[likability=]", "name a metric"),
        ("usl-h[likability=fbd,constants=batch]", "'fbd' has no score for a single turn"),
        ("usl-h[likability=usr[constants=batch],constants=batch]", "'usr[constants=batch]' waits for the whole run"),
        ("usl-h:paper[likability=coherence]", "'coherence:paper' waits for the whole run"),
        ("usl-h[likability=kindness]", "metric 'kindness' is not known"),
        ("usl-a[composition=H]", "no option 'composition'"),
        ("usl-h[composition=B]", "choose one of HS, H, A, geometric, harmonic"),
        ("nup[context_length=5]", "go together"),
        ("nup[context_length=9,response_length=0]", "option response_length=0: write a whole number from 3 up"),
        ("vup[max_length=2]", "from 3 up"),
        ("empathy[turns=-1]", "or all"),
        ("mlm-slor:released", "no mode 'released'"),
    ],
)
def test_a_request_that_cannot_be_met_is_answered_in_one_line(request_: str, words: str) -> None:
    with pytest.raises(TurnwiseError) as caught:
        load_metric(request_)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_examples_of_the_page_run() -> None:
    page = Path(__file__).parents[2] / "docs" / "metrics" / "usl-h.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
