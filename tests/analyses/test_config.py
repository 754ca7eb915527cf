"""Composite metrics from files: what they compute, what they explain, and one clear line for every mistake."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnwise as tw
from turnwise.analyses.config import choose_metrics, composite_of, config_of, load_config, name_for, save_config
from turnwise.analyses.gate import Gate
from turnwise.dialogue import Example
from turnwise.metrics import registry
from turnwise.metrics.base import Metric, Score
from turnwise.metrics.composite import CompositeMetric, CompositePart
from turnwise.metrics.registry import load_metric
from turnwise.metrics.scaling import Clamp, ZScore
from turnwise.metrics.signature import signature
from turnwise.metrics.uslh import Composition, compose
from turnwise.models.requests import Classify

TOML = """
name = "mine"
composition = "linear"
intercept = 3.0

[[parts]]
metric = "meteor"
weight = 2.0
normaliser = { kind = "z", mean = 0.25, deviation = 0.5 }

[[parts]]
metric = "length"
weight = -1.0
normaliser = { kind = "clamp", low = 0, high = 10 }

[[parts]]
metric = "f1:released"
weight = 0.5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    return path


def test_the_score_is_what_the_file_says(file: Path) -> None:
    texts = {"response": "i like green tea", "references": ["i like tea"]}
    score = load_config(file).score(**texts)
    meteor, released = (load_metric(name).score(**texts).value for name in ("meteor", "f1:released"))
    assert meteor is not None
    assert released is not None
    assert score.value == pytest.approx(3.0 + 2.0 * (meteor - 0.25) / 0.5 - 0.4 + 0.5 * released)
    assert score.parts["meteor"] == meteor
    assert score.parts["meteor.normal"] == pytest.approx((meteor - 0.25) / 0.5)
    assert score.parts["length.contribution"] == pytest.approx(-0.4)
    added = [value for name, value in score.parts.items() if name.endswith(".contribution")]
    assert score.value == pytest.approx(score.parts["intercept"] + sum(added))


