"""CSV, TSV, Parquet and data frames, a batch of records at a time."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from turnwise.errors import TurnwiseError
from turnwise.io.columns import ColumnPlan
from turnwise.io.json_text import bad_byte, numbered_lines
from turnwise.io.problem import Record, Records
from turnwise.io.source import PYTHON, Source
from turnwise.problems import Problem
from turnwise.wording import counted

if TYPE_CHECKING:
    import polars as pl

BATCH = 4096


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


def keyed(records: Records, mapping: Mapping[str, str], file: str) -> Records:
    """Records below a header as native rows."""
    header = next(records, None)
    if header is None:
        return
    line, columns = header
    if not isinstance(columns, list):
        raise TurnwiseError(f"{file}:{line}: the header cannot be read: {columns}")
    columns = [column.strip() for column in columns]
    plan = ColumnPlan(columns, mapping, file)
    for line, cells in records:
        if not isinstance(cells, list):
            yield line, cells
        elif len(cells) != len(columns):
            width, found = counted(len(columns), "cell"), counted(len(cells), "cell")
            yield line, Problem.of("csv.cells", "cells", width=width, cells=found)
        else:
            yield line, plan.row(dict(zip(columns, cells, strict=True)))


def parquet_records(source: Source, mapping: Mapping[str, str]) -> Records:
    """The rows of a Parquet file; only the columns that are needed, and only one batch at a time, are loaded."""
    import polars as pl

    try:
        table = pl.scan_parquet(source.file, glob=False)
        plan = ColumnPlan(table.collect_schema().names(), mapping, source.file)
        length = int(table.select(pl.len()).collect().item())
        wanted = table.select(plan.columns)
        for start in range(0, length, BATCH):
            yield from _frame_rows(wanted.slice(start, BATCH).collect(), plan, start)
    except (pl.exceptions.PolarsError, OSError) as problem:
        reason = str(problem).partition("\n")[0]
        raise TurnwiseError(f"{source.file}: not a readable Parquet file ({reason}); write it again") from None


def frame_records(frame: Any, mapping: Mapping[str, str]) -> Records:
    """The rows of a polars or pandas data frame."""
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
    """Whether a value is a polars or pandas frame, found out without importing either."""
    library = type(value).__module__.partition(".")[0]
    return library in {"polars", "pandas"} and type(value).__name__ in {"DataFrame", "LazyFrame"}


def _pandas_rows(frame: Any, mapping: Mapping[str, str]) -> Records:
    """Cell by cell: polars' own way from pandas needs pyarrow, which this package does not."""
    plan = ColumnPlan([str(name) for name in frame.columns], mapping, PYTHON.file)
    by_name = {str(name): frame[name] for name in frame.columns}
    for line, cells in enumerate(zip(*(by_name[name] for name in plan.columns), strict=True), 1):
        yield line, plan.row(dict(zip(plan.columns, map(_plain, cells), strict=True)))


def _plain(cell: Any) -> Any:
    """A cell of a pandas frame as Python would write it; its many kinds of nothing become None."""
    if hasattr(cell, "tolist"):
        cell = cell.tolist()
    missing = cell is None or type(cell).__name__ in {"NAType", "NaTType"} or (isinstance(cell, float) and cell != cell)
    return None if missing else cell
