"""Which turns a report shows: all of a small run, and of a large one both ends of every metric and an even sample.

That is decided while turns come in, so that only the turns that are shown keep the tokens of their scores: those
take more room than everything else about a turn.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from turnwise.engine.local import Judged
from turnwise.stats.arrays import FloatArray

ALL_UP_TO = 5_000
EVENLY = 1_500
AT_THE_ENDS = 500
AT_EACH_END = 25
# Tokens are let go so many turns at a time.
BLOCK = 1_000


def step_of(total: int) -> int:
    """Every how many turns one is shown: a power of two, so that whatever is shown of many was shown of fewer.

    >>> step_of(5_000), step_of(6_000), step_of(6_001)
    (1, 4, 8)
    """
    step = 1
    while total > ALL_UP_TO and total > EVENLY * step:
        step *= 2
    return step


def shown_turns(scores: Mapping[str, FloatArray], total: int) -> NDArray[np.intp]:
    """The places of the turns that are shown, given the scores of all of them by metric, NaN where there is none."""
    picked = np.zeros(total, dtype=np.bool_)
    picked[:: step_of(total)] = True
    if total > ALL_UP_TO and scores:
        each = min(AT_EACH_END, max(1, AT_THE_ENDS // (2 * len(scores))))
        for values in scores.values():
            present = np.flatnonzero(~np.isnan(values))
            for side in (values[present], -values[present]):
                picked[present[np.argsort(side, kind="stable")[:each]]] = True
    return np.flatnonzero(picked)


class Shown:
    """Sees turns as they come, and takes the tokens from those that no report will show."""

    def __init__(self, metrics: Sequence[str]) -> None:
        self._places = array("q")
        self._holding: set[int] = set()
        self._ends: dict[tuple[str, int], list[tuple[float, int]]] = {(k, s): [] for k in metrics for s in (1, -1)}

    def see(self, judged: list[Judged]) -> None:
        """Look at the last turn of the list; now and then turns before it are replaced by ones without tokens."""
        item = judged[-1]
        if item.row.example is None:
            return
        number = len(self._places)
        self._places.append(len(judged) - 1)
        self._holding.add(number)
        for (key, sign), ends in self._ends.items():
            if (value := item.scores[key].value) is not None and isfinite(value):
                # The least of these goes first: the value nearest the middle, and of equal ones the last.
                push = heapq.heappush if len(ends) < AT_EACH_END else heapq.heappushpop
                push(ends, (sign * value, -number))
        if number >= ALL_UP_TO and number % BLOCK == 0:
            self._let_go(judged)

    def _let_go(self, judged: list[Judged]) -> None:
        step = step_of(len(self._places))
        kept = {-number for ends in self._ends.values() for _, number in ends}
        kept.update(number for number in self._holding if number % step == 0)
        for number in self._holding - kept:
            place = self._places[number]
            judged[place] = _without_tokens(judged[place])
        self._holding = kept


def _without_tokens(item: Judged) -> Judged:
    return Judged(item.row, {k: replace(s, tokens=()) if s.tokens else s for k, s in item.scores.items()})
