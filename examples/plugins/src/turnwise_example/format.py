"""Add a file format: each block quotes the context after `>`, and its last line is the response."""

from __future__ import annotations

from collections.abc import Iterator

from turnwise.io.base import Reader, Record
from turnwise.io.read import Input


def blocks(source: Input) -> Iterator[Record]:
    """Yield the first line number and the row of each block; an empty line ends a block."""
    start, context = 1, list[str]()
    for number, raw in enumerate(source.stream, 1):
        line = raw.decode("utf-8").strip()
        if not line:
            start, context = number + 1, []
        elif line.startswith(">"):
            context.append(line[1:].strip())
        else:
            yield start, {"context": context, "response": line}


QUOTES = Reader(
    name="quotes",
    suffixes=(".quotes",),
    sniff=None,
    records=blocks,
    what="blocks of quoted context, each with one response",
)
