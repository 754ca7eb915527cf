"""What the readers of authors' releases share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from turnwise.io.base import Reader, Records, Unreadable, kind
from turnwise.problems import Problem

T = TypeVar("T")
Row = dict[str, Any]
# What a reader trips over where a release has something else than it always had.
OF_OTHER_SHAPE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def release(
    name: str,
    rows: Callable[[Records, str], Records],
    recognises: Callable[[Any], bool],
    *,
    suffixes: tuple[str, ...] = (".json", ".jsonl", ".ndjson"),
    **about: Any,
) -> Reader:
    """Return the reader of one release: `rows` turns the items of a file and its stem into native rows or chats."""
    return Reader(
        name,
        suffixes,
        sniff=lambda source: recognises(source.first),
        records=lambda source: rows(source.items, source.stem),
        **about,
    )


def has(*keys: str) -> Callable[[Any], bool]:
    """Return whether an item is an object with these keys."""
    return lambda item: isinstance(item, dict) and item.keys() >= set(keys)


class Numbering:
    """Things numbered in the order in which they first appear."""

    def __init__(self, prefix: str, first: int = 0) -> None:
        self._prefix, self._first = prefix, first
        self._numbers: dict[object, int] = {}

    def __call__(self, thing: object) -> str:
        number = self._numbers.setdefault(thing, len(self._numbers) + self._first)
        return f"{self._prefix}{number}"


def per_item(records: Records, rows_of: Callable[[Any, int], Iterable[Row]]) -> Records:
    """Apply a function of (item, index) to every readable item; an item's problem costs that item only."""
    for index, (line, item) in enumerate(records):
        if isinstance(item, Problem):
            yield line, item
            continue
        try:
            rows = list(rows_of(item, index))
        except (Unreadable, *OF_OTHER_SHAPE) as problem:
            yield line, as_problem(problem)
        else:
            # An item without a single response is a row that cannot be read, and not nothing.
            yield from ((line, row) for row in rows)
            if not rows:
                yield line, Problem.of("item.empty", "item")


def as_problem(problem: Exception) -> Problem:
    """Return what is wrong with an item, for its row."""
    if isinstance(problem, Unreadable):
        return problem.problem
    return Problem.of("item.shape", "item", reason=f"not as this format has it ({type(problem).__name__}: {problem})")


def text(item: Mapping[str, Any], key: str) -> str:
    """Return a text that the format promises."""
    return _promised(item, key, str, "text").strip()


def listed(item: Mapping[str, Any], key: str) -> list[Any]:
    """Return a list that the format promises."""
    return _promised(item, key, list, "a list")


def mapped(item: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return an object that the format promises."""
    return _promised(item, key, dict, "an object")


def _promised(item: Mapping[str, Any], key: str, wanted: type[T], expected: str) -> T:
    if not isinstance(item, Mapping) or key not in item:
        raise Unreadable.of("item.missing", key)
    value = item[key]
    if not isinstance(value, wanted):
        raise Unreadable.of("item.type", key, expected=expected, kind=kind(value))
    return value


def lines(text: str) -> list[str]:
    """Return the lines of a text that are not blank, stripped.

    >>> lines("hi there \\n how are you ?\\n\\n")
    ['hi there', 'how are you ?']
    """
    return [line.strip() for line in text.split("\n") if line.strip()]


def number_or_missing(value: object) -> float | None:
    """Return a rating; whatever is no number, such as a remark why there is none, counts as missing."""
    return float(value) if isinstance(value, int | float) else None


def messages(transcript: str) -> list[dict[str, str]]:
    """Return the chat messages of a transcript whose turns begin with "User:" or "System:".

    >>> messages("User: Hi!\\nSystem: Hello.\\nHow are you?")
    [{'role': 'user', 'content': 'Hi!'}, {'role': 'assistant', 'content': 'Hello.\\nHow are you?'}]
    """
    found: list[dict[str, str]] = []
    for line in lines(transcript):
        label, colon, rest = line.partition(":")
        role = {"User": "user", "System": "assistant"}.get(label) if colon else None
        if role:
            found.append({"role": role, "content": rest.strip()})
        elif found:
            found[-1]["content"] = f"{found[-1]['content']}\n{line}".strip()
        else:
            raise Unreadable.of("item.speaker", "context", reason="no speaker before the first turn")
    return [message for message in found if message["content"]]
