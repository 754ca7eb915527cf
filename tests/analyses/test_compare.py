"""Comparing systems: direction, pairing, correction, and the gate."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import turnwise as tw
from turnwise.analyses.gate import Gate


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
    assert result.rows[1].verdict == "equivalent"
    alone = tw.compare(two_systems, metrics=["f1"]).rows[0]
    assert result.rows[0].p > alone.p  # type: ignore[operator]
    assert "intervals and p hold for all 3 pairs of a metric at once" in result.notes


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
    assert Gate("fail_if_worse", "f1", 0.0).failures(result)
    assert Gate("fail_if_worse", "f1", -row.high + 1e-9).failures(result) == []  # type: ignore[operator]
    assert Gate("fail_if_worse", "f1", -row.high - 1e-9).failures(result) != []  # type: ignore[operator]
    assert Gate("fail_if_worse", "f1", 0.0).failures(tw.compare(two_systems, metrics=["f1"], baseline="bad")) == []


def test_a_gate_on_a_metric_without_direction_is_refused() -> None:
    with pytest.raises(tw.TurnwiseError, match="no better or worse"):
        Gate("fail_if_worse", "length", 0.0).check_direction()


def test_what_could_not_be_measured_does_not_pass_the_gate(two_systems: list[dict[str, Any]]) -> None:
    blank = [{**row, "response": " "} if row["system"] == "bad" and row["id"] > "3" else row for row in two_systems]
    unscored = [{**row, "references": []} if row["system"] == "bad" else row for row in two_systems]
    for rows in (blank, unscored):
        result = tw.compare(rows, metrics=["f1"], baseline="good", missing="skip")
        with pytest.raises(tw.TurnwiseError, match="of the rows of bad have no score"):
            Gate("fail_if_worse", "f1", 0.5).failures(result)


def test_a_system_that_left_contexts_out_does_not_pass_the_gate(two_systems: list[dict[str, Any]]) -> None:
    good = [row for row in two_systems if row["system"] == "good"]
    bad = [row for row in two_systems if row["system"] == "bad"][:4]
    result = tw.compare([*good, *bad], metrics=["f1"], baseline="good")
    assert any(f"bad left {len(good) - 4} of the {len(good)} contexts of good unanswered" in n for n in result.notes)
    with pytest.raises(tw.TurnwiseError, match="unanswered"):
        Gate("fail_if_worse", "f1", 0.5).failures(result)
    # The other way round nothing is missing; and where each has contexts of its own, nothing is left out.
    assert not any("unanswered" in note for note in tw.compare([*good, *bad], metrics=["f1"], baseline="bad").notes)
    apart = [{**row, "context_id": f"elsewhere {row['context_id']}"} for row in bad]
    notes = tw.compare([*good, *apart], metrics=["f1"]).notes
    assert not any("unanswered" in note for note in notes)
    assert "bad and good share 0 contexts: compared unpaired" in notes


def test_a_gate_on_too_few_contexts_is_refused(two_systems: list[dict[str, Any]]) -> None:
    result = tw.compare(two_systems[:8], metrics=["f1"], baseline="good")
    with pytest.raises(tw.TurnwiseError, match="4 contexts in all, give at least 6"):
        Gate("fail_if_worse", "f1", 0.0).failures(result)


def test_too_few_contexts_are_pointed_out(two_systems: list[dict[str, Any]]) -> None:
    result = tw.compare(two_systems[:8], metrics=["f1"], baseline="bad")
    assert result.rows[0].verdict == "not enough data"
    assert result.rows[0].low <= 0 <= result.rows[0].high  # type: ignore[operator]
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
    assert row.low < -4 < row.high < 0  # type: ignore[operator]
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
        Gate("fail_if_worse", "entropy-1", 0.0).failures(result)
    assert "2 dialogues of new and old settle nothing; give at least 6" in result.notes


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
        Gate("fail_if_worse", "f1", 0.5).failures(result)


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
    assert result.rows[0].high < 0  # type: ignore[operator]


# --- the same words open many dialogues --------------------------------------------------------------------


def greeted(system: str, opening: str, *, named: bool = True) -> list[dict[str, Any]]:
    """Dialogues of four turns that all open with `hi`; the first reply may be broken."""
    rows = []
    for d in range(60):
        for turn in range(4):
            reply = opening if turn == 0 else f"reply {turn} of dialogue {d}"
            rows.append(
                {
                    "id": f"{system} {d}.{turn}",
                    "system": system,
                    "dialogue_id": f"d{d}" if named else f"{system} d{d}",
                    "context": ["hi", *(f"user {d} {n}" for n in range(turn))],
                    "response": reply,
                    "references": [f"hello there {d}" if turn == 0 else f"reply {turn} of dialogue {d}"],
                }
            )
    return rows


@pytest.mark.parametrize("named", [True, False])
def test_broken_openings_show_though_all_open_alike(named: bool) -> None:
    old = [{**row, "response": row["references"][0]} for row in greeted("old", "", named=named)]
    new = greeted("new", "nothing", named=named)
    scored = {s["system"]: s["value"] for s in tw.evaluate([*old, *new], metrics=["f1"]).systems.to_dicts()}
    assert scored == {"old": pytest.approx(1), "new": pytest.approx(0.75)}
    row = tw.compare([*old, *new], metrics=["f1"], baseline="old").rows[0]
    assert row.difference == pytest.approx(-0.25)
    assert row.verdict == "worse"


def test_unpaired_turns_keep_their_own_clusters() -> None:
    rng = Random(1)
    replies = {n: " ".join(["word"] * rng.randrange(1, 20)) for n in range(40)}
    rows = [
        {"id": f"{s} {n}", "system": s, "dialogue_id": f"{s} {n // 2}", "context": ["hi"], "response": replies[n]}
        for s in ("old", "new")
        for n in range(40)
    ]
    found = [tw.compare(sorted(rows, key=order), metrics=["length"]).rows[0] for order in (lambda r: r["id"], id)]
    assert found[0].difference == pytest.approx(0)
    assert found[0].low < 0 < found[0].high  # type: ignore[operator]
    assert (found[0].low, found[0].high) == pytest.approx((-found[1].high, -found[1].low), abs=2)  # type: ignore[operator]


# --- every system that is named is compared ----------------------------------------------------------------


def test_a_file_without_a_usable_row_is_refused(two_systems: list[dict[str, Any]], tmp_path: Path) -> None:
    good = tmp_path / "good.jsonl"
    good.write_text("".join(json.dumps(row) + "\n" for row in two_systems))
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"response": 3}\nnothing\n')
    with pytest.raises(tw.TurnwiseError, match=r"broken\.jsonl: no row can be used"):
        tw.compare(good, broken, metrics=["f1"])
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    with pytest.raises(tw.TurnwiseError, match=r"empty\.jsonl: no row can be used"):
        tw.compare(good, empty, metrics=["f1"])


def test_a_named_system_without_a_usable_row_is_refused(two_systems: list[dict[str, Any]]) -> None:
    third = [{**row, "system": "third", "ratings": 3} for row in two_systems[:12]]
    with pytest.raises(tw.TurnwiseError, match="third: no row can be used"):
        tw.compare([*two_systems, *third], metrics=["f1"])


def test_a_candidate_that_says_nothing_fails_the_gate(two_systems: list[dict[str, Any]]) -> None:
    blank = [{**row, "response": ""} if row["system"] == "bad" else row for row in two_systems]
    result = tw.compare(blank, metrics=["f1"], baseline="good", fail_if_worse=["f1@0.3"])
    assert result.failed["bad"].rate.value == 1
    assert result.rows[0].verdict == "worse"
    assert result.failures()


# --- failures and tails ------------------------------------------------------------------------------------


def broken(count: int, reply: str) -> list[dict[str, Any]]:
    """Two systems on 36 contexts that are as good as each other, but for some replies of the new one."""
    rng = Random(7)
    rows = []
    for n in range(36):
        words = [f"w{rng.randrange(12)}" for _ in range(8)]
        for system in ("old", "new"):
            said = " ".join(word if rng.random() < 0.85 else "um" for word in words)
            rows.append(
                {
                    "id": f"{system} {n}",
                    "system": system,
                    "context": [f"question {n}"],
                    "response": reply if system == "new" and n < count else said,
                    "references": [" ".join(words)],
                }
            )
    return rows


def test_empty_replies_are_failures_and_not_holes() -> None:
    rows = broken(3, "")
    result = tw.compare(rows, metrics=["f1"], baseline="old", fail_if_failures=0.05)
    failed = result.failed["new"]
    assert (failed.rate.count, failed.rate.n, failed.ids) == (3, 36, ("new 0", "new 1", "new 2"))
    assert failed.rate.low < 3 / 36 < failed.rate.high
    assert result.rows[0].n == 36
    assert "new gave no reply to 3 of 36: each counts as the worst reply" in result.notes
    assert len(result.failures()) == 1
    skipped = tw.compare(rows, metrics=["f1"], baseline="old", missing="skip")
    assert skipped.rows[0].n == 33
    assert skipped.rows[0].difference > result.rows[0].difference  # type: ignore[operator]
    # A row that is not there is as silent as a blank one.
    absent = tw.compare([row for row in rows if row["response"]], metrics=["f1"], baseline="old", fail_if_failures=0.05)
    assert absent.failed["new"].rate == failed.rate
    assert absent.rows[0].difference == pytest.approx(result.rows[0].difference)
    assert absent.failures()
    assert not tw.compare(broken(0, ""), metrics=["f1"], baseline="old", fail_if_failures=0.0).failures()


def test_a_failure_is_as_bad_as_the_worst_reply_of_the_run() -> None:
    rows = broken(3, "")
    found = {row.metric: row for row in tw.compare(rows, metrics=["f1", "length"], baseline="old").rows}
    # Length has no direction: only the failure rate speaks of what was not said.
    assert (found["f1"].n, found["length"].n) == (36, 33)


def test_four_broken_replies_fail_the_gate_on_tails() -> None:
    result = tw.compare(broken(4, "xq zzkw"), metrics=["f1"], baseline="old", fail_if_worst=["f1@0.05"])
    tail = result.rows[0].tail
    assert tail is not None
    assert (tail.clearly_worse, tail.clearly_better, tail.n) == (4, 0, 36)
    assert set(result.rows[0].dropped) == {f"new {n}" for n in range(4)}
    (line,) = result.failures()
    assert "4 of 36 replies of new are clearly worse" in line
    assert not tw.compare(broken(0, ""), metrics=["f1"], baseline="old", fail_if_worst=["f1@0.05"]).failures()
    apart = [{**row, "context": [f"{row['system']} {row['context'][0]}"]} for row in broken(4, "xq")]
    with pytest.raises(tw.TurnwiseError, match="cannot be compared reply by reply"):
        tw.compare(apart, metrics=["f1"], baseline="old", fail_if_worst=["f1@0.05"]).failures()


def test_as_good_must_be_shown() -> None:
    rows = broken(0, "")
    few = [row for row in rows if int(row["id"].split()[1]) < 8]
    for given, margin, fails in ((rows, 0.2, 0), (few, 0.02, 1)):
        result = tw.compare(given, metrics=["f1"], baseline="old", fail_unless_as_good=[f"f1@{margin}"])
        assert len(result.failures()) == fails
    assert (
        tw.compare(rows, metrics=["f1"], baseline="old", fail_unless_as_good=["f1@0.2"]).rows[0].verdict == "equivalent"
    )
    same = [{**row, "response": row["references"][0]} for row in rows]
    assert not tw.compare(same, metrics=["f1"], baseline="old", fail_unless_as_good=["f1@0.001"]).failures()


def test_a_gates_metrics_are_one_family() -> None:
    rows = broken(4, "xq zzkw")
    options: dict[str, Any] = {"metrics": ["f1", "rouge-l"], "baseline": "old"}
    alone = tw.compare(rows, fail_if_worse=["f1@0.01"], **options).rows
    together = tw.compare(rows, fail_if_worse=["f1@0.01", "rouge-l@0.01"], **options).rows
    assert together[0].low < alone[0].low  # type: ignore[operator]
    assert alone[0].p < together[0].p  # type: ignore[operator]


def test_a_blank_row_without_a_system_makes_no_system_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    rows = [
        {"context": [f"q{i}"], "response": "a " * (i % 3 + n), "system": s}
        for i in range(8)
        for n, s in ((2, "a"), (5, "b"))
    ]
    path.write_text("\n".join(json.dumps(row) for row in [*rows, {"context": ["x"], "reply": "hi"}]))
    comparison = tw.compare(path, metrics="length")
    assert [(row.system, row.baseline) for row in comparison.rows] == [("b", "a")]
    assert comparison.failed == {}
