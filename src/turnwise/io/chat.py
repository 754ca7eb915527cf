"""Whole conversations as chat messages: every assistant message becomes an example.

System, developer and tool messages are instructions and machinery, not turns, so they are left out; so is an
assistant message that only calls a tool, and so are blank messages. Of a message made of parts, the text
parts count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnwise.dialogue import Example, is_blank
from turnwise.io.native import checked_response, checked_text, facts_of, name, names, ratings_of, texts
from turnwise.io.problem import Unreadable, kind, shown
from turnwise.problems import Problem

NOT_TURNS = frozenset({"system", "developer", "tool", "function"})
SPEAKERS = frozenset({"user", "assistant"})
TEXT_PARTS = frozenset({"text", "input_text", "output_text"})


def is_chat(row: Mapping[str, Any]) -> bool:
    """Whether a row is a whole conversation rather than one response."""
    return row.get("messages") is not None and row.get("response") is None


def chat_examples(
    row: Mapping[str, Any], default_id: str, default_system: str
) -> Iterator[tuple[str, Example | Problem]]:
    """Each assistant message that has something before it, under its id; ratings are the whole dialogue's."""
    row_id = name(row.get("id"), "id") or default_id
    raters = names(row.get("raters") or row.get("annotators"), "raters")
    shared: dict[str, Any] = {
        "facts": facts_of(row.get("facts") or row.get("fact")),
        "system": name(row.get("system"), "system") or default_system,
        "dialogue_id": name(row.get("dialogue_id"), "dialogue_id") or row_id,
        "group": name(row.get("group") or row.get("group_id"), "group"),
        "ratings": ratings_of(row.get("ratings"), raters),
        "raters": raters,
        "rated": "dialogue",
    }
    speakers, spoken, nothing = list[str](), list[str](), True
    for index, (position, role, text) in enumerate(_turns(row["messages"])):
        if role == "assistant" and spoken:
            nothing = False
            turn_id = f"{row_id}:{index}"
            try:
                response = checked_response(text, f"messages[{position}].content")
            except Unreadable as fault:
                yield turn_id, fault.problem
            else:
                everybody = (*speakers, role)
                yield turn_id, Example(response, tuple(spoken), id=turn_id, speakers=everybody, **shared)
        if not is_blank(text):
            speakers.append(role)
            spoken.append(text)
    if nothing:
        raise Unreadable.of("messages.empty", "messages")


def _turns(messages: object) -> Iterator[tuple[int, str, str]]:
    """Position, role and text of the messages that are turns."""
    if not isinstance(messages, list | tuple):
        raise Unreadable.of("messages.type", "messages", kind=kind(messages))
    for position, message in enumerate(messages):
        field = f"messages[{position}]"
        if not isinstance(message, Mapping):
            raise Unreadable.of("message.type", field, kind=kind(message))
        role, content = message.get("role"), message.get("content")
        # An assistant message without content calls a tool: nobody hears it, so it is no turn.
        known = role if isinstance(role, str) else ""
        if known in NOT_TURNS or (role == "assistant" and content is None):
            continue
        if known not in SPEAKERS:
            raise Unreadable.of("message.role", f"{field}.role", got=shown(role))
        yield position, str(role), _content(content, f"{field}.content")


def _content(content: object, field: str) -> str:
    if isinstance(content, str):
        return checked_text(content, field)
    if not isinstance(content, list | tuple):
        raise Unreadable.of("text.type", field, kind=kind(content))
    found: list[str] = []
    for position, part in enumerate(content):
        if not isinstance(part, Mapping):
            raise Unreadable.of("message.part", f"{field}[{position}]", kind=kind(part))
        if isinstance(part.get("type"), str) and part["type"] in TEXT_PARTS:
            found.extend(texts([part.get("text")], f"{field}[{position}].text"))
    return "\n".join(found)
