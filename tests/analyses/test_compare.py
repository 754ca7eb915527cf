"""Comparing systems: direction, pairing, correction, and the gate."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import turnwise as tw
from turnwise.analyses.compare import Gate


def test_the_better_system_is_called_better(two_systems: list[dict[str, Any]]) -> None:
    rows = tw.compare(two_systems, metrics=["f1"], baseline="bad").rows
    assert [(row.system, row.baseline, row.verdict) for row in rows] == [("good", "bad", "better")]
    assert rows[0].low is not None
    assert 0 < rows[0].low <= rows[0].difference <= rows[0].high  # type: ignore[operator]


def test_the_other_way_round_is_worse_by_as_much(two_systems: list[dict[str, Any]]) -> None:
    forth = tw.compare(two_systems, metrics=["f1"], baseline="bad").rows[0]
    back = tw.compare(two_systems, metrics=["f1"], baseline="good").rows[0]
    assert back.verdict == "worse"
    assert back.difference == pytest.approx(-forth.difference)  # type: ignore[operator]


def test_every_pair_is_compared_and_corrected(two_systems: list[dict[str, Any]]) -> None:
    third = [{**row, "id": row["id"] + "x", "system": "same"} for row in two_systems if row["system"] == "good"]
    result = tw.compare(two_systems + third, metrics=["f1"])
    assert [(row.system, row.baseline) for row in result.rows] == [("bad", "good"), ("same", "good"), ("same", "bad")]
    assert result.rows[1].verdict == "no difference"
    alone = tw.compare(two_systems, metrics=["f1"]).rows[0]
    assert result.rows[0].p > alone.p  # type: ignore[operator]
    assert any("Holm" in note for note in result.notes)


def test_two_files_of_one_system_are_two_versions(two_systems: list[dict[str, Any]], tmp_path: Path) -> None:
    for name in ("good", "bad"):
        rows = [{**row, "system": "bot"} for row in two_systems if row["system"] == name]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = tw.compare(tmp_path / "good.jsonl", tmp_path / "bad.jsonl", metrics=["f1"])
    assert (result.rows[0].system, result.rows[0].baseline, result.rows[0].verdict) == ("bad", "good", "worse")


def test_two_python_sources_are_told_apart() -> None:
    good = [{"response": f"yes {n}", "references": [f"yes {n}"], "context": [str(n)]} for n in range(8)]
    bad = [{**row, "response": "no"} for row in good]
    row = tw.compare(good, bad, metrics=["f1"]).rows[0]
    assert (row.system, row.baseline, row.verdict) == ("source 2", "source 1", "worse")
    scored = [tw.evaluate(source, metrics=["f1"]) for source in (good, bad)]
    assert tw.compare(*scored).rows[0].difference == row.difference


def test_systems_on_different_contexts_are_compared_unpaired() -> None:
    rows = [{"response": "a " * (10 + n % 3), "context": [f"x{n}"], "system": "long"} for n in range(20)]
    rows += [{"response": "a " * (2 + n % 3), "context": [f"y{n}"], "system": "short"} for n in range(20)]
    row = tw.compare(rows, metrics=["length"]).rows[0]
    assert row.difference == pytest.approx(-8.0)
    assert row.verdict == "different"


def test_pooled_metrics_are_compared_by_the_jackknife() -> None:
    rows = [{"response": f"word{n} thing{n} place{n}", "context": [str(n)], "system": "varied"} for n in range(30)]
    rows += [{"response": "i do not know", "context": [str(n)], "system": "dull"} for n in range(30)]
    row = tw.compare(rows, metrics=["distinct-1"], baseline="dull").rows[0]
    assert row.verdict == "better"
    assert row.difference == pytest.approx(1 - 4 / 120)


def test_the_gate_fails_only_when_the_whole_interval_lies_beyond_the_margin(two_systems: list[dict[str, Any]]) -> None:
    result = tw.compare(two_systems, metrics=["f1"], baseline="good")
    row = result.rows[0]
    assert Gate("f1", 0.0).failures(result)
    assert Gate("f1", -row.high + 1e-9).failures(result) == []  # type: ignore[operator]
    assert Gate("f1", -row.high - 1e-9).failures(result) != []  # type: ignore[operator]
    assert Gate("f1", 0.0).failures(tw.compare(two_systems, metrics=["f1"], baseline="bad")) == []


def test_a_gate_on_a_metric_without_direction_is_refused() -> None:
    with pytest.raises(tw.TurnwiseError, match="no better or worse"):
        Gate("length", 0.0).check_direction()


def test_what_could_not_be_measured_does_not_pass_the_gate(two_systems: list[dict[str, Any]]) -> None:
    blank = [{**row, "response": " "} if row["system"] == "bad" and row["id"] > "3" else row for row in two_systems]
    unscored = [{**row, "references": []} if row["system"] == "bad" else row for row in two_systems]
    for rows in (blank, unscored):
        result = tw.compare(rows, metrics=["f1"], baseline="good")
        with pytest.raises(tw.TurnwiseError, match="of the rows of bad have no score"):
            Gate("f1", 0.5).failures(result)


def test_a_system_that_left_contexts_out_does_not_pass_the_gate(two_systems: list[dict[str, Any]]) -> None:
    good = [row for row in two_systems if row["system"] == "good"]
    bad = [row for row in two_systems if row["system"] == "bad"][:4]
    result = tw.compare([*good, *bad], metrics=["f1"], baseline="good")
    assert any(f"bad left {len(good) - 4} of the {len(good)} contexts of good unanswered" in n for n in result.notes)
    with pytest.raises(tw.TurnwiseError, match="unanswered"):
        Gate("f1", 0.5).failures(result)
    # The other way round nothing is missing; and where each has contexts of its own, nothing is left out.
    assert not any("unanswered" in note for note in tw.compare([*good, *bad], metrics=["f1"], baseline="bad").notes)
    apart = [{**row, "context_id": f"elsewhere {row['context_id']}"} for row in bad]
    notes = tw.compare([*good, *apart], metrics=["f1"]).notes
    assert not any("unanswered" in note for note in notes)
    assert "bad and good share 0 contexts: compared unpaired" in notes


def test_a_gate_on_too_few_contexts_is_refused(two_systems: list[dict[str, Any]]) -> None:
    result = tw.compare(two_systems[:8], metrics=["f1"], baseline="good")
    with pytest.raises(tw.TurnwiseError, match="4 contexts in all, give at least 6"):
        Gate("f1", 0.0).failures(result)


def test_too_few_contexts_are_pointed_out(two_systems: list[dict[str, Any]]) -> None:
    result = tw.compare(two_systems[:8], metrics=["f1"], baseline="bad")
    assert result.rows[0].verdict == "no difference"
    assert any("4 contexts" in note for note in result.notes)


def test_an_unknown_baseline_names_the_systems(two_systems: list[dict[str, Any]]) -> None:
    with pytest.raises(tw.TurnwiseError, match="good, bad"):
        tw.compare(two_systems, metrics=["f1"], baseline="best")


def chats(system: str, replies: tuple[str, ...], count: int = 12, named: bool = True) -> list[dict[str, Any]]:
    """A user who says the same to every system, whatever it replies."""
    rows = []
    for number in range(count):
        messages = []
        for turn, reply in enumerate(replies):
            messages += [
                {"role": "user", "content": f"Question {turn} of visitor {number}?"},
                {"role": "assistant", "content": reply},
            ]
        rows.append({"system": system, "messages": messages} | ({"id": f"visitor {number}"} if named else {}))
    return rows


@pytest.mark.parametrize("named", [True, False])
def test_dialogues_that_part_after_the_first_turn_are_compared_whole(named: bool) -> None:
    old = chats("old", ("It is well.", "I had a long walk by the river this morning."), named=named)
    new = chats("new", ("It is good.", "no no"), named=named)
    result = tw.compare([*old, *new], metrics=["length"], baseline="old")
    row = result.rows[0]
    assert row.difference == pytest.approx((0 - 8) / 2)
    assert row.verdict == "different"
    assert (row.low, row.high) == (pytest.approx(-4), pytest.approx(-4))
    assert result.matches["new", "old"].basis == "12 dialogues"
    assert not any("unanswered" in note for note in result.notes)
    shorter = tw.compare([*old, *chats("new", ("It is good.",), named=named)], metrics=["length"], baseline="old")
    assert "new left 12 of the 24 contexts of old unanswered" in shorter.notes


def test_dialogues_that_all_open_alike_are_not_paired_by_that() -> None:
    def greeted(system: str, reply: str) -> list[dict[str, Any]]:
        spoken = [["hi", reply], ["hi", reply, "bye", reply]]
        return [
            {
                "id": f"{system}{n}",
                "system": system,
                "dialogue_id": f"{system}{n}",
                "context": said[:-1],
                "response": reply,
            }
            for n in range(8)
            for said in spoken
        ]

    result = tw.compare([*greeted("old", "hello you"), *greeted("new", "hello")], metrics=["length"])
    assert result.matches["new", "old"].unit is None
    assert result.rows[0].difference == pytest.approx(-1)


def test_what_is_drawn_together_counts_once_for_the_gate() -> None:
    rows = [
        {"system": system, "dialogue_id": f"d{n % 2}", "context": [f"q{n}"], "response": response}
        for system, response in (("old", "one two three"), ("new", "one two"))
        for n in range(20)
    ]
    result = tw.compare(rows, metrics=["distinct-1", "entropy-1"], baseline="old")
    with pytest.raises(tw.TurnwiseError, match="2 dialogues in all"):
        Gate("entropy-1", 0.0).failures(result)
    assert any("with 2 dialogues no difference can be significant" in note for note in result.notes)


def test_responses_without_a_context_are_compared_unpaired() -> None:
    rows = [
        {"id": f"{system}{n}", "system": system, "response": " ".join(["word"] * (n % 3 + more))}
        for system, more in (("old", 1), ("new", 9))
        for n in range(12)
    ]
    result = tw.compare(rows, metrics=["length"], baseline="old")
    assert result.rows[0].verdict == "different"
    assert result.matches["new", "old"].basis == "12 and 12 contexts, unpaired"
    values = tw.evaluate(rows, metrics=["length"]).systems.to_dicts()
    assert [value["low"] < value["value"] < value["high"] for value in values] == [True, True]


def test_rows_that_cannot_be_read_count_against_the_system_of_their_file(tmp_path: Path) -> None:
    def write(name: str, system: str, broken: int) -> Path:
        rows = [
            json.dumps({"system": system, "context": [f"{system} {n}"], "response": "a b", "references": ["a b"]})
            for n in range(40)
        ]
        lines = [row[:-9] if n % broken == 0 else row for n, row in enumerate(rows)]
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    old, new = write("old.jsonl", "v1", broken=100), write("new.jsonl", "v2", broken=2)
    result = tw.compare([old, new], metrics=["f1"], baseline="v1")
    assert result.unscored["v2", "f1"] == pytest.approx(0.5)
    with pytest.raises(tw.TurnwiseError, match="50% of the rows of v2 have no score"):
        Gate("f1", 0.5).failures(result)


def test_the_document_has_signatures_and_what_each_row_stands_on(two_systems: list[dict[str, Any]]) -> None:
    document = tw.compare(two_systems, metrics=["length"]).to_dict()
    assert document["signatures"] == tw.evaluate(two_systems, metrics=["length"]).signatures
    assert [(row["n"], row["basis"]) for row in document["rows"]] == [(12, "12 contexts")]
    rows = [{**row, "context_id": f"{row['context_id']} of {row['system']}"} for row in two_systems]
    unpaired = tw.compare(rows, metrics=["length"]).to_dict()["rows"]
    assert [(row["n"], row["basis"]) for row in unpaired] == [(24, "12 and 12 contexts, unpaired")]


def test_equal_ids_of_different_contexts_are_remarked(two_systems: list[dict[str, Any]]) -> None:
    assert not any("have other texts" in note for note in tw.compare(two_systems, metrics=["length"]).notes)
    other = [{**row, "context": [f"{row['context'][0]} {row['system']}"]} for row in two_systems]
    notes = tw.compare(other, metrics=["length"]).notes
    assert any("12 of the 12 contexts that bad and good share by their context_id have other texts" in n for n in notes)
    # An id may stand for a context that one of them leaves out.
    without = [{**row, "context": [] if row["system"] == "bad" else row["context"]} for row in two_systems]
    assert not any("have other texts" in note for note in tw.compare(without, metrics=["length"]).notes)


def test_contexts_that_do_not_depend_on_the_system_stay_paired_though_each_side_lacks_some() -> None:
    rng = Random(3)
    gold = [
        {"dialogue_id": f"d{d}", "context": [f"d{d} turn {n}" for n in range(t + 1)], "level": rng.randrange(1, 30)}
        for d in range(12)
        for t in range(5)
    ]
    rows = [
        {**row, "system": system, "response": " ".join(["word"] * (row["level"] + more))}
        for system, more, lacking in (("old", 1, 7), ("new", 0, 22))
        for place, row in enumerate(gold)
        if place != lacking
    ]
    result = tw.compare(rows, metrics=["length"], baseline="old")
    assert result.matches["new", "old"].unit == "context"
    assert result.rows[0].difference == pytest.approx(-1)
    assert result.rows[0].low == pytest.approx(-1)
