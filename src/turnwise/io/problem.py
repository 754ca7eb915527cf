"""Records, and the problem of one that cannot be read: it costs that row and never the stream."""

from __future__ import annotations

from collections.abc import Iterator

from turnwise.problems import Problem

# One thing read from a source: its line, and what stood there or why that cannot be used.
Record = tuple[int, object]
Records = Iterator[Record]

_KINDS = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    tuple: "a list",
    dict: "an object",
}


class Unreadable(Exception):  # noqa: N818 - it is reported as a row, so it is not an error of the program
    """Carry the problem of a row that cannot be read."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem

    @classmethod
    def of(cls, code: str, field: str, **details: str | int | float) -> Unreadable:
        """Return the exception for a problem with this field, whose name may be a long one of the file's."""
        return cls(Problem.of(code, field[:60], **details))


def kind(value: object) -> str:
    """A value's type in the words of a JSON file.

    >>> kind(None), kind([1]), kind(2.5)
    ('null', 'a list', 'a number')
    """
    return _KINDS.get(type(value), f"a Python {type(value).__name__}")


def shown(value: object, limit: int = 40) -> str:
    """A value short enough to stand inside a one-line message."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