@given(st.lists(st.floats(0.01, 1), min_size=3, max_size=3), st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_the_compositions_are_those_of_usl_h(weights: list[float], values: list[float]) -> None:
    names = ("f1", "rouge-l", "bleu-1")
    parts = [{"metric": name, "weight": weight} for name, weight in zip(names, weights, strict=True)]
    for composition in get_args(Composition):
        metric = composite_of({"name": "mine", "composition": composition, "parts": parts})
        u, s, q = values
        expected = compose(u, s, q, composition, weights).item()
        assert metric.compose(values).value == pytest.approx(expected, abs=1e-12)


def test_what_each_part_adds_in_a_hierarchy() -> None:
    parts = [{"metric": name, "weight": 1.0} for name in ("f1", "rouge-l", "bleu-1")]
    whole = composite_of({"name": "mine", "composition": "H", "intercept": 2.0, "parts": parts})
    score = whole.compose([0.5, 0.5, 0.4])
    assert score.value == pytest.approx(2.85)
    assert score.parts["bleu-1.contribution"] == pytest.approx(0.1)
    mean = composite_of({"name": "mine", "composition": "harmonic", "parts": parts}).compose([0.5, 0.5, 0.0])
    assert mean.value == 0
    assert not any(name.endswith(".contribution") for name in mean.parts)


def test_a_part_without_a_score_leaves_none_and_says_why(file: Path) -> None:
    score = load_config(file).score(response="i like tea")
    assert (score.value, str(score.note)) == (None, "no references (meteor)")
    config = {"name": "pairs", "parts": [{"metric": "length", "weight": 1}, {"metric": "distinct-2", "weight": 1}]}
    short = composite_of(config).score(response="tea")
    assert (short.value, str(short.note)) == (None, "fewer than 2 words (distinct-2)")
    assert short.parts == {"length": 1.0}


def test_scoring_with_a_file_adds_one_metric(file: Path, two_systems: list[dict[str, Any]]) -> None:
    result = tw.evaluate(two_systems, ["length"], config=file)
    assert list(result.metrics) == ["length", "mine"]
    alone = tw.evaluate(two_systems, "mine", config=file)
    assert list(alone.metrics) == ["mine"]
    assert alone.turns["mine"].to_list() == result.turns["mine"].to_list()
    assert alone.signatures["mine"].startswith("mine|intercept:3.0|meteor:2.0*z(")


def test_meta_evaluation_and_comparison_take_a_file_too(file: Path, two_systems: list[dict[str, Any]]) -> None:
    scores = tw.evaluate(two_systems, "mine", config=file).turns["mine"].to_list()
    rows = tw.metaevaluate(two_systems, ["length"], config=file).rows
    assert [row.metric for row in rows] == ["length", "mine"]
    ratings = [sum(row["ratings"]["Overall"]) / 2 for row in two_systems]
    assert rows[1].pearson == pytest.approx(statistics.correlation(scores, ratings))
    compared = tw.compare(two_systems, metrics=["mine"], config=load_config(file), baseline="bad")
    assert [(row.metric, row.system) for row in compared.rows] == [("mine", "good")]
    assert compared.rows[0].difference == pytest.approx(statistics.mean(scores[0::2]) - statistics.mean(scores[1::2]))


def test_a_composite_can_be_a_gate(file: Path, two_systems: list[dict[str, Any]]) -> None:
    metric = load_config(file)
    compared = tw.compare(two_systems, metrics=["mine"], config=metric, baseline="good")
    assert Gate("fail_if_worse", "mine", 0.1, metric).failures(compared)
    with pytest.raises(tw.TurnwiseError, match="metric 'mine' is not known"):
        Gate("fail_if_worse", "mine", 0.1).failures(compared)


def test_a_composite_needs_the_models_of_its_parts(two_systems: list[dict[str, Any]]) -> None:
    parts = [{"metric": name, "weight": 1} for name in ("vup", "usl-h[likability=empathy]", "length")]
    metric = composite_of({"name": "mine", "parts": parts})
    assert metric.roles == {"vup", "nup", "dr-f", "emotion"}
    offered = frozenset({"vup", "emotion", "dr-f"})
    with pytest.raises(tw.TurnwiseError, match=r"^mine needs models that are not there: nup; give `models`$"):
        choose_metrics("length", frozenset({"context"}), offered, metric)
    form = r"or write usl-h\[likability=empathy,sensible=nup\] for usl-h\[likability=empathy\] in the configuration$"
    with pytest.raises(tw.TurnwiseError, match=rf"^mine needs models that are not there: dr-f; give `models`, {form}"):
        choose_metrics("mine", frozenset(), frozenset({"vup", "nup", "emotion"}), metric)
    assert list(choose_metrics("mine", frozenset(), metric.roles, metric)) == ["mine"]


@dataclass(frozen=True, kw_only=True)
class Echo(Metric):
    """Asks one question per context turn; its score tells which answers it was given."""

    summary: ClassVar[str] = "echo"
    cite: ClassVar[str] = "none"

    def requests(self, example: Example) -> Sequence[Classify]:
        return [Classify(role="echo", text=f"{self.name} {turn}", pair=None) for turn in example.context]

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        assert len(answers) == len(example.context)
        return Score(float(sum(answers)), tokens=((self.name, 1.0),))


def test_every_part_gets_its_own_answers() -> None:
    parts = tuple(CompositePart(name, name, Echo(name=name), weight) for name, weight in (("one", 1.0), ("two", 10.0)))
    metric = CompositeMetric(name="both", parts=parts)
    example = Example("fine", context=("a", "b"))
    assert [request.text for request in metric.requests(example)] == ["one a", "one b", "two a", "two b"]
    score = metric.judge(example, [1, 2, 3, 4])
    assert score.value == 1 * (1 + 2) + 10 * (3 + 4)
    assert score.tokens == (("one", 1.0),)


def test_a_metric_registered_elsewhere_can_be_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.METRICS, "_items", dict(registry.METRICS._items))
    registry.register({"third-party": {}})(Echo)
    metric = composite_of({"name": "mine", "parts": [{"metric": "third-party", "weight": 1}]})
    assert isinstance(metric.parts[0].metric, Echo)


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_what_is_written_is_read_back_unchanged(file: Path, tmp_path: Path, suffix: str) -> None:
    metric = load_config(file)
    again = load_config(save_config(metric, tmp_path / f"again.{suffix}", description='from "me"\n\x7f\t§'))
    assert again == metric
    assert signature("mine", again) == signature("mine", metric)


numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(numbers, numbers, st.floats(min_value=1e-300, max_value=1e300), st.text(max_size=20))
def test_every_number_survives_a_file(
    tmp_path_factory: Any, weight: float, mean: float, spread: float, about: str
) -> None:
    scale = {"kind": "z", "mean": mean, "deviation": spread}
    config = {"name": "x", "intercept": mean, "parts": [{"metric": "f1", "weight": weight, "normaliser": scale}]}
    metric = composite_of(config)
    path = tmp_path_factory.getbasetemp() / "survives.toml"
    surrogates = any("\ud800" <= character <= "\udfff" for character in about)
    assert load_config(save_config(metric, path, description="" if surrogates else about)) == metric
    assert composite_of(config_of(metric)) == metric


