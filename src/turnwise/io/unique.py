"""Finding ids that occur twice in a stream of any length, at eight bytes an id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from turnwise.dialogue import Row
from turnwise.errors import TurnwiseError
from turnwise.io.problem import shown
from turnwise.problems import Problem

WINDOW = 4096


class SeenKeys:
    """A growing set of 64-bit keys, kept as a few sorted runs of which each is at least twice the next.

    Keys come a window at a time. Looking a window up in every run and merging runs of like size both stay
    cheap, as in a log-structured merge tree; five million keys take 40 MB.
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.int64]] = []

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def add(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Add a window of keys; says of each whether it had been seen before, in this window or earlier."""
        # A stable order puts the first of equal keys first, so that only the later ones count as repeats.
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        seen = np.zeros(len(keys), dtype=np.bool_)
        seen[1:] = ordered[1:] == ordered[:-1]
        for run in self._runs:
            place = np.minimum(np.searchsorted(run, ordered), len(run) - 1)
            seen |= run[place] == ordered
        self._push(ordered[~seen])
        in_given_order = np.empty_like(seen)
        in_given_order[order] = seen
        return in_given_order

    def _push(self, run: NDArray[np.int64]) -> None:
        if not len(run):
            return
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = np.concatenate((self._runs.pop(), run))
            # Two sorted stretches: the stable sort recognises them and merely merges.
            run.sort(kind="stable")
        self._runs.append(run)


def report_repeats(rows: Iterable[Row], window: int = WINDOW) -> Iterator[Row]:
    """The same rows in the same order, but a later row with an earlier row's system and id is a faulty one."""
    seen = SeenKeys()
    for batch in _windows(rows, window):
        good = [row for row in batch if row.example is not None]
        # Python's own hash is 64 bits wide: among five million ids a chance collision has odds of 1 in 10^6.
        keys = (hash((row.example.system, row.id)) for row in good if row.example is not None)
        repeated = iter(seen.add(np.fromiter(keys, dtype=np.int64, count=len(good))).tolist())
        for row in batch:
            yield _faulty(row) if row.example is not None and next(repeated) else row


def _windows(rows: Iterable[Row], window: int) -> Iterator[list[Row]]:
    batch: list[Row] = []
    try:
        for row in rows:
            batch.append(row)
            if len(batch) == window:
                yield batch
                batch = []
    except TurnwiseError:
        # What was read before an archive broke off is still good.
        yield batch
        raise
    yield batch


def _faulty(row: Row) -> Row:
    system = row.example.system if row.example else ""
    return replace(row, example=None, error=Problem.of("id.repeated", "id", id=shown(row.id), system=shown(system)))
