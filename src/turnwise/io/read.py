"""The entrance: files or Python objects to a lazy stream of `Row`, in memory that does not grow with them.

A faulty row is reported in its place and the stream goes on; only what makes a whole source unusable raises.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, cast

from turnwise.dialogue import Example, Row
from turnwise.errors import TurnwiseError
from turnwise.io.base import Reader, Records, Unreadable, find, reader_for, suffixes
from turnwise.io.json_text import is_laid_out_over_lines, json_lines, json_values, not_an_object
from turnwise.io.native import chat_examples, example_from, is_chat, object_records, row_id, unlisted
from turnwise.io.source import BUFFER, PYTHON, Source, open_bytes, resolve, stem_of
from turnwise.io.tables import CsvRecords, check_mapping, frame_records, is_frame, rename
from turnwise.io.unique import DialoguesOfFiles, report_repeats
from turnwise.problems import Problem

# A system that gives no response has failed; nothing is wrong with the file.
NO_RESPONSE = frozenset({"response.blank", "response.missing"})
# How many faulty records to look past for one that tells the format.
_LOOK_AHEAD = 100
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


@dataclass
class Input:
    """What a reader is given: one source that is opened when its bytes are first asked for.

    A reader takes `stream`, the decompressed bytes; or `items`, the records of JSON or of a delimited file; or opens
    `path` itself. `head` and `first` show how the source begins without taking anything from it.
    """

    source: Source
    stack: ExitStack
    mapping: Mapping[str, str]
    lines_before: int = 0

    @property
    def file(self) -> str:
        """Return what the source is called in messages."""
        return self.source.file

    @property
    def path(self) -> Path:
        """Return the file's path."""
        return self.source.path or Path(self.source.file)

    @property
    def stem(self) -> str:
        """Return the file's name without its suffixes."""
        return self.source.stem

    @cached_property
    def suffix(self) -> str:
        """Return the suffix that tells the format, or an empty text."""
        return self.source.suffix

    @cached_property
    def stream(self) -> io.BufferedReader:
        """Return the source's bytes, decompressed."""
        return self.stack.enter_context(open_bytes(self.source))

    @cached_property
    def head(self) -> bytes:
        """Return the first bytes."""
        return self.stream.peek(BUFFER)

    @cached_property
    def delimiter(self) -> str | None:
        """Return what separates the cells of a delimited file; unnamed input is one if its header says so."""
        if self.suffix in suffixes():
            return _DELIMITERS.get(self.suffix)
        if self.head.lstrip()[:1] in (b"{", b"["):
            return None
        header = self.head.partition(b"\n")[0].decode(errors="replace").lstrip("\ufeff")
        wanted = self.mapping.get("response", "response")
        found = (mark for mark in ("\t", ",") if wanted in [cell.strip().strip('"') for cell in header.split(mark)])
        return next(found, None)

    @cached_property
    def items(self) -> Records:
        """Return JSON values with the mapped keys renamed, or lists of cells of which the first is the header."""
        return self._parsed(self.stream)

    @cached_property
    def first(self) -> object:
        """Return the first item that can be read, or the last problem if there are many."""
        if "items" in self.__dict__:
            found, self.items = _peeked(self.items)
            return found
        taken = bytearray()
        recorded = io.BufferedReader(cast(io.RawIOBase, _Recorded(self.stream, taken)), BUFFER)
        found, _ = _peeked(self._parsed(recorded))
        # Whichever reader is chosen gets all bytes.
        self.stream = io.BufferedReader(cast(io.RawIOBase, _Replayed(self.stream, taken)), BUFFER)
        return found

    def renamed(self, records: Records) -> Records:
        """Return JSON values with the mapped keys renamed."""
        if not self.mapping:
            return records
        return ((line, rename(v, self.mapping) if isinstance(v, dict) else v) for line, v in records)

    def _parsed(self, stream: io.BufferedReader[Any]) -> Records:
        if self.delimiter:
            return CsvRecords(stream, self.delimiter)
        in_lines = self.suffix in suffixes(splittable=True) or not is_laid_out_over_lines(self.head)
        return self.renamed(json_lines(stream, self.lines_before) if in_lines else json_values(stream))


