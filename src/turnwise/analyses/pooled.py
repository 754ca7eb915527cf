"""Values of systems as wholes, which no turn has, for the correlations over systems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from turnwise.analyses.result import Result
from turnwise.engine.aggregate import Summary
from turnwise.engine.score import Judged


class Pooled:
    """Values of systems as wholes, in place of the means of their turns: made once for all qualities of a corpus."""

    def __init__(self, result: Result, judged: Sequence[Judged]) -> None:
        self.metrics = result.metrics
        self._judged = judged
        self._summaries: dict[str, Summary] = {}
        # Where every turn of the run is of this corpus and counts, the run has the values already.
        run = result.system_values if len(judged) == len(result.judged) else ()
        self._values = {(one.system, one.metric): one.value for one in run}

    def scores(self, systems: Iterable[str], key: str) -> NDArray[np.float64]:
        """What a metric says of each system; not a number where it says nothing."""
        values = [self._value(system, key) for system in systems]
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    def _value(self, system: str, key: str) -> float | None:
        if (system, key) not in self._values:
            if key not in self._summaries:
                self._summaries[key] = Summary({key: self.metrics[key]})
                for item in self._judged:
                    self._summaries[key].add(Judged(item.row, {key: item.scores[key]}))
            self._values[system, key] = self._summaries[key].point(system, key)
        return self._values[system, key]
