"""From columns with any names to the native fields: what `--map response=reply` means."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from turnwise.errors import TurnwiseError
from turnwise.io.native import ALIASES, FIELDS

RATINGS = "ratings."
KNOWN = (*FIELDS, *ALIASES)
# Alone among the fields, these keep a cell's text as it is.
PLAIN = frozenset({"response", "id", "system", "context_id", "dialogue_id", "group", "group_id", "rated"})


_LISTED = frozenset(KNOWN)


def unlisted(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of a row that are none of ours, if there are any.

    >>> unlisted({"response": "Hi.", "cost": 3}), unlisted({"response": "Hi."})
    ({'cost': 3}, None)
    """
    return None if row.keys() <= _LISTED else {key: value for key, value in row.items() if key not in _LISTED}


def check_mapping(mapping: Mapping[str, str]) -> None:
    """Raise unless every key is a field of ours."""
    for field in mapping:
        if field not in KNOWN and not (field.startswith(RATINGS) and field != RATINGS):
            fields = ", ".join((*FIELDS, "ratings.QUALITY"))
            raise TurnwiseError(f"--map {field}={mapping[field]}: '{field}' is not a field; the fields are {fields}")


def rename(row: Mapping[str, Any], mapping: Mapping[str, str]) -> dict[str, Any]:
    """A JSON object with the mapped keys under our names.

    >>> rename({"reply": "Hi.", "score": 4}, {"response": "reply", "ratings.Overall": "score"})
    {'response': 'Hi.', 'ratings': {'Overall': 4}}
    """
    # A field that was mapped is read from there and nowhere else: a misspelt key must not pass unnoticed.
    taken = {*mapping, *mapping.values()}
    renamed = {key: value for key, value in row.items() if key not in taken}
    for field in _ratings_last(mapping):
        if mapping[field] in row:
            _put(renamed, field, row[mapping[field]])
    return renamed


class ColumnPlan:
    """Which column feeds which field, settled once for a whole table."""

    def __init__(self, columns: Iterable[str], mapping: Mapping[str, str], file: str) -> None:
        self._columns = list(columns)
        self._file = file
        offered = ", ".join(self._columns) or "none"
        for field, column in mapping.items():
            if column not in self._columns:
                found = f"no column '{column}' to read {field} from"
                raise TurnwiseError(f"{file}: {found}; its columns are {offered}")
        taken = set(mapping.values())
        same_name = {c: c for c in self._columns if c not in taken and (c in KNOWN or c.startswith(RATINGS))}
        self._sources: dict[str, str] = {**same_name, **mapping}
        if not {"response", "messages"} & set(self._sources):
            found = f"no column 'response'; its columns are {offered}"
            raise TurnwiseError(f"{file}: {found}; name the right one with --map response=COLUMN")
        repeated = {c for c in self.columns if self._columns.count(c) > 1}
        if repeated:
            raise TurnwiseError(f"{file}: two columns are called '{min(repeated)}'; rename one of them")
        in_order = _ratings_last(self._sources)
        self._others = [column for column in self._columns if column and column not in {*KNOWN, *self.columns}]
        self._steps = [(field, self._sources[field], _converter(field)) for field in in_order]

    @property
    def columns(self) -> list[str]:
        """The columns that are needed, in the table's order and each once."""
        wanted = set(self._sources.values())
        return [column for column in dict.fromkeys(self._columns) if column in wanted]

    def row(self, cells: Mapping[str, Any]) -> dict[str, Any]:
        """One record of the table as a native row."""
        row: dict[str, Any] = {}
        for field, column, convert in self._steps:
            _put(row, field, convert(cells[column]))
        # Of what was read anyway nothing is lost; a Parquet file is asked for the columns that are needed alone.
        return row | {column: cells[column] for column in self._others if column in cells}


def _ratings_last(fields: Iterable[str]) -> list[str]:
    """Single qualities after a field `ratings` that holds several, since they add to it."""
    return sorted(fields, key=lambda field: field.startswith(RATINGS))


def _put(row: dict[str, Any], field: str, value: Any) -> None:
    if not field.startswith(RATINGS):
        row[field] = value
    elif value is not None and isinstance(already := row.get("ratings") or {}, Mapping):
        row["ratings"] = {**already, field.removeprefix(RATINGS): value}


def _converter(field: str) -> Callable[[Any], Any]:
    if field in PLAIN:
        return lambda cell: cell
    if field.startswith(RATINGS):
        return rating_cell
    return object_cell if field in {"ratings", "messages"} else list_cell


def list_cell(cell: Any) -> Any:
    """The texts in a cell: a JSON list, else one text a line; anything but text is left as it is.

    >>> list_cell('["Hi!", "Hello."]'), list_cell("Hi!\\nHello."), list_cell("")
    (['Hi!', 'Hello.'], ['Hi!', 'Hello.'], None)
    """
    if not isinstance(cell, str):
        return cell
    parsed = _parsed(cell, "[")
    if isinstance(parsed, list):
        return parsed
    return [line.rstrip("\r") for line in cell.split("\n") if line and not line.isspace()] or None


def rating_cell(cell: Any) -> Any:
    """The ratings in a cell: a number or a JSON list; an empty cell is a missing rating.

    >>> rating_cell("4"), rating_cell("[4, null]"), rating_cell(" "), rating_cell("good")
    (4.0, [4, None], None, 'good')
    """
    if isinstance(cell, Decimal):
        return float(cell)
    if isinstance(cell, list | tuple):
        return [float(item) if isinstance(item, Decimal) else item for item in cell]
    if not isinstance(cell, str):
        return cell
    if not cell or cell.isspace():
        return None
    parsed = _parsed(cell, "[")
    if isinstance(parsed, list):
        return parsed
    try:
        return float(cell)
    except ValueError:
        return cell


def object_cell(cell: Any) -> Any:
    """A cell that holds a whole JSON value; empty is none, and text that is no JSON stays for the row to report."""
    if not isinstance(cell, str):
        return cell
    if not cell or cell.isspace():
        return None
    parsed = _parsed(cell, "[{")
    return cell if parsed is None else parsed


def _parsed(cell: str, openings: str) -> Any:
    if cell.lstrip()[:1] not in tuple(openings):
        return None
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return None
