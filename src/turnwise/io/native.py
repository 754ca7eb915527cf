"""The project's own row format: one mapping of fields to one checked `Example`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from turnwise.dialogue import NO_RATINGS, Example, Ratings, is_blank
from turnwise.io.problem import Unreadable, kind, shown
from turnwise.wording import counted

# Longer than any real reply; a longer one is a broken export, and would stall a model.
MAX_RESPONSE = 100_000

ALIASES = {"reference": "references", "fact": "facts", "annotators": "raters", "group_id": "group"}
FIELDS = (
    *("id", "context", "response", "references", "facts", "system", "context_id", "dialogue_id", "group"),
    *("speakers", "ratings", "raters", "rated", "messages"),
)


def example_from(row: Mapping[str, Any], default_id: str, default_system: str) -> Example:
    """The example that a row describes; raises `Unreadable` when it describes none. Unknown fields are ignored."""
    get = row.get
    context = texts(get("context"), "context")
    return Example(
        response=_response(row),
        context=context,
        references=texts(_either(row, "references", "reference"), "references"),
        facts=facts_of(_either(row, "facts", "fact")),
        id=name(get("id"), "id") or default_id,
        system=name(get("system"), "system") or default_system,
        context_id=name(get("context_id"), "context_id"),
        dialogue_id=name(get("dialogue_id"), "dialogue_id"),
        group=name(_either(row, "group", "group_id"), "group"),
        speakers=_speakers(get("speakers"), len(context) + 1),
        raters=(raters := names(_either(row, "raters", "annotators"), "raters")),
        ratings=ratings_of(get("ratings"), raters),
        rated=_rated(get("rated")),
    )


def row_id(row: object, default_id: str) -> str:
    """The id to report a row under when the row itself cannot be used."""
    try:
        return (name(row.get("id"), "id") if isinstance(row, Mapping) else None) or default_id
    except Unreadable:
        return default_id


def checked_text(text: str, field: str) -> str:
    """The text, if it can be written out again as UTF-8."""
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
    """The text to judge: neither blank nor endless."""
    if not isinstance(text, str):
        raise Unreadable.of("text.type", field, kind=kind(text))
    if is_blank(text):
        raise Unreadable.of("response.blank", field)
    if len(text) > MAX_RESPONSE:
        raise Unreadable.of("response.long", field, most=MAX_RESPONSE, length=len(text))
    return checked_text(text, field)


def texts(value: object, field: str) -> tuple[str, ...]:
    """A list of texts; one string stands for a list of one, null and "" for none."""
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
    """The facts that say something; a blank one is none."""
    return tuple(fact for fact in texts(value, "facts") if not is_blank(fact))


def name(value: object, field: str) -> str | None:
    """An identifier: text, or a whole number as tables often have; null and "" mean that there is none."""
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
    """A list of identifiers."""
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
