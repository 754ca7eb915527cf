"""The entrance: files or Python objects to a lazy stream of `Row`, in memory that does not grow with them.

A faulty row is reported in its place and the stream goes on; only what makes a whole source unusable raises.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from turnwise.dialogue import Row
from turnwise.errors import TurnwiseError
from turnwise.io import corpora
from turnwise.io.chat import chat_examples, is_chat
from turnwise.io.columns import check_mapping, rename, unlisted
from turnwise.io.corpora.base import Corpus
from turnwise.io.dialogues import DialoguesOfFiles
from turnwise.io.json_text import is_laid_out_over_lines, json_lines, json_values, not_an_object
from turnwise.io.native import example_from, row_id
from turnwise.io.objects import object_records
from turnwise.io.problem import Records, Unreadable
from turnwise.io.source import BUFFER, PYTHON, Source, open_bytes, resolve, stem_of
from turnwise.io.table import CsvRecords, frame_records, is_frame, keyed, parquet_records
from turnwise.io.unique import report_repeats
from turnwise.problems import Problem

# How many faulty records to look past for one that tells the format.
_LOOK_AHEAD = 100
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def read_rows(
    sources: Sequence[str | Path] | object,
    *,
    corpus: str | None = None,
    mapping: Mapping[str, str] | None = None,
    lines_before: int = 0,
) -> Iterator[Row]:
    """Rows of paths, folders, globs and `-`, or of one Python object: dicts, Examples, a polars or pandas frame.

    `corpus` names an authors' release format (otherwise it is recognised); `mapping` says which of their columns
    is which of our fields. `lines_before` is how many lines of JSON Lines come before a file that is a part of another.
    A request that cannot be met raises here, before anything is read.
    """
    chosen = corpora.find(corpus) if corpus else None
    renamed = dict(mapping or {})
    check_mapping(renamed)
    if isinstance(sources, str | Path):
        sources = [sources]
    if isinstance(sources, Sequence) and sources and all(isinstance(item, str | Path) for item in sources):
        return _read_files(resolve(sources), chosen, renamed, lines_before)
    if is_frame(sources):
        _refuse(chosen, PYTHON)
        return _finish(frame_records(sources, renamed), PYTHON)
    return _finish(_native(object_records(sources), PYTHON, chosen, renamed), PYTHON)


def read_unchecked(path: str | Path) -> Iterator[tuple[str, Records]]:
    """The files that a path, folder or glob stands for, each with its native rows as they stand, scorable or not."""
    return ((source.file, _records(source, None, {})) for source in resolve([path]))


def describe(row: Row) -> Problem:
    """Return the problem of a row that cannot be read, placed in its file: `file:line: field: problem`."""
    problem = row.error or Problem.of("other", text="no problem")
    return replace(problem, place=": ".join(filter(None, (f"{row.file}:{row.line}", problem.place))))


def file_stem(file: str) -> str:
    """What a row's file is called in results: its name without the suffixes that tell its format.

    >>> file_stem("runs/bot-a.jsonl.gz"), file_stem("<stdin>")
    ('bot-a', 'stdin')
    """
    return stem_of(Path(file)).strip("<>")


def names_apart(files: Iterable[str]) -> dict[str, str]:
    """What each file is called beside the others: its stem, after as many folders as tell equal stems apart.

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


def corpus_exclusions(corpus: str) -> tuple[str, ...]:
    """The systems that a corpus's paper leaves out of its correlations."""
    return corpora.find(corpus).excluded_systems


def _read_files(
    sources: Sequence[Source], corpus: Corpus | None, mapping: Mapping[str, str], lines_before: int
) -> Iterator[Row]:
    if len(sources) == 1:
        yield from _read_file(sources[0], corpus, mapping, lines_before)
        return
    dialogues, names = DialoguesOfFiles(), names_apart(source.file for source in sources)
    for source in sources:
        yield from dialogues.told_apart(_read_file(source, corpus, mapping, lines_before), names[source.file])


def _read_file(
    source: Source, corpus: Corpus | None, mapping: Mapping[str, str], lines_before: int = 0
) -> Iterator[Row]:
    return _finish(_records(source, corpus, mapping, lines_before), source)


def _records(source: Source, corpus: Corpus | None, mapping: Mapping[str, str], lines_before: int = 0) -> Records:
    if source.format == ".parquet":
        _refuse(corpus, source)
        yield from parquet_records(source, mapping)
        return
    with open_bytes(source) as stream:
        yield from _file_records(stream, source, corpus, mapping, lines_before)


def _refuse(corpus: Corpus | None, source: Source) -> None:
    if corpus:
        found = f"the release format {corpus.name} is a file of {corpus.layout.upper()}"
        raise TurnwiseError(f"{source.file}: {found}; leave --corpus out to read this as a table")


def _file_records(
    stream: io.BufferedReader,
    source: Source,
    corpus: Corpus | None,
    mapping: Mapping[str, str],
    lines_before: int = 0,
) -> Records:
    """Native rows from a file of text, whatever its format."""
    head = stream.peek(BUFFER)
    delimiter = _delimiter(source, head, corpus, mapping)
    if delimiter:
        records: Records = CsvRecords(stream, delimiter)
        recognised, records = _recognised(records, corpus)
        return recognised.read(records, source.stem) if recognised else keyed(records, mapping, source.file)
    in_lines = source.format in {".jsonl", ".ndjson"} or not is_laid_out_over_lines(head)
    records = json_lines(stream, lines_before) if in_lines else json_values(stream)
    return _native(records, source, corpus, mapping)


def _delimiter(source: Source, head: bytes, corpus: Corpus | None, mapping: Mapping[str, str]) -> str | None:
    """What separates the cells, where the source is a table; unnamed input is one if its header says so."""
    if source.format in _DELIMITERS:
        return _DELIMITERS[source.format]
    if corpus and corpus.layout == "csv":
        return ","
    if source.format in {".jsonl", ".ndjson", ".json"} or head.lstrip()[:1] in (b"{", b"["):
        return None
    header = head.partition(b"\n")[0].decode(errors="replace").lstrip("\ufeff")
    wanted = mapping.get("response", "response")
    for delimiter in ("\t", ","):
        if wanted in [cell.strip().strip('"') for cell in header.split(delimiter)]:
            return delimiter
    return None


def _native(records: Records, source: Source, corpus: Corpus | None, mapping: Mapping[str, str]) -> Records:
    """JSON objects as native rows: through the corpus they belong to, or with the mapped keys renamed."""
    if mapping:
        records = ((line, rename(v, mapping) if isinstance(v, dict) else v) for line, v in records)
    recognised, records = _recognised(records, corpus)
    return recognised.read(records, source.stem) if recognised else records


def _recognised(records: Records, corpus: Corpus | None) -> tuple[Corpus | None, Records]:
    """The corpus that was asked for or that the first readable record belongs to, and all the records."""
    if corpus:
        return corpus, records
    looked_at = []
    for record in records:
        looked_at.append(record)
        if not isinstance(record[1], Problem) or len(looked_at) == _LOOK_AHEAD:
            break
    found = corpora.recognise(looked_at[-1][1]) if looked_at else None
    return found, chain(looked_at, records)


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
            yield Row(row_id(value, default_id), file, line, None, fault.problem, _system_of(value, system))


def _system_of(value: object, default: str) -> str:
    """The system that a faulty row names, if it can still be read."""
    named = value.get("system") if isinstance(value, dict) else None
    return named if isinstance(named, str) and named.strip() and named.isprintable() else default
