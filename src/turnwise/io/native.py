"""The native row format: one mapping of fields, or one whole chat, to checked `Example`s.

Of a chat, every assistant message becomes an example. System, developer and tool messages are instructions and
machinery, not turns, so they are left out. So are assistant messages that only call a tool, and blank messages. Of a
message made of parts, the text parts count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from turnwise.dialogue import NO_RATINGS, Example, Ratings, is_blank
from turnwise.errors import TurnwiseError
from turnwise.io.base import Records, Unreadable, kind, shown
from turnwise.io.json_text import not_an_object
from turnwise.io.write import example_to_dict
from turnwise.problems import Problem, counted

# Longer than any real reply; a longer one is a broken export, and would stall a model.
MAX_RESPONSE = 100_000

ALIASES = {"reference": "references", "fact": "facts", "annotators": "raters", "group_id": "group"}
FIELDS = (
    *("id", "context", "response", "references", "facts", "system", "context_id", "dialogue_id", "group"),
    *("speakers", "ratings", "raters", "rated", "messages"),
)
KNOWN = dict.fromkeys((*FIELDS, *ALIASES))
# Roles of chat messages that are no turns.
NOT_TURNS = frozenset({"system", "developer", "tool", "function"})
SPEAKERS = frozenset({"user", "assistant"})
TEXT_PARTS = frozenset({"text", "input_text", "output_text"})


def unlisted(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a row that are none of ours, if there are any.

    >>> unlisted({"response": "Hi.", "cost": 3}), unlisted({"response": "Hi."})
    ({'cost': 3}, None)
    """
    return None if row.keys() <= KNOWN.keys() else {key: value for key, value in row.items() if key not in KNOWN}


def example_from(row: Mapping[str, Any], default_id: str, default_system: str) -> Example:
    """Return the example that a row describes, or raise `Unreadable`. Unknown fields are ignored."""
    get = row.get
    context = texts(get("context"), "context")
    return Example(
        response=_response(row),
        context=context,
        references=texts(_either(row, "references", "reference"), "references"),
        id=name(get("id"), "id") or default_id,
        context_id=name(get("context_id"), "context_id"),
        dialogue_id=name(get("dialogue_id"), "dialogue_id"),
        speakers=_speakers(get("speakers"), len(context) + 1),
        rated=_rated(get("rated")),
        **_shared(row, default_system),
    )


def _shared(row: Mapping[str, Any], default_system: str) -> dict[str, Any]:
    """Return the fields that one response and a whole chat have alike."""
    raters = names(_either(row, "raters", "annotators"), "raters")
    return {
        "facts": facts_of(_either(row, "facts", "fact")),
        "system": name(row.get("system"), "system") or default_system,
        "group": name(_either(row, "group", "group_id"), "group"),
        "ratings": ratings_of(row.get("ratings"), raters),
        "raters": raters,
    }


def row_id(row: object, default_id: str) -> str:
    """Return the id to report a row under when the row itself cannot be used."""
    try:
        return (name(row.get("id"), "id") if isinstance(row, Mapping) else None) or default_id
    except Unreadable:
        return default_id


def checked_text(text: str, field: str) -> str:
    """Return the text, if it can be written out again as UTF-8."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as problem:
            code = ord(text[problem.start])
            # Where a reader has to pass bad bytes on, they come as U+DC80 to U+DCFF.
            byte = f" or a byte that is not UTF-8 (0x{code - 0xDC00:02x})" if 0xDC80 <= code <= 0xDCFF else ""
            at = problem.start + 1
            raise Unreadable.of("text.surrogate", field, value=f"{code:04X}", byte=byte, at=at) from None
    return text


def checked_response(text: object, field: str = "response") -> str:
    """Return the text to judge: neither blank nor endless."""
    if not isinstance(text, str):
        raise Unreadable.of("text.type", field, kind=kind(text))
    if is_blank(text):
        raise Unreadable.of("response.blank", field)
    if len(text) > MAX_RESPONSE:
        raise Unreadable.of("response.long", field, most=MAX_RESPONSE, length=len(text))
    return checked_text(text, field)


def texts(value: object, field: str) -> tuple[str, ...]:
    """Return a list of texts; one string stands for a list of one, null and "" for none."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (checked_text(value, field),) if value else ()
    if not isinstance(value, list | tuple):
        raise Unreadable.of("texts.type", field, kind=kind(value))
    for position, text in enumerate(value):
        if not isinstance(text, str):
            raise Unreadable.of("text.type", f"{field}[{position}]", kind=kind(text))
        if not text.isascii():
            checked_text(text, f"{field}[{position}]")
    return tuple(value)


