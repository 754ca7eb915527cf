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
    widest = longest = prefixes = 0
    last: Row | None = None
    for i in order:
        row = rows[i]
        # Rows that share a prefix are neighbours, so that a new one shows.
        new = prefixes + (last is None or (row.prefix is not last.prefix and row.prefix != last.prefix))
        wide, long = max(widest, len(row.ids)), max(longest, len(row.prefix))
        fits = (len(current) + 1) * wide + new * long <= budget
        if last is not None and current and (not fits or row.group != last.group):
            yield current
            current, new, wide, long = [], 1, len(row.ids), len(row.prefix)
        current.append(i)
        prefixes, widest, longest, last = new, wide, long, row
    if current:
        yield current