def _peeked(records: Records) -> tuple[object, Records]:
    looked_at = []
    for record in records:
        looked_at.append(record)
        if not isinstance(record[1], Problem) or len(looked_at) == _LOOK_AHEAD:
            break
    return looked_at[-1][1] if looked_at else None, chain(looked_at, records)


class _Recorded(io.RawIOBase):
    """Read a stream and keep a copy of what was read."""

    def __init__(self, stream: io.BufferedReader, taken: bytearray) -> None:
        self._stream, self._taken = stream, taken

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        size = self._stream.readinto1(buffer)
        self._taken += buffer[:size]
        return size


class _Replayed(_Recorded):
    """Read what was taken from a stream, and then the stream."""

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self._taken:
            return self._stream.readinto1(buffer)
        size = min(len(buffer), len(self._taken))
        buffer[:size] = self._taken[:size]
        del self._taken[:size]
        return size


def read_rows(
    sources: Sequence[str | Path] | object,
    *,
    corpus: str | None = None,
    mapping: Mapping[str, str] | None = None,
    lines_before: int = 0,
) -> Iterator[Row]:
    """Return the rows of paths, folders, globs and `-`, or of one Python object: dicts, Examples, a data frame.

    `corpus` names a format, such as a release of a paper's authors (otherwise it is recognised); `mapping` says which
    of their columns is which of our fields. `lines_before` is how many lines of JSON Lines come before a file that is
    a part of another. A request that cannot be met raises here, before anything is read.
    """
    chosen = find(corpus) if corpus else None
    renamed = dict(mapping or {})
    check_mapping(renamed)
    if isinstance(sources, str | Path):
        sources = [sources]
    if isinstance(sources, Sequence) and sources and all(isinstance(item, str | Path) for item in sources):
        return _read_files(resolve(sources), chosen, renamed, lines_before)
    if is_frame(sources):
        if chosen:
            raise _no_table(chosen, PYTHON)
        return _finish(frame_records(sources, renamed), PYTHON)
    return _finish(_object_rows(sources, chosen, renamed), PYTHON)


def read_unchecked(path: str | Path) -> Iterator[tuple[str, Records]]:
    """Yield the files that a path, folder or glob stands for, with their native rows as they stand, scorable or not."""
    return ((source.file, _records(source, None, {})) for source in resolve([path]))


def describe(row: Row) -> Problem:
    """Return the problem of a row that cannot be read, placed in its file: `file:line: field: problem`."""
    problem = row.error or Problem.of("other", text="no problem")
    return replace(problem, place=": ".join(filter(None, (f"{row.file}:{row.line}", problem.place))))


def file_stem(file: str) -> str:
    """Return what a row's file is called in results: its name without the suffixes that tell its format.

    >>> file_stem("runs/bot-a.jsonl.gz"), file_stem("<stdin>")
    ('bot-a', 'stdin')
    """
    return stem_of(Path(file)).strip("<>")


def names_apart(files: Iterable[str]) -> dict[str, str]:
    """Return what each file is called beside the others: its stem, after as many folders as tell equal stems apart.

    >>> list(names_apart(["runs/may/bot.jsonl", "runs/june/bot.jsonl", "runs/june/old.jsonl"]).values())
    ['may/bot', 'june/bot', 'old']
    """
    different = list(dict.fromkeys(files))
    named: dict[str, str] = {}
    for depth in range(max((len(Path(file).parts) for file in different), default=0)):
        names = {file: _with_folders(file, depth) for file in different if file not in named}
        counts = Counter(names.values())
        named |= {file: name for file, name in names.items() if counts[name] == 1}
    # The same name with two suffixes in one folder.
    return {file: named.get(file, file) for file in different}


