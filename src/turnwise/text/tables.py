"""Tables of how often each of many things occurs: by name while they are small, else as sorted numbers on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.stats import spill


@dataclass(frozen=True, slots=True, eq=False)
class Hashed:
    """A large table in twelve bytes an entry, on disk: 64 bits that stand for the thing, in order, and its count.

    Among ten million things two share their bits with odds of 1 in 400,000.
    """

    keys: NDArray[np.uint64]
    counts: NDArray[np.integer[Any]]

    @classmethod
    def of(cls, table: Table) -> Hashed:
        """A table of any kind in this form."""
        if isinstance(table, Hashed):
            return table
        return _hashed([table])

    def __len__(self) -> int:
        return len(self.keys)

    def at(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The counts of some things, 0 for those that do not occur."""
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.int64)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.counts[place], 0).astype(np.int64)


Table = Mapping[str, int] | Hashed
# A table of more things than this is kept as numbers: strings take ten times as much room.
MOST_NAMED = 128
# Of larger tables one range of keys is merged after the other, so that what is in memory at a time has a limit.
RANGE = 1 << 18
ENTRY_BYTES = 12


def merged(tables: Sequence[Table]) -> Table:
    """Tables added up into one."""
    named = [table for table in tables if not isinstance(table, Hashed)]
    if len(named) == len(tables) and sum(map(len, named)) <= MOST_NAMED:
        total = Counter(named[0])
        for other in named[1:]:
            for thing, count in other.items():
                total[thing] += count
        return total
    hashed = [Hashed.of(table) for table in tables if isinstance(table, Hashed)]
    # One array of all that is named, instead of one of each.
    hashed += [_hashed(named)] if named else []
    size = sum(map(len, hashed))
    spill.release(size * ENTRY_BYTES)
    if size <= RANGE:
        return _concatenated([(table.keys, table.counts) for table in hashed])
    ends = np.linspace(0, 2.0**64, size // RANGE + 2)[1:-1].astype(np.uint64)
    cuts = [[0, *np.searchsorted(table.keys, ends).tolist(), len(table)] for table in hashed]
    return _joined(
        [
            _concatenated(
                [
                    (t.keys[cut[i] : cut[i + 1]], t.counts[cut[i] : cut[i + 1]])
                    for t, cut in zip(hashed, cuts, strict=True)
                ]
            )
            for i in range(len(ends) + 1)
        ]
    )


def _hashed(tables: Sequence[Mapping[str, int]]) -> Hashed:
    # Python's own hash differs between processes.
    things = (thing.encode("utf-8", "surrogatepass") for table in tables for thing in table)
    digests = b"".join([blake2b(thing, digest_size=8).digest() for thing in things])
    counts = [count for table in tables for count in table.values()]
    return _added_up(np.frombuffer(digests, dtype="<u8").astype(np.uint64), np.array(counts, dtype=np.int64))


def _concatenated(columns: Sequence[tuple[NDArray[np.uint64], NDArray[np.integer[Any]]]]) -> Hashed:
    return _added_up(np.concatenate([keys for keys, _ in columns]), np.concatenate([counts for _, counts in columns]))


def _joined(ranges: Sequence[Hashed]) -> Hashed:
    """Tables of one range of keys each, one after the other."""
    size = sum(map(len, ranges))
    keys = spill.empty(size, np.uint64)
    counts = spill.empty(size, np.result_type(*(part.counts for part in ranges)))
    place = 0
    for part in ranges:
        keys[place : place + len(part)], counts[place : place + len(part)] = part.keys, part.counts
        place += len(part)
        spill.release(len(part) * ENTRY_BYTES)
    return Hashed(keys, counts)


def _added_up(keys: NDArray[np.uint64], counts: NDArray[np.integer[Any]]) -> Hashed:
    """One entry for each key, in order."""
    if not len(keys):
        return Hashed(keys, counts.astype(np.int32))
    # The stable sort recognises stretches that are in order, and merely merges them.
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    total = np.add.reduceat(counts, first, dtype=np.int64)
    narrow = np.int32 if total.max() <= np.iinfo(np.int32).max else np.int64
    return Hashed(spill.to_disk(keys[first]), spill.to_disk(total.astype(narrow)))
