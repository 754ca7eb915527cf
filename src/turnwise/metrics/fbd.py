"""Fréchet BERT distance (Xiang et al. 2021): how far a system's responses lie from people's, as distributions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.metrics.base import Measured, Mode
from turnwise.metrics.distance import Distance, Sets
from turnwise.metrics.registry import register
from turnwise.problems import Problem
from turnwise.stats.arrays import FloatArray, IntArray
from turnwise.stats.frechet import frechet, frechet_by_counts
from turnwise.stats.subsets import extrapolated


@register({"fbd": {}})
@dataclass(frozen=True, kw_only=True)
class FrechetBertDistance(Distance):
    """Released: the mean term squared. Paper: the mean term as it is."""

    squared: bool = True
    ddof: int = 1

    summary: ClassVar[str] = "Fréchet distance between vectors of the responses and of the references"
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "released": Distance._as_published,
        "paper": {**Distance._as_published, "squared": False},
    }
    higher_is_better: ClassVar[bool | None] = False
    range: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ddof not in (0, 1):
            raise ValueError(f"option ddof={self.ddof}: write 0 or 1")

    def value(self, evidence: Sequence[Any], units: IntArray, draws: FloatArray) -> Measured:
        if len(evidence) < 2:
            return Measured(None, note=Problem.of("value.few_responses"))
        sets = Sets.of(evidence, units)
        found = frechet(sets.said, sets.real, self.ddof)
        # What means and spreads add: together, the value.
        mean = found.mean**2 if self.squared else found.mean
        parts = {"mean": mean, "spread": found.spread, "references": float(len(sets.real))}
        if not len(draws):
            return Measured(found.value(self.squared), parts)
        count = draws.shape[1]
        distance = frechet_by_counts(sets.said, sets.real, sets.said_units, sets.real_units, count, self.ddof)

        def value_of(counts: FloatArray) -> float:
            return distance(counts).value(self.squared) if sets.enough(counts) else math.nan

        limit = extrapolated(value_of, count)
        if limit is not None and math.isfinite(limit):
            parts["debiased"] = limit
        return Measured(found.value(self.squared), parts, resampled=tuple(map(value_of, draws)))
