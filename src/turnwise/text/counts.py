"""How often things occur, as a statistic that adds up over many texts and comes apart again."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Moments:
    """All that distinctness and entropy ask of counts: their sum, their number, and the sum of c ln c."""

    size: int
    types: int
    weighted_log: float

    @classmethod
    def of(cls, counts: Iterable[int]) -> Moments:
        present = [count for count in counts if count]
        return cls(sum(present), len(present), math.fsum(count * math.log(count) for count in present))

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


class Counts(ABC):
    """Counts of many texts. Sums and remainders are made lazily, because systems have millions of n-grams."""

    @staticmethod
    def of(things: Iterable[str]) -> Counts:
        """The counts of one text."""
        return Sum((Counter(things),))

    @cached_property
    @abstractmethod
    def table(self) -> Mapping[str, int]:
        """Every thing that occurs, with its count."""

    @cached_property
    @abstractmethod
    def moments(self) -> Moments:
        """The moments of the counts."""

    @property
    def parts(self) -> tuple[Mapping[str, int], ...]:
        """Tables that add up to these counts."""
        return (self.table,)

    def __add__(self, other: Counts) -> Counts:
        kept: list[Mapping[str, int]] = []
        for part in sorted((*self.parts, *other.parts), key=len, reverse=True):
            kept.append(part)
            while len(kept) > 1 and len(kept[-2]) < 2 * len(kept[-1]):
                kept[-2:] = [_merged(kept[-2:])]
        return Sum(tuple(kept))

    def __sub__(self, other: Counts) -> Counts:
        return Remainder(self, other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and self.table == other.table


@dataclass(frozen=True, eq=False)
class Sum(Counts):
    """A few tables, each much larger than the next.

    Adding merges only tables of like size, so that a sum over many texts copies each count a few times
    instead of once for every text.
    """

    tables: tuple[Mapping[str, int], ...]

    @property
    def parts(self) -> tuple[Mapping[str, int], ...]:
        return self.tables

    @cached_property
    def table(self) -> Mapping[str, int]:
        return self.tables[0] if len(self.tables) == 1 else _merged(self.tables)

    @cached_property
    def moments(self) -> Moments:
        return Moments.of(self.table.values())


@dataclass(frozen=True, eq=False)
class Remainder(Counts):
    """A sum without one of its parts: its moments cost no more than the part."""

    whole: Counts
    part: Counts

    @cached_property
    def table(self) -> Mapping[str, int]:
        return Counter(self.whole.table) - Counter(self.part.table)

    @cached_property
    def moments(self) -> Moments:
        taken = self.part.table
        before = Moments.of(self.whole.table.get(thing, 0) for thing in taken)
        after = Moments.of(self.whole.table.get(thing, 0) - count for thing, count in taken.items())
        return Moments(
            self.whole.moments.size - before.size + after.size,
            self.whole.moments.types - before.types + after.types,
            self.whole.moments.weighted_log - before.weighted_log + after.weighted_log,
        )


def _merged(tables: Iterable[Mapping[str, int]]) -> Counter[str]:
    first, *others = tables
    total = Counter(first)
    for other in others:
        for thing, count in other.items():
            total[thing] += count
    return total