def facts_of(value: object) -> tuple[str, ...]:
    """Return the facts that say something; a blank one is none."""
    return tuple(fact for fact in texts(value, "facts") if not is_blank(fact))


def name(value: object, field: str) -> str | None:
    """Return an identifier: text, or a whole number as tables often have; null and "" mean that there is none."""
    if value is None:
        return None
    if isinstance(value, str):
        return checked_text(value, field) or None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise Unreadable.of("name.type", field, kind=kind(value))


def names(value: object, field: str) -> tuple[str, ...]:
    """Return a list of identifiers."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise Unreadable.of("names.type", field, kind=kind(value))
    found = [name(item, f"{field}[{position}]") for position, item in enumerate(value)]
    if None in found:
        raise Unreadable.of("name.missing", f"{field}[{found.index(None)}]")
    return tuple(item for item in found if item is not None)


def ratings_of(value: object, raters: tuple[str, ...]) -> Ratings:
    """Ratings by quality, each list aligned with the raters; a bare number is a list of one."""
    if value is None:
        return NO_RATINGS
    if not isinstance(value, Mapping):
        raise Unreadable.of("ratings.type", "ratings", kind=kind(value))
    given = {}
    for quality, scores in value.items():
        if scores is None:
            continue
        quality = checked_text(str(quality), "ratings")
        listed = scores if isinstance(scores, list | tuple) else (scores,)
        given[quality] = tuple([None if score is None else _rating(score, quality) for score in listed])
        if raters and len(listed) != len(raters):
            wanted, found = counted(len(raters), "rating"), counted(len(listed), "rating")
            raise Unreadable.of("ratings.count", f"ratings.{quality}", raters=wanted, ratings=found)
    return given


def _rating(score: object, quality: str) -> float:
    if type(score) is int or type(score) is float:
        try:
            number = float(score)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
        raise Unreadable.of("rating.finite", f"ratings.{quality}", got=number)
    raise Unreadable.of("rating.type", f"ratings.{quality}", kind=kind(score), got=shown(score))


def _response(row: Mapping[str, Any]) -> str:
    if "response" not in row:
        raise Unreadable.of("response.missing", "response")
    return checked_response(row["response"])


def _speakers(value: object, turns: int) -> tuple[str, ...]:
    speakers = names(value, "speakers")
    if speakers and len(speakers) != turns:
        wanted, found = counted(turns, "name"), counted(len(speakers), "name")
        raise Unreadable.of("speakers.count", "speakers", turns=wanted, names=found)
    return speakers


def _rated(value: object) -> Literal["turn", "dialogue"]:
    if value is None or value == "turn":
        return "turn"
    if value == "dialogue":
        return "dialogue"
    raise Unreadable.of("rated.unknown", "rated", got=shown(value))


def _either(row: Mapping[str, Any], field: str, alias: str) -> Any:
    value = row.get(field)
    return row.get(alias) if value is None else value


def is_chat(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a whole conversation rather than one response."""
    return row.get("messages") is not None and row.get("response") is None


def chat_examples(
    row: Mapping[str, Any], default_id: str, default_system: str
) -> Iterator[tuple[str, Example | Problem]]:
    """Yield each assistant message that has something before it, under its id; ratings are the whole dialogue's."""
    row_id = name(row.get("id"), "id") or default_id
    shared = {"dialogue_id": name(row.get("dialogue_id"), "dialogue_id") or row_id, **_shared(row, default_system)}
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
                yield (
                    turn_id,
                    Example(response, tuple(spoken), id=turn_id, speakers=everybody, rated="dialogue", **shared),
                )
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


def object_records(data: object) -> Records:
    """Yield the rows of a list or any other iterable of dicts and Examples, or of a single one."""
    if isinstance(data, Mapping | Example):
        data = [data]
    if not isinstance(data, Iterable) or (isinstance(data, Sequence) and not data):
        found = "an empty list" if isinstance(data, Sequence) else f"a value of type {type(data).__name__}"
        raise TurnwiseError(f"{found} cannot be read; give paths, dicts, Examples or a data frame")
    return ((line, _row(item)) for line, item in enumerate(data, 1))


def _row(item: object) -> object:
    if isinstance(item, Example):
        return example_to_dict(item)
    return plain(item) if isinstance(item, Mapping) else not_an_object(item)


def plain(value: Any) -> Any:
    """Return a value in the types that a JSON file would give; arrays and their numbers know how to become plain.

    >>> import numpy
    >>> plain({"ratings": {"Overall": numpy.array([4, 5])}})
    {'ratings': {'Overall': [4, 5]}}
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value
