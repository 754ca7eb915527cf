"""Whole conversations: which messages become examples, and what each one carries."""

from __future__ import annotations

from typing import Any

import pytest

from turnwise.dialogue import Example, Row
from turnwise.io.read import read_rows
from turnwise.problems import Problem


def say(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def chat(*messages: Any, **fields: Any) -> list[Row]:
    return list(read_rows([{"messages": list(messages), **fields}]))


def test_each_reply_becomes_an_example_with_the_dialogues_ratings() -> None:
    rows = chat(
        say("system", "You are kind."),
        say("user", "Hi!"),
        say("assistant", "Hello."),
        say("user", "How are you?"),
        say("assistant", "Fine."),
        id="d1",
        system="bot-a",
        ratings={"Overall": [4, None]},
        raters=["r1", "r2"],
        facts="It is kind.",
        group="g",
    )
    shared: dict[str, Any] = {
        "system": "bot-a",
        "dialogue_id": "d1",
        "ratings": {"Overall": (4.0, None)},
        "raters": ("r1", "r2"),
        "facts": ("It is kind.",),
        "group": "g",
        "rated": "dialogue",
    }
    assert [row.example for row in rows] == [
        Example("Hello.", ("Hi!",), id="d1:1", speakers=("user", "assistant"), **shared),
        Example(
            "Fine.",
            ("Hi!", "Hello.", "How are you?"),
            id="d1:3",
            speakers=("user", "assistant", "user", "assistant"),
            **shared,
        ),
    ]
    assert [row.line for row in rows] == [1, 1]


def test_an_opening_reply_is_context_only() -> None:
    (row,) = chat(say("assistant", "Welcome!"), say("user", "Hi!"), say("assistant", "Hello."))
    assert row.example is not None
    assert row.example.context == ("Welcome!", "Hi!")
    assert row.id == "row:1:2"


@pytest.mark.parametrize(
    ("fields", "row_id", "dialogue_id"),
    [
        ({}, "row:1:1", "row:1"),
        ({"id": "x"}, "x:1", "x"),
        ({"id": "x", "dialogue_id": "d"}, "x:1", "d"),
        ({"dialogue_id": "d"}, "row:1:1", "d"),
    ],
)
def test_ids(fields: dict[str, str], row_id: str, dialogue_id: str) -> None:
    (row,) = chat(say("user", "Hi!"), say("assistant", "Hello."), **fields)
    assert row.example is not None
    assert (row.id, row.example.id, row.example.dialogue_id) == (row_id, row_id, dialogue_id)


def test_machinery_is_not_a_turn() -> None:
    rows = chat(
        say("developer", "Be brief."),
        say("user", "What time is it?"),
        say("assistant", None, tool_calls=[{"id": "1"}]),
        say("tool", "12:00"),
        say("assistant", "Noon."),
    )
    assert [row.example.context for row in rows if row.example] == [("What time is it?",)]


def test_content_in_parts() -> None:
    parts = [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "x"}}]
    (row,) = chat(say("user", parts), say("assistant", [{"type": "text", "text": "A cat."}]))
    assert row.example is not None
    assert (row.example.context, row.example.response) == (("Look:",), "A cat.")


def test_a_blank_reply_costs_that_reply_only() -> None:
    rows = chat(say("user", "Hi!"), say("assistant", " "), say("user", "Well?"), say("assistant", "Hello."), id="d")
    assert [(row.id, row.error is None) for row in rows] == [("d:1", False), ("d:3", True)]
    assert rows[0].error == Problem.of("response.blank", "messages[1].content")
    assert rows[1].example is not None
    assert rows[1].example.context == ("Hi!", "Well?")


@pytest.mark.parametrize(
    ("messages", "place", "code"),
    [
        ("hi", "messages", "messages.type"),
        ([], "messages", "messages.empty"),
        ([say("user", "Hi!")], "messages", "messages.empty"),
        ([say("assistant", "Hi!")], "messages", "messages.empty"),
        (["hi"], "messages[0]", "message.type"),
        ([say("bot", "hi")], "messages[0].role", "message.role"),
        ([{"role": ["user"], "content": "Hi!"}], "messages[0].role", "message.role"),
        ([{"role": {"a": 1}, "content": "Hi!"}], "messages[0].role", "message.role"),
        ([say("user", [{"type": ["text"], "text": "a"}])], "messages", "messages.empty"),
        ([say("user", 3)], "messages[0].content", "text.type"),
        ([say("user", None)], "messages[0].content", "text.type"),
        ([say("user", [3])], "messages[0].content[0]", "message.part"),
        ([say("user", [{"type": "text"}])], "messages[0].content[0].text[0]", "text.type"),
        ([say("user", "a\ud800")], "messages[0].content", "text.surrogate"),
    ],
)
def test_faults(messages: Any, place: str, code: str) -> None:
    bad, good = read_rows([{"messages": messages}, {"response": "a"}])
    assert bad.error is not None
    assert (bad.error.place, bad.error.code) == (place, code)
    assert good.error is None


def test_a_response_beside_messages_is_what_is_judged() -> None:
    (row,) = read_rows([{"messages": [say("user", "Hi!")], "response": "Hello.", "context": ["Hi!"]}])
    assert row.example is not None
    assert row.example.response == "Hello."
