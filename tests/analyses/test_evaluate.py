"""Scoring: rows in = rows out, nothing lost, nothing invented."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import turnwise as tw
from turnwise.analyses.evaluate import offered_by, remarks
from turnwise.dialogue import Example, Row
from turnwise.engine.session import Session


def test_every_row_comes_out_in_order_with_its_error(tmp_path: Path) -> None:
    file = tmp_path / "mixed.jsonl"
    file.write_text('{"response": "fine"}\nnot json\n{"response": ""}\n{"response": "also fine"}\n')
    result = tw.evaluate(file, metrics=["length"])
    assert result.turns["length"].to_list() == [1.0, None, None, 2.0]
    assert result.turns["line"].to_list() == [1, 2, 3, 4]
    assert [error is None for error in result.turns["error"]] == [True, False, False, True]
    assert len(result.problems) == 2
    assert all(str(problem).startswith(f"{file}:") and "\n" not in str(problem) for problem in result.problems)


def test_strict_stops_at_the_first_bad_row(tmp_path: Path) -> None:
    file = tmp_path / "mixed.jsonl"
    file.write_text('{"response": "fine"}\nnot json\n')
    with pytest.raises(tw.TurnwiseError, match=":2:"):
        tw.evaluate(file, metrics=["length"], strict=True)


def test_what_a_metric_lacks_becomes_a_note_and_one_warning() -> None:
    rows = [{"response": "hello there", "references": ["hello"]}, {"response": "hi"}, {"response": "hey"}]
    result = tw.evaluate(rows, metrics=["f1", "length"])
    assert result.turns["f1"].null_count() == 2
    assert result.to_dict()["turns"][1]["notes"] == {"f1": "no references"}
    assert len(result.problems) == 1
    assert "2 of 3 rows" in str(result.problems[0])


def test_the_document_has_the_promised_shape(two_systems: list[dict[str, Any]]) -> None:
    document = tw.evaluate(two_systems, metrics=["f1", "distinct-2"]).to_dict()
    assert list(document) == ["signatures", "turns", "dialogues", "groups", "systems", "verdict"]
    turn_fields = ["id", "file", "line", "system", "context_id", "dialogue_id", "group", "scores", "notes", "error"]
    assert list(document["turns"][0]) == turn_fields
    good = next(entry for entry in document["systems"] if entry["system"] == "good")
    # Twelve perfect replies leave room for others: Clopper and Pearson's interval of 12 of 12.
    low = pytest.approx(0.025 ** (1 / 12))
    assert good["scores"]["f1"] == {"value": 1.0, "low": low, "high": 1.0, "n": 12, "higher_is_better": True}
    json.dumps(document, allow_nan=False)


def test_conversations_are_averaged_per_dialogue() -> None:
    messages = [
        {"role": role, "content": content}
        for role, content in [("user", "hi"), ("assistant", "a b"), ("user", "ok"), ("assistant", "a b c d")]
    ]
    document = tw.evaluate([{"messages": messages, "dialogue_id": "d"}], metrics=["length"]).to_dict()
    assert document["dialogues"] == [{"dialogue_id": "d", "system": "system", "scores": {"length": 3.0}}]


def test_frames_lists_and_files_give_the_same_scores(two_systems: list[dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in two_systems))
    columns = ("id", "context", "response", "references", "system")
    frame = pl.DataFrame([{name: row[name] for name in columns} for row in two_systems])
    scores = [
        tw.evaluate(source, metrics="f1,bleu-2").turns["bleu-2"].to_list() for source in (two_systems, file, frame)
    ]
    assert scores[0] == scores[1] == scores[2]


def test_a_pooled_value_is_that_of_all_responses_together() -> None:
    rows = [{"response": "a b", "context_id": "1"}, {"response": "a a", "context_id": "2"}]
    system = tw.evaluate(rows, metrics=["distinct-1"]).systems.row(0, named=True)
    assert system["value"] == pytest.approx(2 / 4)
    assert system["low"] < 2 / 4 < system["high"]


def test_saving_writes_what_can_be_read_again(two_systems: list[dict[str, Any]], tmp_path: Path) -> None:
    result = tw.evaluate(two_systems, metrics=["f1"])
    folder = result.save(tmp_path / "out")
    saved = json.loads((folder / "result.json").read_text())
    assert {name: saved[name] for name in result.to_dict()} == result.to_dict()
    assert pl.read_parquet(folder / "turns.parquet")["f1"].to_list() == result.turns["f1"].to_list()
    assert pl.read_csv(folder / "systems.csv").height == 2


def test_one_example_through_load_metric() -> None:
    metric = tw.load_metric("f1")
    assert metric.score(response="hello", references=["hello"]).value == 1.0
    assert metric.score(response="hello", references="hello").value == 1.0, "one string is a list of one"
    missing = metric.score(response="hello")
    assert (missing.value, missing.note.code) == (None, "score.no_references")
    assert missing.explanation == "no score: no references"
    with pytest.raises(tw.TurnwiseError, match="response"):
        metric.score(response=5, references=["hello"])  # type: ignore[arg-type]


def test_a_bad_row_still_says_whose_it_is() -> None:
    rows = [{"response": "", "system": "a"}, {"response": "x", "system": "b"}]
    assert tw.evaluate(rows, metrics=["length"]).turns["system"].to_list() == ["a", "b"]


def test_no_usable_row_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "noise.jsonl"
    file.write_bytes(b"\x00\x01\n\xff\n")
    with pytest.raises(tw.TurnwiseError, match="none of the 2 rows can be used"):
        tw.evaluate(file, metrics=["length"])


def test_an_interrupt_keeps_what_was_computed() -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield from ({"response": "one two", "context": [str(n)]} for n in range(5000))
        raise KeyboardInterrupt

    kept = tw.evaluate(rows(), metrics=["length"], keep_when_interrupted=True)
    assert kept.interrupted
    assert 0 < len(kept.judged) <= 5000
    with pytest.raises(KeyboardInterrupt):
        tw.evaluate(rows(), metrics=["length"])


def test_a_result_is_shown_in_a_line(two_systems: list[dict[str, Any]]) -> None:
    assert repr(tw.evaluate(two_systems, metrics=["f1"])) == "<turnwise.Result: 24 turns, 2 systems, metrics f1>"


def test_nothing_to_score_is_said(tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_text("")
    with pytest.raises(tw.TurnwiseError, match="nothing to score"):
        tw.evaluate(file)


def test_an_interval_stays_on_the_scale_of_its_metric() -> None:
    rows = [{"response": "a a a a", "context_id": "1"}, {"response": "b c d e f g h", "context_id": "2"}]
    system = tw.evaluate(rows, metrics=["distinct-1"]).systems.row(0, named=True)
    assert system["low"] == 0.0
    assert system["high"] == 1.0


def test_intervals_can_be_left_out() -> None:
    words = ("tea", "no", "ok then")
    rows = [{"response": f"yes {word}", "system": system, "context_id": word} for system in "ab" for word in words]
    full, bare = (tw.evaluate(rows, ["length", "distinct-1"], intervals=wanted) for wanted in (True, False))
    assert [v.value for v in bare.system_values] == [v.value for v in full.system_values]
    assert all(v.low is not None for v in full.system_values)
    assert all(v.low is None and v.high is None for v in bare.system_values)


def test_somebody_else_s_metric_may_fail_on_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import dataclass
    from typing import ClassVar

    from turnwise.metrics import registry
    from turnwise.metrics.base import Metric, Score

    @dataclass(frozen=True, kw_only=True)
    class Ratio(Metric):
        summary: ClassVar[str] = "one over the words, less two"
        cite: ClassVar[str] = ""

        def judge(self, example: Example, answers: object = ()) -> Score:
            words = len(example.response.split())
            return Score(float("nan") if words == 3 else 1 / (words - 2))

    monkeypatch.setattr(registry.METRICS, "_items", dict(registry.METRICS._items))
    registry.register({"ratio": {}})(Ratio)
    said = [{"response": "a"}, {"response": "a b"}, {"response": "a b c"}, {"response": "a b c d"}]
    found = tw.evaluate(said, metrics=["ratio", "length"])
    assert found.turns["ratio"].to_list() == [-1.0, None, None, 0.5]
    assert any("ZeroDivisionError in the metric (division by zero)" in str(problem) for problem in found.problems)
    assert any("the metric gave nan" in str(problem) for problem in found.problems)
    # A metric that declares no range has none that could cut its interval off.
    (low,), (high,) = (found.systems.filter(pl.col("metric") == "ratio")[side].to_list() for side in ("low", "high"))
    assert low < -0.25 < high


def test_what_is_no_name_of_a_metric_is_refused() -> None:
    for wrong in (None, 3, [3], [tw.Metric]):
        with pytest.raises(tw.TurnwiseError, match="`metrics`: "):
            tw.evaluate([{"response": "a"}], metrics=wrong)  # type: ignore[arg-type]


def test_a_metric_is_taken_as_it_is() -> None:
    rows = [{"response": "I like tea", "references": ["i like tea .", "tea"]}]
    metric = tw.load_metric("f1[normalise=none]")
    for asked in (metric, [metric], ["length", metric], iter(["length", metric])):
        found = tw.evaluate(rows, asked)
        assert found.to_dict()["turns"] == tw.evaluate(rows, list(found.metrics)).to_dict()["turns"]
        assert found.metrics["f1[normalise=none]"] is metric
    other = dataclasses.replace(metric, name="mine")
    assert list(tw.evaluate(rows, [metric, other]).metrics) == ["f1[normalise=none]", "mine"]
    with pytest.raises(tw.TurnwiseError, match="two different metrics are called 'mine'"):
        tw.evaluate(rows, [other, dataclasses.replace(other, normalise="words")])


@pytest.mark.parametrize("blank", ["", " \n", "\u200b"])
def test_a_blank_response_has_nothing_that_a_model_could_judge(blank: str) -> None:
    for name in ("vup", "maude", "usr", "fluency", "bertscore"):
        score = tw.load_metric(name).score(response=blank, context=["hi"], references=["hello"])
        assert (score.value, score.note.code) == (None, "score.blank_response")
    assert tw.load_metric("f1").score(response=blank, references=["hello"]).value == 0


def test_one_turn_has_no_value_of_whole_systems() -> None:
    score = tw.load_metric("diversity").score(response="hi", references=["hello"])
    assert score.value is None
    assert score.note


@pytest.mark.parametrize("seed", [-1, 0.5, "1"])
def test_a_seed_that_nothing_can_be_drawn_from_is_refused(seed: Any, two_systems: list[dict[str, Any]]) -> None:
    for verb in (tw.evaluate, tw.compare, tw.agreement, tw.perturb, tw.augment, tw.metaevaluate, tw.fit):
        with pytest.raises(tw.TurnwiseError, match=f"`seed`: expected .*, got {seed!r}"):
            verb(two_systems, seed=seed)  # type: ignore[operator]
    tw.evaluate(two_systems, "f1", seed=np.int64(3))  # type: ignore[arg-type]


def test_metrics_of_a_group_that_are_left_out_are_named_and_so_are_misspelt_fields(tmp_path: Path) -> None:
    rows = [{"contxt": ["hi"], "response": "a b", "refernces": ["a b"], "cost": 3}] * 3
    notes = tw.evaluate(rows, "classic").notes
    assert notes == [
        "left out of classic: f1, bleu-1, bleu-2, bleu-3, bleu-4, rouge-l, meteor need references, which no row has",
        "the field 'contxt' is not known and not read; did you mean 'context'?",
        "the field 'refernces' is not known and not read; did you mean 'references'?",
    ]
    assert tw.evaluate(rows[:1], "length").notes == notes[1:]
    file = tmp_path / "chats.csv"
    file.write_text("response,contexts\nhi there,hello\n" + "hi,hello\n" * 1500)
    first, second = tw.evaluate(file, "classic").notes
    assert first.endswith("need references, which of the first 1,000 rows none has")
    assert "did you mean 'context'" in second


def test_metrics_of_a_group_that_the_models_cannot_answer_are_named() -> None:
    row, roles = Row("1", "chats.jsonl", 1, Example("hello", ("hi",))), frozenset({"vup", "nup", "masked-lm"})
    said = remarks([row], "default,usl-h+", frozenset({"context"}), roles, more_to_come=False)
    assert said == [
        "left out of default: usr, maude, coherence, fluency; the models have none for causal-lm, dr-f, maude",
        "left out of usl-h+: usr-dr-c; the models have none for dr-f",
    ]
    first = remarks([row], "usl-h+", frozenset(), roles, more_to_come=False)[0]
    assert first.startswith("left out of usl-h+: usl-h[sensible=nup], nup need context"), "the form that would be taken"


def test_a_distance_that_is_left_out_is_named_where_a_second_system_may_come() -> None:
    example = Example("hello", ("hi",), ("hey",))
    row, offered, roles = Row("1", "chats.jsonl", 1, example), offered_by([example]), Session().roles
    said = remarks([row] * 1000, "default", offered, roles, more_to_come=True)
    assert said == ["left out of default: fbd, since the first 1,000 rows are of one system; ask for it by name"]
    assert remarks([row], "default", offered, roles, more_to_come=False) == []
    assert remarks([row] * 1000, "default", offered | {"systems"}, roles, more_to_come=True) == []


def test_nothing_is_said_where_nothing_is_left_out(two_systems: list[dict[str, Any]]) -> None:
    assert tw.evaluate(two_systems, "classic").notes == []
    assert tw.evaluate([{"response": "one two"}], "length,distinct-1").notes == []
