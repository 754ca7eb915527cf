"""Tell rows, dialogues and inputs apart: ids that repeat, dialogues of several files, and the input of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.dialogue import Row
from turnwise.errors import TurnwiseError
from turnwise.io.base import shown
from turnwise.io.source import resolve
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
    """Yield the same rows in the same order, but a later row with an earlier row's system and id is a faulty one."""
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


class DialoguesOfFiles:
    """Keeps dialogues of different files apart, unless they are one: equal id, equal system, equal first words.

    A part of a corpus may end in the middle of a dialogue. But files that number their dialogues from 0 share all ids
    and no dialogue: the later file's are renamed, `7 (part-2)`.
    """

    def __init__(self) -> None:
        # As hashes, for there may be millions of dialogues; a name only where a dialogue had to be given another.
        self._ids: set[int] = set()
        self._renamed: dict[int, str | None] = {}

    def told_apart(self, rows: Iterable[Row], file: str) -> Iterator[Row]:
        """Yield the rows of the next file, and mark those that continue a dialogue of an earlier one."""
        mine: dict[int, tuple[int, str | None, bool]] = {}
        for row in rows:
            example = row.example
            if example is None or example.dialogue_id is None:
                yield row
                continue
            name = hash((example.system, example.dialogue_id))
            if name not in mine:
                # Whoever spoke first, these are the first words.
                dialogue = hash((name, (*example.context, example.response)[0]))
                goes_on = dialogue in self._renamed
                new = f"{example.dialogue_id} ({file})" if name in self._ids else None
                mine[name] = dialogue, self._renamed[dialogue] if goes_on else new, goes_on
            _, other, goes_on = mine[name]
            if other is not None:
                example = replace(example, dialogue_id=other)
            yield row if other is None and not goes_on else replace(row, example=example, goes_on=goes_on)
        self._ids |= mine.keys()
        self._renamed |= {dialogue: other for dialogue, other, _ in mine.values()}


class InputIdentity:
    """Names and sizes of the files, and a digest of all rows that were read, whosever they are."""

    def __init__(self, source: object) -> None:
        self._files = _files(source)
        self._rows, self._digest, self._ended = 0, blake2b(digest_size=16), False

    def noted(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the same rows, each counted in as it passes."""
        for row in rows:
            # Folders may be called otherwise on another machine. `ascii` writes the same under every Python.
            facts = (row.id, row.line, row.example, row.error and row.error.code, row.system)
            self._digest.update(ascii(facts).encode("ascii"))
            self._rows += 1
            yield row
        self._ended = True

    def facts(self) -> dict[str, Any]:
        """Return names, sizes, rows and digest as a JSON object; without the digest unless all rows were read."""
        digest = self._digest.hexdigest() if self._ended else None
        return {"files": self._files, "rows": self._rows, "digest": digest}


def same_input(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether two parts were scored from the same input, as far as both know what they were scored from."""
    if first["files"] != second["files"]:
        return False
    read_whole = first["digest"] is not None and second["digest"] is not None
    return not read_whole or (first["rows"], first["digest"]) == (second["rows"], second["digest"])


def _files(source: object) -> list[list[Any]]:
    if isinstance(source, str | Path):
        source = [source]
    if not (isinstance(source, Sequence) and source and all(isinstance(item, str | Path) for item in source)):
        return []
    found = [(known.file if known.path is None else known.path.name, known.path) for known in resolve(source)]
    return [[name, None if path is None else path.stat().st_size] for name, path in found]
