"""How often things occur, as a statistic that adds up over many texts and comes apart again."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.stats import spill
from turnwise.text.tables import ENTRY_BYTES, Hashed, Table, merged


@dataclass(frozen=True, slots=True)
class Moments:
    """All that distinctness and entropy ask of counts: their sum, their number, and the sum of c ln c."""

    size: int
    types: int
    weighted_log: float

    @classmethod
    def of(cls, counts: Iterable[int]) -> Moments:
        present = [count for count in counts if count]
        # The logarithm of 1 is 0, and most n-grams occur once.
        return cls(sum(present), len(present), math.fsum(count * math.log(count) for count in present if count > 1))

    @classmethod
    def of_array(cls, counts: NDArray[np.integer[Any]]) -> Moments:
        """The same, to the last bit, of millions of counts."""
        different, times = np.unique(counts[counts > 0], return_counts=True)
        pairs = list(zip(different.tolist(), times.tolist(), strict=True))
        exact = sum((time * Fraction(count * math.log(count)) for count, time in pairs if count > 1), Fraction())
        return cls(sum(count * time for count, time in pairs), int(times.sum()), float(exact))

    def distinct_ratio(self) -> float | None:
        """Different things as a share of all things; None where there are none.

        >>> Moments.of([2, 1]).distinct_ratio()
        0.6666666666666666
        """
        return self.types / self.size if self.size else None

    def entropy(self) -> float | None:
        """Shannon entropy of the relative frequencies, in nats; None where there are none.

        >>> round(Moments.of([2, 2]).entropy(), 6)
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
        """The counts of one text."""
        return Sum((Counter(things),))

    @cached_property
    @abstractmethod
    def table(self) -> Table:
        """Every thing that occurs, with its count."""

    @cached_property
    @abstractmethod
    def moments(self) -> Moments:
        """The moments of the counts."""

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
    def moments(self) -> Moments:
        table = self.table
        return Moments.of_array(table.counts) if isinstance(table, Hashed) else Moments.of(table.values())


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
    def moments(self) -> Moments:
        whole, part = self.whole.table, self.part.table
        if isinstance(whole, Hashed) or isinstance(part, Hashed):
            taken = Hashed.of(part)
            spill.release(len(taken) * ENTRY_BYTES)
            there = Hashed.of(whole).at(taken.keys)
            before, after = Moments.of_array(there), Moments.of_array(there - taken.counts)
        else:
            before = Moments.of(whole.get(thing, 0) for thing in part)
            after = Moments.of(whole.get(thing, 0) - count for thing, count in part.items())
        return Moments(
            self.whole.moments.size - before.size + after.size,
            self.whole.moments.types - before.types + after.types,
            self.whole.moments.weighted_log - before.weighted_log + after.weighted_log,
        )
