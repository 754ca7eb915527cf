"""What can be wrong with one row. A problem costs that row and never the stream."""

from __future__ import annotations

from collections.abc import Iterator

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


class Problem(Exception):  # noqa: N818 - it is reported as a row, so it is not an error of the program
    """The field at fault, what was found there, and how to mend it."""

    def __init__(self, field: str, found: str, remedy: str) -> None:
        super().__init__(field, found, remedy)
        self.field, self.found, self.remedy = field, found, remedy

    def __str__(self) -> str:
        return " ".join(f"{self.field[:60]}: {self.found}; {self.remedy}".split())


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
