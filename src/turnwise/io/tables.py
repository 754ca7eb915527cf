"""CSV, TSV, Parquet and data frames: their columns, whatever they are called, to native rows."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from turnwise.errors import TurnwiseError
from turnwise.io.base import Reader, Record, Records, register
from turnwise.io.json_text import bad_byte, numbered_lines
from turnwise.io.native import FIELDS, KNOWN
from turnwise.io.source import PYTHON
from turnwise.problems import Problem, counted

if TYPE_CHECKING:
    import polars as pl

    from turnwise.io.read import Input

BATCH = 4096
RATINGS = "ratings."
MOST_OFFERED = 20
# Alone among the fields, these keep a cell's text as it is.
PLAIN = frozenset({"response", "id", "system", "context_id", "dialogue_id", "group", "group_id", "rated"})


def check_mapping(mapping: Mapping[str, str]) -> None:
    """Raise unless every key is a field of ours."""
    for field in mapping:
        if field not in KNOWN and not (field.startswith(RATINGS) and field != RATINGS):
            fields = ", ".join((*FIELDS, "ratings.QUALITY"))
            found = f"'{field}' is not a field; the fields are {fields}"
            raise TurnwiseError(f"`mapping={field}={mapping[field]}`: {found}")


def rename(row: Mapping[str, Any], mapping: Mapping[str, str]) -> dict[str, Any]:
    """Return a JSON object with the mapped keys under our names.

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
        counts = Counter(columns)
        offered = _offered(counts)
        for field, column in mapping.items():
            if column not in counts:
                found = f"no column '{column}' to read {field} from"
                raise TurnwiseError(f"{file}: {found}; its columns are {offered}")
        taken = set(mapping.values())
        same_name = {c: c for c in counts if c not in taken and (c in KNOWN or c.startswith(RATINGS))}
        sources: dict[str, str] = {**same_name, **mapping}
        if not {"response", "messages"} & set(sources):
            found = f"no column 'response'; its columns are {offered}"
            raise TurnwiseError(f"{file}: {found}; name the right one with `mapping=response=COLUMN`")
        wanted = set(sources.values())
        # The columns that are needed, in the table's order and each once.
        self.columns = [column for column in counts if column in wanted]
        if repeated := [column for column in self.columns if counts[column] > 1]:
            raise TurnwiseError(f"{file}: two columns are called '{min(repeated)}'; rename one of them")
        self._others = [column for column in counts if column and column not in KNOWN and column not in wanted]
        self._steps = [(field, sources[field], _converter(field)) for field in _ratings_last(sources)]

    def row(self, cells: Mapping[str, Any]) -> dict[str, Any]:
        """Return one record of the table as a native row."""
        row: dict[str, Any] = {}
        for field, column, convert in self._steps:
            _put(row, field, convert(cells[column]))
        # Of what was read anyway nothing is lost; a Parquet file is asked for the columns that are needed alone.
        return row | {column: cells[column] for column in self._others if column in cells}


def _offered(columns: Iterable[str]) -> str:
    listed = list(columns)
    more = [f"... ({len(listed):,} in all)"] if len(listed) > MOST_OFFERED else []
    return ", ".join([*listed[:MOST_OFFERED], *more]) or "none"


class _Added(dict[str, Any]):
    """Hold the ratings of a row that come from several columns."""


def _ratings_last(fields: Iterable[str]) -> list[str]:
    """Single qualities after a field `ratings` that holds several, since they add to it."""
    return sorted(fields, key=lambda field: field.startswith(RATINGS))


def _put(row: dict[str, Any], field: str, value: Any) -> None:
    if not field.startswith(RATINGS):
        row[field] = value
    elif value is not None and isinstance(row.get("ratings") or {}, Mapping):
        # A mapping of the file's own is copied once, not for every quality.
        if not isinstance(row.get("ratings"), _Added):
            row["ratings"] = _Added(row.get("ratings") or {})
        row["ratings"][field.removeprefix(RATINGS)] = value


def _converter(field: str) -> Callable[[Any], Any]:
    if field in PLAIN:
        return lambda cell: cell
    if field.startswith(RATINGS):
        return rating_cell
    return object_cell if field in {"ratings", "messages"} else list_cell


def list_cell(cell: Any) -> Any:
    """Return the texts in a cell: a JSON list, else one text a line; anything but text is left as it is.

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
    """Return the ratings in a cell: a number or a JSON list; an empty cell is a missing rating.

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
    """Return the JSON value of a cell, None if it is empty; text that is not JSON stays for the row to report."""
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


class CsvRecords:
    """The records of a delimited file, each with the line that it starts on; iterates once.

    A quote that opens and never closes as it should costs the line that it stands on: reading goes on with the next.
    """

    def __init__(self, stream: io.BufferedReader, delimiter: str) -> None:
        self._lines = _Lines(stream)
        self._reader = csv.reader(self._lines, delimiter=delimiter, strict=True)
        self._width: int | None = None

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        while True:
            self._lines.taken.clear()
            try:
                cells = next(self._reader)
            except csv.Error as problem:
                number, fault = self._lines.give_back()
                return number, fault or _bad_quoting(problem)
            taken = self._lines.taken
            start = taken[0].number
            if fault := next((line.fault for line in taken if line.fault), None):
                return start, fault
            if not cells:
                continue
            self._width = self._width or len(cells)
            if len(taken) > 1 and len(cells) != self._width:
                width, found = counted(self._width, "cell"), counted(len(cells), "cell")
                return start, Problem.of("csv.swallowed", "cells", width=width, cells=found, lines=len(taken))
            return start, cells


