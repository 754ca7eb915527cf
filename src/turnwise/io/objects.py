"""Rows that a Python program hands over: dicts and Examples, whatever their numbers are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from turnwise.dialogue import Example
from turnwise.errors import TurnwiseError
from turnwise.io.json_text import not_an_object
from turnwise.io.problem import Records
from turnwise.io.write import example_to_dict


def object_records(data: object) -> Records:
    """The rows of a list or any other iterable of dicts and Examples, or of a single one."""
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
    """A value in the types that a JSON file would give; arrays and their numbers know how to become plain.

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
