"""What every authors' format declares about itself, and the small tools that the readers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from turnwise.io.problem import Records, Unreadable, kind
from turnwise.problems import Problem

Row = dict[str, Any]
# What a reader trips over where a release has something else than it always had.
OF_OTHER_SHAPE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Corpus:
    """One published release format. `read` turns the authors' items into native rows (or chat rows).

    `excluded_systems` are left out of correlations by the paper, mostly because they are the reference itself.
    """

    name: str
    what: str
    files: str
    cite: str
    read: Callable[[Records, str], Records]
    recognises: Callable[[Any], bool]
    layout: Literal["json", "csv"] = "json"
    excluded_systems: tuple[str, ...] = ()


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
            yield from ((line, row) for row in rows)


def as_problem(problem: Exception) -> Problem:
    """What is wrong with an item, for its row."""
    if isinstance(problem, Unreadable):
        return problem.problem
    return Problem.of("item.shape", "item", reason=f"not as this format has it ({type(problem).__name__}: {problem})")


def text(item: Mapping[str, Any], key: str) -> str:
    """A text that the format promises."""
    value = _promised(item, key)
    if not isinstance(value, str):
        raise Unreadable.of("item.type", key, expected="text", kind=kind(value))
    return value.strip()


def listed(item: Mapping[str, Any], key: str) -> list[Any]:
    """A list that the format promises."""
    value = _promised(item, key)
    if not isinstance(value, list):
        raise Unreadable.of("item.type", key, expected="a list", kind=kind(value))
    return value


def mapped(item: Mapping[str, Any], key: str) -> dict[str, Any]:
    """An object that the format promises."""
    value = _promised(item, key)
    if not isinstance(value, dict):
        raise Unreadable.of("item.type", key, expected="an object", kind=kind(value))
    return value


def _promised(item: Mapping[str, Any], key: str) -> Any:
    if not isinstance(item, Mapping) or key not in item:
        raise Unreadable.of("item.missing", key)
    return item[key]


def lines(text: str) -> list[str]:
    """The lines of a text that are not blank, stripped.

    >>> lines("hi there \\n how are you ?\\n\\n")
    ['hi there', 'how are you ?']
    """
    return [line.strip() for line in text.split("\n") if line.strip()]


def number_or_missing(value: object) -> float | None:
    """A rating; whatever is no number, such as a remark why there is none, counts as missing."""
    return float(value) if isinstance(value, int | float) else None


def messages(transcript: str) -> list[dict[str, str]]:
    """The chat messages of a transcript whose turns begin with "User:" or "System:".

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
