"""Agreement through the verb: slots and raters are told apart."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw


def value(result: Any, method: str) -> Any:
    return next(row for row in result.rows if row.method == method).value


def written(file: Path, rows: Iterable[Mapping[str, Any]]) -> str:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def test_perfect_agreement_is_one() -> None:
    rows = [{"response": "x", "ratings": {"Overall": [n % 5, n % 5]}, "raters": ["a", "b"]} for n in range(10)]
    result = tw.agreement(rows)
    for method in ("slot-pairs-spearman", "rater-pairs-pearson", "kappa", "alpha-ordinal"):
        assert value(result, method) == pytest.approx(1.0)


def test_raters_go_by_name_not_by_slot() -> None:
    # Two people with opposite tastes who swap slots halfway: the slots look noisy, the people look opposed.
    rows = []
    for number in range(20):
        pair = [("a", number % 5), ("b", 4 - number % 5)]
        order = pair if number < 10 else pair[::-1]
        rows.append(
            {"response": "x", "ratings": {"Overall": [r for _, r in order]}, "raters": [name for name, _ in order]}
        )
    assert value(tw.agreement(rows), "rater-pairs-pearson") == pytest.approx(-1.0)


def test_a_dialogue_rating_counts_once() -> None:
    messages = [
        {"role": role, "content": "hi"} for role in ("user", "assistant", "user", "assistant", "user", "assistant")
    ]
    rows = [{"messages": messages, "id": str(n), "ratings": {"Overall": [n % 4, n % 3]}} for n in range(8)]
    assert tw.agreement(rows).rows[0].n_items == 8


def test_one_rating_per_item_is_not_enough() -> None:
    with pytest.raises(tw.TurnwiseError, match="needs two raters"):
        tw.agreement([{"response": "x", "ratings": {"Overall": [3]}}] * 1)


def test_raters_who_share_one_item_say_nothing_of_chance() -> None:
    rows = [
        {"id": str(n), "response": "x", "ratings": {"Q": [1 + n % 3, 1 + n % 2]}, "raters": [f"a{n}", f"b{n}"]}
        for n in range(10)
    ]
    assert value(tw.agreement(rows), "kappa") is None
    assert value(tw.agreement(rows), "alpha-nominal") is not None


def test_the_reason_why_there_are_no_ratings_is_given() -> None:
    with pytest.raises(tw.TurnwiseError, match=r"ratings\.Q: expected a finite number"):
        tw.agreement([{"response": "x", "ratings": {"Q": [float("nan"), 3]}}])
    with pytest.raises(tw.TurnwiseError, match="at most one rating"):
        tw.agreement([{"response": "x", "ratings": {"Q": [2, None, None]}}] * 3)


def test_each_file_has_raters_and_dialogues_of_its_own(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    shared = {"messages": said, "system": "bot"}
    alike = [{**shared, "dialogue_id": str(n), "ratings": {"Q": [n, n]}, "raters": ["a", "b"]} for n in range(5)]
    apart = [{**shared, "dialogue_id": str(n), "ratings": {"Q": [n, 5 - n]}, "raters": ["a", "b"]} for n in range(4)]
    result = tw.agreement([written(tmp_path / "alike.jsonl", alike), written(tmp_path / "apart.jsonl", apart)])
    found = [(row.corpus, row.n_items, row.value) for row in result.rows if row.method == "rater-pairs-pearson"]
    assert found == [("alike", 5, pytest.approx(1.0)), ("apart", 4, pytest.approx(-1.0))]


def test_a_row_that_does_not_name_its_raters_is_said_to_change_the_method() -> None:
    rows: list[dict[str, Any]] = [
        {"id": str(n), "response": "x", "ratings": {"Q": [n % 3, n % 5]}, "raters": ["a", "b"]} for n in range(9)
    ]
    assert tw.agreement(rows).notes == []
    del rows[4]["raters"]
    result = tw.agreement(rows)
    assert not any(row.method.startswith("rater-pairs") for row in result.rows)
    assert len(result.notes) == 1
    assert "1 of 9 rows with ratings of Q has no raters" in result.notes[0]


def test_a_rater_named_twice_counts_as_two_and_is_said(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "id": str(n),
            "context": [f"question {n}"],
            "response": "x " * (n % 4 + 1),
            "ratings": {"Overall": [n % 3, n % 5]},
        }
        for n in range(12)
    ]
    for row in rows:
        row["raters"] = ["r1", "r1" if row["id"] == "5" else "r2"]
    file = written(tmp_path / "rated.jsonl", rows)
    said = f"1 row with a rater named twice, first {file}:6 (r1): the later rating counts as one of r1 (2)"
    result = tw.agreement(file)
    assert {row.n_raters for row in result.rows if not row.method.startswith("slot-pairs")} == {3}
    assert any(said in note for note in result.notes)
    assert any(said in note for note in tw.fit(file, metrics="length", per_rater=True).notes)


def test_pairs_that_say_nothing_are_counted() -> None:
    rows = [
        {"id": str(n), "response": "x", "ratings": {"Q": [n % 3, n % 4, 2]}, "raters": ["a", "b", "same"]}
        for n in range(12)
    ]
    notes = tw.agreement(rows).notes
    assert any("Q: 2 of 3 pairs left out of slot-pairs-pearson" in note for note in notes)
    assert any("Q: 1 of 3 raters left out of leave-one-out-mean-pearson" in note for note in notes)


def test_ratings_of_dialogues_without_a_name_are_each_counted() -> None:
    rows = [{"response": "a", "rated": "dialogue", "ratings": {"Overall": [n, n + n % 2]}} for n in range(1, 5)]
    assert {row.n_items for row in tw.agreement(rows).rows} == {4}