def _with_folders(file: str, depth: int) -> str:
    parents = Path(file).parts[:-1]
    return "/".join((*parents[len(parents) - depth :], file_stem(file))) if depth <= len(parents) else file


def _read_files(
    sources: Sequence[Source], chosen: Reader | None, mapping: Mapping[str, str], lines_before: int
) -> Iterator[Row]:
    if len(sources) == 1:
        yield from _read_file(sources[0], chosen, mapping, lines_before)
        return
    dialogues, names = DialoguesOfFiles(), names_apart(source.file for source in sources)
    for source in sources:
        yield from dialogues.told_apart(_read_file(source, chosen, mapping, lines_before), names[source.file])


def _read_file(
    source: Source, chosen: Reader | None, mapping: Mapping[str, str], lines_before: int = 0
) -> Iterator[Row]:
    return _finish(_records(source, chosen, mapping, lines_before), source)


def _records(source: Source, chosen: Reader | None, mapping: Mapping[str, str], lines_before: int = 0) -> Records:
    with ExitStack() as stack:
        opened = Input(source, stack, mapping, lines_before)
        if chosen and opened.suffix not in chosen.suffixes:
            if opened.suffix == ".parquet":
                raise _no_table(chosen, source)
            if opened.suffix not in suffixes():
                # What has no name of its own is read as the reader that was asked for has it.
                opened.suffix = next(iter(chosen.suffixes), "")
        yield from (chosen or reader_for(opened)).read(opened)


def _object_rows(sources: object, chosen: Reader | None, mapping: Mapping[str, str]) -> Records:
    """Python objects as native rows: through the release they belong to, or as they are."""
    opened = Input(PYTHON, ExitStack(), mapping)
    opened.suffix, opened.items = ".jsonl", opened.renamed(object_records(sources))
    return (chosen or reader_for(opened)).read(opened)


def _no_table(chosen: Reader, source: Source) -> TurnwiseError:
    found = f"reads files named {', '.join(chosen.suffixes)}, and {source.file} is a table"
    return TurnwiseError(f"`corpus={chosen.name}`: {found}. Fix: leave it out.")


def _finish(records: Records, source: Source) -> Iterator[Row]:
    """Native rows to checked examples, with ids and systems filled in and repeated ids found."""
    return report_repeats(_rows(records, source))


def _rows(records: Records, source: Source) -> Iterator[Row]:
    file, system = source.file, source.system
    last_line = nth = 0
    for line, value in records:
        nth, last_line = (nth + 1 if line == last_line else 1), line
        # A list may have been written without line breaks.
        default_id = f"{source.stem}:{line}" if nth == 1 else f"{source.stem}:{line}.{nth}"
        try:
            if isinstance(value, Problem):
                raise Unreadable(value)
            if not isinstance(value, dict):
                raise Unreadable(not_an_object(value))
            if is_chat(value):
                for turn_id, found in chat_examples(value, default_id, system):
                    if isinstance(found, Problem):
                        yield Row(turn_id, file, line, None, found, _system_of(value, system))
                    else:
                        yield Row(turn_id, file, line, found, system=found.system)
            else:
                example = example_from(value, default_id, system)
                yield Row(example.id, file, line, example, system=example.system, more=unlisted(value))
        except Unreadable as fault:
            failed = _unanswered(fault.problem, value, default_id, system)
            named = failed.system if failed else _system_of(value, system)
            yield Row(row_id(value, default_id), file, line, None, fault.problem, named, unanswered=failed)


def _unanswered(problem: Problem, value: object, default_id: str, system: str) -> Example | None:
    """Return what the row asked for, if all that it lacks is a response."""
    if problem.code not in NO_RESPONSE or not isinstance(value, dict):
        return None
    try:
        return replace(example_from({**value, "response": "-"}, default_id, system), response="")
    except Unreadable:
        return None


def _system_of(value: object, default: str) -> str:
    """Return the system that a faulty row names, if it can still be read."""
    named = value.get("system") if isinstance(value, dict) else None
    return named if isinstance(named, str) and named.strip() and named.isprintable() else default
