"""Native rows: everything the interface promises, and one clear line for everything that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwise.dialogue import Example, Row, is_blank
from turnwise.io.native import MAX_RESPONSE
from turnwise.io.read import describe, read_rows
from turnwise.io.write import example_to_dict
from turnwise.problems import Problem

# Any character that UTF-8 can carry: everything but lone surrogates.
CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXT = st.text(CHARACTERS, max_size=20)
SPOKEN = TEXT.filter(lambda text: not is_blank(text))
NAME = st.text(CHARACTERS, min_size=1, max_size=8)
RATING = st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 5).map(float)


@st.composite
def examples(draw: st.DrawFn) -> Example:
    context = draw(st.lists(TEXT, max_size=4))
    raters = draw(st.lists(NAME, max_size=3))
    width = len(raters) or draw(st.integers(0, 3))
    scores = st.lists(RATING, min_size=width, max_size=width).map(tuple)
    turns = len(context) + 1
    return Example(
        response=draw(SPOKEN),
        context=tuple(context),
        references=tuple(draw(st.lists(TEXT, max_size=2))),
        facts=tuple(draw(st.lists(SPOKEN, max_size=2))),
        id=draw(NAME),
        system=draw(NAME),
        context_id=draw(st.none() | NAME),
        dialogue_id=draw(st.none() | NAME),
        group=draw(st.none() | NAME),
        speakers=tuple(draw(st.just([]) | st.lists(NAME, min_size=turns, max_size=turns))),
        ratings=draw(st.dictionaries(NAME, scores, max_size=3)),
        raters=tuple(raters),
        rated=draw(st.sampled_from(["turn", "dialogue"])),
    )


@given(st.lists(examples(), min_size=1, max_size=4, unique_by=lambda e: (e.system, e.id)), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
def test_any_example_comes_back_equal_from_a_file(tmp_path: Path, written: list[Example], ascii_only: bool) -> None:
    file = tmp_path / "examples.jsonl"
    lines = [json.dumps(example_to_dict(example), ensure_ascii=ascii_only) for example in written]
    file.write_bytes("\n".join(lines).encode())
    rows = list(read_rows(file))
    assert [row.example for row in rows] == written
    assert [(row.id, row.line) for row in rows] == [(e.id, n) for n, e in enumerate(written, 1)]


@given(st.lists(examples(), min_size=1, max_size=4, unique_by=lambda e: (e.system, e.id)))
@settings(deadline=None, max_examples=50)
def test_examples_come_back_equal_from_python(written: list[Example]) -> None:
    assert [row.example for row in read_rows(written)] == written
    assert [row.example for row in read_rows([example_to_dict(e) for e in written])] == written


def read_one(row: dict[str, Any]) -> Row:
    rows = list(read_rows([row]))
    assert len(rows) == 1
    return rows[0]


def example(**fields: Any) -> Example:
    row = read_one({"response": "Fine.", **fields})
    assert row.error is None, row.error
    assert row.example is not None
    return row.example


def test_the_row_of_the_interface() -> None:
    row = {
        "id": "1",
        "context": ["Hi!", "Hello, how are you?"],
        "response": "Great, thanks.",
        "references": ["Good."],
        "facts": ["It is Monday."],
        "system": "bot-a",
        "context_id": "c1",
        "dialogue_id": "d7",
        "group": "g3",
        "speakers": ["A", "B", "A"],
        "ratings": {"Overall": [4, 5, None]},
        "raters": ["r1", "r2", "r3"],
    }
    assert read_one(row).example == Example(
        response="Great, thanks.",
        context=("Hi!", "Hello, how are you?"),
        references=("Good.",),
        facts=("It is Monday.",),
        id="1",
        system="bot-a",
        context_id="c1",
        dialogue_id="d7",
        group="g3",
        speakers=("A", "B", "A"),
        ratings={"Overall": (4.0, 5.0, None)},
        raters=("r1", "r2", "r3"),
    )


def test_aliases_and_short_forms() -> None:
    found = example(
        context="Hi!", reference="Good.", fact="A fact.", annotators=["x"], group_id=3, ratings={"Overall": 4}
    )
    assert found.context == ("Hi!",)
    assert found.references == ("Good.",)
    assert found.facts == ("A fact.",)
    assert found.raters == ("x",)
    assert found.group == "3"
    assert found.ratings == {"Overall": (4.0,)}


@pytest.mark.parametrize("blank", ["", " ", [""], [" ", "\u200b"]])
def test_a_blank_fact_is_none(blank: str | list[str]) -> None:
    assert example(facts=blank).facts == example(fact=blank).facts == ()
    assert example(facts=["A fact.", ""]).facts == ("A fact.",)


def test_the_full_name_wins_over_its_alias() -> None:
    assert example(references=["a"], reference="b").references == ("a",)


def test_null_and_unknown_fields_are_as_good_as_absent() -> None:
    nothing = dict.fromkeys(
        ("id", "context", "references", "facts", "system", "context_id", "group", "speakers", "ratings", "raters")
    )
    assert example(**nothing, colour="blue") == Example("Fine.", id="row:1", system="system")


def test_a_row_without_id_and_system_takes_them_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "bot-1.2.jsonl"
    file.write_text('\n{"response": "a"}\n\n{"response": "b", "id": 7}\n')
    rows = list(read_rows(file))
    assert [(row.id, row.line) for row in rows] == [("bot-1.2:2", 2), ("7", 4)]
    assert {row.example.system for row in rows if row.example} == {"bot-1.2"}
    assert {row.file for row in rows} == {str(file)}


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"context": ["Hi!"]}, "response", "response.missing"),
    ({"response": None}, "response", "text.type"),
    ({"response": 4}, "response", "text.type"),
    ({"response": ["Hi"]}, "response", "text.type"),
    ({"response": ""}, "response", "response.blank"),
    ({"response": " \n\u3000"}, "response", "response.blank"),
    ({"response": "\u200b\ufeff \u00ad"}, "response", "response.blank"),
    ({"response": "\u2800"}, "response", "response.blank"),
    ({"response": "x" * (MAX_RESPONSE + 1)}, "response", "response.long"),
    ({"response": "a\ud800b"}, "response", "text.surrogate"),
    ({"response": "a", "context": ["ok", "\udfff"]}, "context[1]", "text.surrogate"),
    ({"response": "a", "context": 3}, "context", "texts.type"),
    ({"response": "a", "context": {"a": 1}}, "context", "texts.type"),
    ({"response": "a", "context": ["a", None]}, "context[1]", "text.type"),
    ({"response": "a", "references": [1]}, "references[0]", "text.type"),
    ({"response": "a", "facts": [["x"]]}, "facts[0]", "text.type"),
    ({"response": "a", "id": ["x"]}, "id", "name.type"),
    ({"response": "a", "system": True}, "system", "name.type"),
    ({"response": "a", "context_id": 1.5}, "context_id", "name.type"),
    ({"response": "a", "context": ["b"], "speakers": ["A"]}, "speakers", "speakers.count"),
    ({"response": "a", "speakers": "A"}, "speakers", "names.type"),
    ({"response": "a", "raters": ["r1", None]}, "raters[1]", "name.missing"),
    ({"response": "a", "ratings": [4]}, "ratings", "ratings.type"),
    ({"response": "a", "ratings": {"Overall": "4"}}, "ratings.Overall", "rating.type"),
    ({"response": "a", "ratings": {"Overall": [4, float("nan")]}}, "ratings.Overall", "rating.finite"),
    ({"response": "a", "ratings": {"Overall": [float("inf")]}}, "ratings.Overall", "rating.finite"),
    ({"response": "a", "ratings": {"Overall": 10**400}}, "ratings.Overall", "rating.finite"),
    ({"response": "a", "ratings": {"Overall": True}}, "ratings.Overall", "rating.type"),
    (
        {"response": "a", "ratings": {"Overall": [4, 5]}, "raters": ["r1"]},
        "ratings.Overall",
        "ratings.count",
    ),
    ({"response": "a", "rated": "sometimes"}, "rated", "rated.unknown"),
]


@pytest.mark.parametrize(("row", "place", "code"), FAULTS)
def test_every_fault_is_one_clear_line_and_the_stream_goes_on(row: dict[str, Any], place: str, code: str) -> None:
    bad, good = read_rows([row, {"response": "Fine."}])
    assert bad.example is None
    assert bad.error is not None
    assert (bad.error.place, bad.error.code) == (place, code)
    assert len(str(bad.error)) < 200
    assert str(describe(bad)) == f"<python>:1: {bad.error}"
    assert "\n" not in str(describe(bad))
    assert good.example is not None


def test_a_missing_rating_has_its_remedy_spelled_out() -> None:
    error = read_one({"response": "a", "ratings": {"Overall": ["n/a"]}}).error
    found = "ratings.Overall: expected a number, got text ('n/a'). Fix: write a number, or null for a missing rating."
    assert str(error) == found


def test_a_faulty_row_keeps_its_id() -> None:
    assert read_one({"id": "x7"}).id == "x7"
    assert read_one({"id": {}}).id == "row:1"


def test_the_longest_response_is_accepted() -> None:
    assert read_one({"response": "x" * MAX_RESPONSE}).example is not None


def test_ids_may_repeat_between_systems_but_not_within_one() -> None:
    same = {"id": "1", "response": "a"}
    rows = list(read_rows([{**same, "system": "A"}, {**same, "system": "B"}, {**same, "system": "A"}]))
    assert [row.error is None for row in rows] == [True, True, False]
    assert rows[2].error == Problem.of("id.repeated", "id", id="'1'", system="'A'")
