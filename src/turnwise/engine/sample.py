"""Which turns a report shows: all of a small run, and of a large one both ends of every metric and an even sample.

That is decided while turns come in, so that only the turns that are shown keep the tokens of their scores: those
take more room than everything else about a turn.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from turnwise.engine.score import Judged
from turnwise.stats.arrays import FloatArray

ALL_UP_TO = 5_000
EVENLY = 1_500
AT_THE_ENDS = 500
AT_EACH_END = 25
# Tokens are let go so many turns at a time.
BLOCK = 1_000
# Rows that could not be read and are kept of a run that is too large to be kept.
MOST_BAD = 1_000


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


class TurnSample:
    """Sees turns as they come, and takes the tokens from those that no report will show.

    Of a run of more than `most` rows whole turns are let go too: both ends of every metric stay, and an even sample
    that is large enough for charts.
    """

    def __init__(self, metrics: Sequence[str], most: int | None = None) -> None:
        self.left_out = self.left_out_bad = 0
        self._most, self._fewest = most, 0
        self._read = self._bad = 0
        # Turns that have their tokens: their number among those that could be read, and their place in the list.
        self._holding: dict[int, int] = {}
        self._ends: dict[tuple[str, int], list[tuple[float, int]]] = {(k, s): [] for k in metrics for s in (1, -1)}

    @property
    def full(self) -> bool:
        """Whether there have been more rows than are kept."""
        return self._most is not None and self._read + self._bad > self._most

    def see(self, judged: list[Judged]) -> None:
        """Look at the last turn of the list; now and then turns before it are replaced or let go."""
        item = judged[-1]
        if item.row.example is None:
            self._bad += 1
            if self.full and self._bad > MOST_BAD:
                judged.pop()
                self.left_out, self.left_out_bad = self.left_out + 1, self.left_out_bad + 1
            return
        number = self._read
        self._read += 1
        self._holding[number] = len(judged) - 1
        for (key, sign), ends in self._ends.items():
            if (value := item.scores[key].value) is not None and isfinite(value):
                # The least of these goes first: the value nearest the middle, and of equal ones the last.
                if len(ends) < AT_EACH_END:
                    heapq.heappush(ends, (sign * value, -number))
                elif sign * value > ends[0][0]:
                    heapq.heapreplace(ends, (sign * value, -number))
        if number >= ALL_UP_TO and number % BLOCK == 0:
            self._let_go(judged)
        if self._most is not None and len(judged) > max(self._most, self._fewest + self._most // 4):
            self._thin_out(judged)

    def _let_go(self, judged: list[Judged]) -> None:
        step = step_of(self._read)
        kept = {-number for ends in self._ends.values() for _, number in ends} & self._holding.keys()
        kept.update(number for number in self._holding if number % step == 0)
        for number in self._holding.keys() - kept:
            place = self._holding[number]
            judged[place] = _without_tokens(judged[place])
        self._holding = {number: self._holding[number] for number in sorted(kept)}

    def _thin_out(self, judged: list[Judged]) -> None:
        """Half of the even sample goes; a row's place in the whole run decides, so that parts of a run agree."""
        step = 2
        while sum(item.number % step == 0 for item in judged) > 0.4 * len(judged):
            step *= 2
        number_at = {place: number for number, place in self._holding.items()}
        ends = {-number for side in self._ends.values() for _, number in side}
        kept: list[Judged] = []
        holding: dict[int, int] = {}
        for place, item in enumerate(judged):
            number = number_at.get(place)
            at_an_end = number is not None and number in ends
            if item.row.example is None or item.number % step == 0 or at_an_end:
                if number is not None:
                    holding[number] = len(kept)
                kept.append(item)
        self.left_out += len(judged) - len(kept)
        judged[:], self._holding = kept, holding
        # Where the ends alone are more than may be kept, looking through them at every turn would take for ever.
        self._fewest = len(kept)


def _without_tokens(item: Judged) -> Judged:
    return replace(item, scores={k: replace(s, tokens=()) if s.tokens else s for k, s in item.scores.items()})
