"""What a format is: a `Reader`, found by name, by a file's suffix or by its content."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from turnwise.errors import TurnwiseError, in_brief
from turnwise.plugins import Registry
from turnwise.problems import Problem

if TYPE_CHECKING:
    from turnwise.io.read import Input

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
# What the file itself is to blame for; `open_bytes` says so.
_OF_THE_FILE = (TurnwiseError, OSError, EOFError, zlib.error, lzma.LZMAError)


@dataclass(frozen=True, slots=True)
class Reader:
    """Read one format.

    `records` takes an `Input` and yields a line number and a native row (a dict) for every row, or the `Problem` of one
    that cannot be read. The reader of a file is the one asked for by name, or the first of those with the file's suffix
    whose `sniff` accepts it; without `sniff`, the suffix is enough. A file without a known suffix is offered to all
    readers that have a `sniff`. `general` readers read any rows and come after the others.
    A `splittable` format has one row a line, so that workers may read parts of a file.
    `what`, `files` and `cite` are shown in `turnwise list formats`. `excluded_systems` are left out of correlations by
    the paper, mostly because they are the reference itself.
    """

    name: str
    suffixes: tuple[str, ...]
    sniff: Callable[[Input], bool] | None
    records: Callable[[Input], Records]
    splittable: bool = False
    what: str = ""
    files: str = ""
    cite: str = ""
    general: bool = False
    excluded_systems: tuple[str, ...] = ()

    def read(self, source: Input) -> Records:
        """Yield the native rows of a source; a reader that fails costs the source."""
        try:
            yield from self.records(source)
        except _OF_THE_FILE:
            raise
        except Exception as problem:
            reason = f"{type(problem).__name__}: {in_brief(problem)}"
            raise TurnwiseError(f"{source.file}: the reader '{self.name}' failed ({reason})") from problem


def _adapt(name: str, thing: Any) -> Reader:
    if not isinstance(thing, Reader):
        raise TypeError(f"expected a turnwise.io.base.Reader, got {kind(thing)}")
    return replace(thing, name=name)


READERS = Registry[Reader](
    "format",
    "turnwise.readers",
    modules=("turnwise.io.corpora", "turnwise.io.tables", "turnwise.io.json_text"),
    hint="see `turnwise list formats`",
    adapt=_adapt,
)


def register(*readers: Reader) -> None:
    """Register readers of turnwise itself."""
    for reader in readers:
        READERS.add(reader.name, reader, module=__name__)


def readers() -> list[Reader]:
    """Return all readers, general ones last."""
    return sorted((reader for _, reader in READERS.items()), key=lambda reader: reader.general)


def suffixes(*, splittable: bool = False) -> frozenset[str]:
    """Return the suffixes of all formats, or of those that can be split."""
    return frozenset(suffix for reader in readers() if reader.splittable >= splittable for suffix in reader.suffixes)


def reader_for(source: Input) -> Reader:
    """Return the reader of a source: by its suffix, else by its content."""
    known = readers()
    named = [reader for reader in known if source.suffix in reader.suffixes]
    chosen = next((reader for reader in named if reader.sniff is None or reader.sniff(source)), None)
    return chosen or next(reader for reader in known if reader.sniff is not None and reader.sniff(source))


def find(corpus: str) -> Reader:
    """Return the reader of this name."""
    try:
        return READERS.get(corpus)
    except TurnwiseError as problem:
        raise TurnwiseError(f"`corpus={corpus}`: {problem}") from None


def corpus_exclusions(corpus: str) -> tuple[str, ...]:
    """Return the systems that a corpus's paper leaves out of its correlations."""
    return find(corpus).excluded_systems


def format_table() -> list[dict[str, str]]:
    """Return name, files, content and source of every format."""
    formats = sorted(readers(), key=lambda reader: not reader.general)
    rows = [(one.name, one.files or ", ".join(one.suffixes), one.what, one.cite) for one in formats]
    general = sum(one.general for one in formats)
    rows[general:general] = [
        ("compressed", ".gz, .xz, .zst", "any of the above but Parquet, read as they are", ""),
        ("standard input", "-", "JSON Lines, a JSON list, or CSV or TSV whose header names the response", ""),
    ]
    return [dict(zip(("format", "files", "what", "cite"), row, strict=True)) for row in rows]


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
    """Return a value's type in the words of a JSON file.

    >>> kind(None), kind([1]), kind(2.5)
    ('null', 'a list', 'a number')
    """
    return _KINDS.get(type(value), f"a Python {type(value).__name__}")


def shown(value: object, limit: int = 40) -> str:
    """Return a value short enough for a one-line message."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
