"""Tables of how often each of many things occurs: by name while they are small, else as sorted numbers on disk."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
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
        """Return a table of any kind in this form."""
        if isinstance(table, Hashed):
            return table
        return _hashed([table])

    def __len__(self) -> int:
        return len(self.keys)

    def at(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the counts of some things, 0 for those that do not occur."""
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
        return _added_up(np.concatenate([t.keys for t in hashed]), np.concatenate([t.counts for t in hashed]))
    ends = np.linspace(0, 2.0**64, size // RANGE + 2)[1:-1].astype(np.uint64)
    cuts = [np.searchsorted(table.keys, ends) for table in hashed]
    keys = [np.split(table.keys, cut) for table, cut in zip(hashed, cuts, strict=True)]
    counts = [np.split(table.counts, cut) for table, cut in zip(hashed, cuts, strict=True)]
    ranges = zip(zip(*keys, strict=True), zip(*counts, strict=True), strict=True)
    return _joined([_added_up(np.concatenate(some), np.concatenate(of)) for some, of in ranges])


def _hashed(tables: Sequence[Mapping[str, int]]) -> Hashed:
    # Python's own hash differs between processes.
    things = (thing.encode("utf-8", "surrogatepass") for table in tables for thing in table)
    digests = b"".join([blake2b(thing, digest_size=8).digest() for thing in things])
    counts = [count for table in tables for count in table.values()]
    return _added_up(np.frombuffer(digests, dtype="<u8").astype(np.uint64), np.array(counts, dtype=np.int64))


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
    """Return one entry for each key, in order."""
    if not len(keys):
        return Hashed(keys, counts.astype(np.int32))
    # The stable sort recognises stretches that are in order, and merely merges them.
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    total = np.add.reduceat(counts, first, dtype=np.int64)
    narrow = np.int32 if total.max() <= np.iinfo(np.int32).max else np.int64
    return Hashed(spill.to_disk(keys[first]), spill.to_disk(total.astype(narrow)))


@dataclass(frozen=True, slots=True)
class CountMoments:
    """All that distinctness and entropy ask of counts: their sum, their number, and the sum of c ln c."""

    size: int
    types: int
    weighted_log: float

    @classmethod
    def of(cls, counts: Iterable[int]) -> CountMoments:
        present = [count for count in counts if count]
        # The logarithm of 1 is 0, and most n-grams occur once.
        return cls(sum(present), len(present), math.fsum(count * math.log(count) for count in present if count > 1))

    @classmethod
    def of_array(cls, counts: NDArray[np.integer[Any]]) -> CountMoments:
        """Return the moments of millions of counts, equal to those of `of` to the last bit."""
        different, times = np.unique(counts[counts > 0], return_counts=True)
        pairs = list(zip(different.tolist(), times.tolist(), strict=True))
        exact = sum((time * Fraction(count * math.log(count)) for count, time in pairs if count > 1), Fraction())
        return cls(sum(count * time for count, time in pairs), int(times.sum()), float(exact))

    def distinct_ratio(self) -> float | None:
        """Different things as a share of all things; None where there are none.

        >>> CountMoments.of([2, 1]).distinct_ratio()
        0.6666666666666666
        """
        return self.types / self.size if self.size else None

    def entropy(self) -> float | None:
        """Shannon entropy of the relative frequencies, in nats; None where there are none.

        >>> round(CountMoments.of([2, 2]).entropy(), 6)
        0.693147
        """
        if not self.size:
            return None
        # Rounding may leave a trace below zero where there is a single type.
        return max(0.0, math.log(self.size) - self.weighted_log / self.size)


# So many tables may wait to be merged: together they are merged faster than one by one.
MOST_TABLES = 16


class Counts(ABC):
    """Counts of many texts. Sums and remainders are made lazily, because systems have millions of n-grams."""

    @staticmethod
    def of(things: Iterable[str]) -> Counts:
        """Return the counts of one text."""
        return Sum((Counter(things),))

    @cached_property
    @abstractmethod
    def table(self) -> Table:
        """Return every thing that occurs, with its count."""

    @cached_property
    @abstractmethod
    def moments(self) -> CountMoments:
        """Return the moments of the counts."""

    @property
    def parts(self) -> tuple[Table, ...]:
        """Tables that add up to these counts."""
        return (self.table,)

    def __add__(self, other: Counts) -> Counts:
        parts = (*self.parts, *other.parts)
        if len(parts) <= MOST_TABLES:
            return Sum(parts)
        kept = sorted(parts, key=len)
        together = [kept.pop(0)]
        size = len(together[0])
        while kept and (len(kept[0]) < 2 * size or len(kept) > MOST_TABLES // 2):
            size += len(kept[0])
            together.append(kept.pop(0))
        return Sum((*reversed(kept), merged(together)))

    def __sub__(self, other: Counts) -> Counts:
        return Remainder(self, other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return False
        ours, theirs = self.table, other.table
        if not isinstance(ours, Hashed) and not isinstance(theirs, Hashed):
            return ours == theirs
        ours, theirs = Hashed.of(ours), Hashed.of(theirs)
        return np.array_equal(ours.keys, theirs.keys) and np.array_equal(ours.counts, theirs.counts)


@dataclass(frozen=True, eq=False)
class Sum(Counts):
    """A few tables. Once they are too many, those of like size are merged, the smallest first.

    So a sum over many texts copies each count a few times instead of once for every text.
    """

    tables: tuple[Table, ...]

    @property
    def parts(self) -> tuple[Table, ...]:
        return self.tables

    @cached_property
    def table(self) -> Table:
        return self.tables[0] if len(self.tables) == 1 else merged(self.tables)

    @cached_property
    def moments(self) -> CountMoments:
        table = self.table
        return CountMoments.of_array(table.counts) if isinstance(table, Hashed) else CountMoments.of(table.values())


@dataclass(frozen=True, eq=False)
class Remainder(Counts):
    """A sum without one of its parts: its moments cost no more than the part."""

    whole: Counts
    part: Counts

    @cached_property
    def table(self) -> Table:
        whole, part = self.whole.table, self.part.table
        if not isinstance(whole, Hashed) and not isinstance(part, Hashed):
            return Counter(whole) - Counter(part)
        ours = Hashed.of(whole)
        left = ours.counts - Hashed.of(part).at(ours.keys)
        return Hashed(ours.keys[left > 0], left[left > 0])

    @cached_property
    def moments(self) -> CountMoments:
        whole, part = self.whole.table, self.part.table
        if isinstance(whole, Hashed) or isinstance(part, Hashed):
            taken = Hashed.of(part)
            spill.release(len(taken) * ENTRY_BYTES)
            there = Hashed.of(whole).at(taken.keys)
            before, after = CountMoments.of_array(there), CountMoments.of_array(there - taken.counts)
        else:
            before = CountMoments.of(whole.get(thing, 0) for thing in part)
            after = CountMoments.of(whole.get(thing, 0) - count for thing, count in part.items())
        return CountMoments(
            self.whole.moments.size - before.size + after.size,
            self.whole.moments.types - before.types + after.types,
            self.whole.moments.weighted_log - before.weighted_log + after.weighted_log,
        )
