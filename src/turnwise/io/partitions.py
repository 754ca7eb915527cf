"""Inputs cut into partitions that workers read on their own, with the lines and ids that the whole file gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from turnwise.dialogue import Row
from turnwise.io.read import read_rows
from turnwise.io.remote import Place, blocks, fetch, is_url

# A partition is what is lost when a worker dies: a minute or so of work with models.
PARTITION_BYTES = 1 << 24
SPLIT = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class Partition:
    """Some lines of a file, or all of it where `size` is None. `lines` is how many come before them."""

    place: Place
    start: int = 0
    size: int | None = None
    lines: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Partition:
        """The way back."""
        return cls(**{**facts, "place": Place(**facts["place"])})

    def rows(self, *, corpus: str | None, mapping: Mapping[str, str] | None) -> Iterator[Row]:
        """The rows, as reading the whole file would have given them."""
        if self.size is None and not is_url(self.place.address):
            yield from read_rows([self.place.address], corpus=corpus, mapping=mapping)
            return
        with TemporaryDirectory() as folder:
            # Lines and ids are those of the whole file. One line before them, empty, so that what opens the part is not
            # taken for what opens a file.
            before = b"\n" if self.lines else b""
            copy = fetch(self.place, Path(folder), self.start, self.size, before)
            for row in read_rows([copy], corpus=corpus, mapping=mapping, lines_before=self.lines - len(before)):
                yield replace(row, file=self.place.address)


def partitions(place: Place, *, whole: bool, most: int = PARTITION_BYTES) -> Iterator[Partition]:
    """A file of JSON Lines in pieces of about `most` bytes; any other file, or one asked for whole, as it is."""
    if whole or place.size <= most or not place.name.lower().endswith(SPLIT):
        yield Partition(place)
        return
    start = at = lines = seen = 0
    for block in blocks(place):
        begin = 0
        while (end := block.find(b"\n", max(begin, start + most - at))) >= 0:
            seen += block.count(b"\n", begin, end + 1)
            yield Partition(place, start, at + end + 1 - start, lines)
            start, lines, begin = at + end + 1, seen, end + 1
        seen += block.count(b"\n", begin)
        at += len(block)
    if at > start:
        yield Partition(place, start, at - start, lines)