class _Line(NamedTuple):
    number: int
    text: str
    fault: Problem | None


class _Lines:
    """Decoded lines for a reader of CSV, which can be given back; a faulty one goes on as nearly what it is."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._lines = numbered_lines(stream)
        self._again: deque[_Line] = deque()
        self.taken: list[_Line] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else _decoded(*next(self._lines))
        self.taken.append(line)
        return line.text

    def give_back(self) -> tuple[int, Problem | None]:
        """Give back all lines of a record but the first, and say what that one is."""
        first, *rest = self.taken
        self._again.extendleft(reversed(rest))
        return first.number, first.fault


def _decoded(number: int, line: bytes | Problem) -> _Line:
    if isinstance(line, Problem):
        return _Line(number, "\n", line)
    try:
        return _Line(number, line.decode(), None)
    except UnicodeDecodeError as problem:
        return _Line(number, line.decode(errors="replace"), bad_byte(problem))


def _bad_quoting(problem: csv.Error) -> Problem:
    if "field limit" in str(problem):
        return Problem.of("csv.long", "csv", most=csv.field_size_limit())
    if "unexpected end" in str(problem):
        return Problem.of("csv.open", "csv")
    return Problem.of("csv.quoting", "csv", reason=str(problem))


def keyed(source: Input) -> Records:
    """Yield the records below a header as native rows."""
    records = source.items
    header = next(records, None)
    if header is None:
        return
    line, columns = header
    if not isinstance(columns, list):
        raise TurnwiseError(f"{source.file}:{line}: the header cannot be read: {columns}")
    columns = [column.strip() for column in columns]
    plan = ColumnPlan(columns, source.mapping, source.file)
    for line, cells in records:
        if not isinstance(cells, list):
            yield line, cells
        elif len(cells) != len(columns):
            width, found = counted(len(columns), "cell"), counted(len(cells), "cell")
            yield line, Problem.of("csv.cells", "cells", width=width, cells=found)
        else:
            yield line, plan.row(dict(zip(columns, cells, strict=True)))


def _parquet_records(source: Input) -> Records:
    """Yield the rows of a Parquet file; only needed columns are loaded, one batch at a time."""
    import polars as pl

    try:
        table = pl.scan_parquet(source.path, glob=False)
        plan = ColumnPlan(table.collect_schema().names(), source.mapping, source.file)
        length = int(table.select(pl.len()).collect().item())
        wanted = table.select(plan.columns)
        for start in range(0, length, BATCH):
            yield from _frame_rows(wanted.slice(start, BATCH).collect(), plan, start)
    except (TurnwiseError, GeneratorExit, KeyboardInterrupt):
        raise
    # A damaged file can make polars panic, which is no `Exception`.
    except BaseException as problem:
        if not isinstance(problem, Exception) and type(problem).__name__ != "PanicException":
            raise
        reason = str(problem).partition("\n")[0]
        raise TurnwiseError(f"{source.file}: not a readable Parquet file ({reason}); write it again") from None


def frame_records(frame: Any, mapping: Mapping[str, str]) -> Records:
    """Yield the rows of a polars or pandas data frame."""
    if type(frame).__module__.partition(".")[0] == "pandas":
        yield from _pandas_rows(frame, mapping)
        return
    table = frame.collect() if hasattr(frame, "collect") else frame
    plan = ColumnPlan(table.columns, mapping, PYTHON.file)
    for batch, part in enumerate(table.select(plan.columns).iter_slices(BATCH)):
        yield from _frame_rows(part, plan, batch * BATCH)


def _frame_rows(frame: pl.DataFrame, plan: ColumnPlan, start: int) -> Records:
    for line, cells in enumerate(frame.iter_rows(named=True), start + 1):
        yield line, plan.row(cells)


def is_frame(value: object) -> bool:
    """Return whether a value is a polars or pandas frame, found out without importing either."""
    library = type(value).__module__.partition(".")[0]
    return library in {"polars", "pandas"} and type(value).__name__ in {"DataFrame", "LazyFrame"}


def _pandas_rows(frame: Any, mapping: Mapping[str, str]) -> Records:
    """Cell by cell: polars' own way from pandas needs pyarrow, which this package does not."""
    plan = ColumnPlan([str(name) for name in frame.columns], mapping, PYTHON.file)
    by_name = {str(name): frame[name] for name in frame.columns}
    for line, cells in enumerate(zip(*(by_name[name] for name in plan.columns), strict=True), 1):
        yield line, plan.row(dict(zip(plan.columns, map(_plain, cells), strict=True)))


def _plain(cell: Any) -> Any:
    """Return a cell of a pandas frame as Python would write it; its many kinds of nothing become None."""
    if hasattr(cell, "tolist"):
        cell = cell.tolist()
    missing = cell is None or type(cell).__name__ in {"NAType", "NaTType"} or (isinstance(cell, float) and cell != cell)
    return None if missing else cell


_COLUMNS = "columns by name, or by --map; "
register(
    Reader("csv", (".csv",), lambda source: source.delimiter == ",", keyed,
           general=True, what=_COLUMNS + "ratings in columns ratings.QUALITY"),
    Reader("tsv", (".tsv",), lambda source: source.delimiter == "\t", keyed,
           general=True, what=_COLUMNS + "ratings in columns ratings.QUALITY"),
    Reader("parquet", (".parquet",), None, _parquet_records, general=True, what=_COLUMNS + "lists as they are"),
)  # fmt: skip