@given(numbers, st.floats(-1e9, 1e9), st.floats(0.001, 1e9))
def test_a_clamp_stays_between_nought_and_one(value: float, low: float, width: float) -> None:
    assert 0 <= Clamp(low, low + width)(value) <= 1


def test_normalisers_at_their_ends() -> None:
    clamp = Clamp(15.200466625, 54.291347856)
    assert [clamp(value) for value in (-math.inf, 15.200466625, 54.291347856, math.inf)] == [0, 0, 1, 1]
    assert ZScore(-1.0, 0.5)(-0.5) == 1.0


def changed(**changes: Any) -> dict[str, Any]:
    return {"name": "mine", "parts": [{"metric": "f1", "weight": 1.0}]} | changes


def part(**changes: Any) -> dict[str, Any]:
    kept = {"metric": "f1", "weight": 1.0} | changes
    return changed(parts=[{key: value for key, value in kept.items() if value is not ...}])


MISTAKES = [
    (changed(name=...), "name"),
    (changed(name="a|b"), "name"),
    (changed(name="f1"), "choose another name"),
    (changed(name="classic"), "choose another name"),
    (changed(nmae="x"), "key 'nmae' is not known"),
    (changed(composition="cubic"), "composition: 'cubic'"),
    (changed(composition=["HS"]), "composition: '['HS']'"),
    (changed(composition="geometric", parts=[{"metric": "f1", "weight": -1}]), "part 1 (f1): weight: a geometric mean"),
    (changed(composition="harmonic", parts=[{"metric": "usr-mlm", "weight": 1}]), "give a normaliser of kind clamp"),
    (changed(composition="geometric", parts=[{"metric": "f1", "weight": 0}]), "needs a weight above 0"),
    (changed(intercept="3"), "intercept: '3' is not a number"),
    (changed(parts=[]), "[[parts]]"),
    (changed(parts="f1"), "[[parts]]"),
    (changed(parts=["f1"]), "part 1"),
    (changed(parts=[{"metric": "f1", "weight": 1}] * 2), "two are called 'f1'"),
    (part(metric="meteorr"), "did you mean 'meteor'"),
    (part(metric=...), "part 1: no metric"),
    (part(metric="f1[normalise=loud]"), "choose one of"),
    (part(weight=...), "part 1 (f1): no weight"),
    (part(weight=True), "weight: True is not a number"),
    (part(weight=math.nan), "weight: nan"),
    (part(name=""), "name"),
    (part(wieght=1), "key 'wieght' is not known"),
    (part(normaliser=5), "normaliser: write it as a table"),
    (part(normaliser={"kind": "rank"}), "kind 'rank' is not known"),
    (part(normaliser={"kind": "z", "mean": 0}), "no deviation"),
    (part(normaliser={"kind": "z", "mean": 0, "deviation": 0}), "deviation is 0"),
    (part(normaliser={"kind": "z", "mean": 0, "deviation": 1, "low": 0}), "key 'low' is not known"),
    (part(normaliser={"kind": "clamp", "low": 1, "high": 1}), "a low below the high"),
    (part(normaliser={"kind": "clamp", "low": "0", "high": 1}), "low: '0' is not a number"),
]


@pytest.mark.parametrize(("config", "words"), MISTAKES)
def test_every_mistake_is_one_clear_line(config: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not ...}))
    with pytest.raises(tw.TurnwiseError) as raised:
        load_config(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.toml", b"name = ", "not TOML"),
        ("a.json", b"{", "not JSON"),
        ("a.json", b"[]", "one JSON object"),
        ("a.toml", b"\xff\xfe", "UTF-8"),
        ("a.toml", None, "cannot be read"),
    ],
)
def test_files_that_are_no_configuration(name: str, content: bytes | None, words: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(tw.TurnwiseError, match=words) as raised:
        load_config(tmp_path / name)
    assert "\n" not in str(raised.value)


def test_one_metric_can_stand_for_two_qualities() -> None:
    parts = [
        {"metric": "length", "name": "Understandable", "weight": 1},
        {"metric": "length", "name": "Natural", "weight": 2, "normaliser": {"kind": "none"}},
    ]
    metric = composite_of({"name": "mine", "parts": parts})
    assert metric.score(response="one two").value == 1 * 2 + 2 * 2
    assert composite_of(config_of(metric)) == metric


@pytest.mark.parametrize("name", ["id", "file", "line", "system", "group", "error", "notes", "number"])
def test_a_metric_is_not_called_like_a_column_of_the_results(name: str) -> None:
    config = {"name": name, "parts": [{"metric": "length", "weight": 1.0}]}
    with pytest.raises(ValueError, match=f"'{name}' is a column of every result; choose another name"):
        composite_of(config)
    assert name_for(f"runs/{name}.toml") == f"fitted-{name}"
