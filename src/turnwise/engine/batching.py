"""Rows into batches: longest first, rows that share a prefix side by side, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnwise.models.protocols import Row


def batches(rows: Sequence[Row], budget: int) -> Iterator[list[int]]:
    """Indices of rows that run together. A row over the budget runs alone.

    Longest first, so that too large a batch fails at once and not after an hour, and neighbours need little
    padding. A prefix that several rows share counts once, as it is read once.

    >>> list(batches([Row((1,)), Row((1, 2, 3)), Row((1, 2))], budget=4))
    [[1], [2, 0]]
    """
    order = sorted(
        range(len(rows)), key=lambda i: (rows[i].group, -len(rows[i].prefix), rows[i].prefix, -len(rows[i].ids))
    )
    current: list[int] = []
    prefixes: set[tuple[int, ...]] = set()
    widest = longest = 0
    for i in order:
        row = rows[i]
        new = prefixes | {row.prefix}
        wide, long = max(widest, len(row.ids)), max(longest, len(row.prefix))
        fits = (len(current) + 1) * wide + len(new) * long <= budget
        if current and (not fits or row.group != rows[current[0]].group):
            yield current
            current, new, wide, long = [], {row.prefix}, len(row.ids), len(row.prefix)
        current.append(i)
        prefixes, widest, longest = new, wide, long
    if current:
        yield current
