"""A metric made of other metrics: each part normalised and weighted, all of it given as data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from turnwise.dialogue import Example
from turnwise.metrics.base import Metric, Score, TurnMetric, judge_parts, requests_of_parts, roles_of_parts
from turnwise.metrics.compositions import COMPOSITIONS
from turnwise.models.requests import Request
from turnwise.problems import Problem


@dataclass(frozen=True, slots=True)
class ZScore:
    """Distance from a stored mean, in stored standard deviations."""

    mean: float
    deviation: float

    def __post_init__(self) -> None:
        if not self.deviation > 0:
            raise ValueError(f"deviation is {self.deviation:g}; give one above 0")

    def __call__(self, value: float) -> float:
        return (value - self.mean) / self.deviation

    def __str__(self) -> str:
        return f"z({self.mean!r},{self.deviation!r})"


@dataclass(frozen=True, slots=True)
class Clamp:
    """Position between two bounds, from 0 to 1; what lies beyond a bound counts as the bound.

    >>> Clamp(low=10, high=20)(12.5), Clamp(low=10, high=20)(99)
    (0.25, 1.0)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low is {self.low:g} and high {self.high:g}; give a low below the high")

    def __call__(self, value: float) -> float:
        return (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)

    def __str__(self) -> str:
        return f"clamp({self.low!r},{self.high!r})"


Normaliser = ZScore | Clamp
NORMALISERS: Mapping[str, type[Normaliser]] = {"z": ZScore, "clamp": Clamp}


@dataclass(frozen=True, slots=True)
class Part:
    """One part: a metric as it was asked for, its weight, and how its score is put on a common scale."""

    name: str
    request: str
    metric: Metric
    weight: float
    normaliser: Normaliser | None = None

    @property
    def least(self) -> float:
        """No normalised score is lower."""
        return 0.0 if isinstance(self.normaliser, Clamp) else -math.inf if self.normaliser else self.metric.range[0]

    def normalised(self, value: float) -> float:
        """The part's score on the scale that its weight is for."""
        return value if self.normaliser is None else self.normaliser(value)

    def __str__(self) -> str:
        options = ",".join(f"{key}={value}" for key, value in self.metric.options().items())
        scale = "" if self.normaliser is None else f"*{self.normaliser}"
        return f"{self.weight!r}{scale}*{self.request}({options})"


@dataclass(frozen=True, kw_only=True)
class CompositeMetric(TurnMetric):
    """Asks what its parts ask, judges by them, and says what each part added."""

    summary: ClassVar[str] = "a composition of other metrics, read from a configuration"
    cite: ClassVar[str] = "none: the configuration is the user's own"
    range: ClassVar[tuple[float, float]] = (-math.inf, math.inf)

    parts: tuple[Part, ...]
    intercept: float = 0.0
    composition: str = "linear"

    def __post_init__(self) -> None:
        object.__setattr__(self, "roles", roles_of_parts(part.metric for part in self.parts))

    @property
    def calibrated_to(self) -> str | None:
        return next(filter(None, (part.metric.calibrated_to for part in self.parts)), None)

    def options(self) -> dict[str, object]:
        parts = {part.name: part for part in self.parts}
        return {"composition": self.composition, "intercept": self.intercept, **parts}

    def unmet_need(self, example: Example) -> Problem | None:
        for part in self.parts:
            if (lacking := part.metric.unmet_need(example)) is not None:
                return Problem.of("score.part_unscored", why=str(lacking), part=part.name)
        return None

    def requests(self, example: Example) -> Sequence[Request]:
        return requests_of_parts(self._metrics, example)

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        scores = judge_parts(self._metrics, example, answers)
        raw = {name: score.value for name, score in scores.items() if score.value is not None}
        tokens = next((score.tokens for score in scores.values() if score.tokens), ())
        for name, score in scores.items():
            if score.value is None:
                why = str(score.note or "no score")
                return Score(None, raw, Problem.of("score.part_unscored", why=why, part=name), tokens)
        return replace(self.compose(list(raw.values())), tokens=tokens)

    @property
    def _metrics(self) -> dict[str, Metric]:
        return {part.name: part.metric for part in self.parts}

    def compose(self, raw: Sequence[float]) -> Score:
        """The score of the parts' scores, with every part, its normalised value and its contribution."""
        values = [part.normalised(value) for part, value in zip(self.parts, raw, strict=True)]
        weights = [part.weight for part in self.parts]
        composition = COMPOSITIONS[self.composition]
        explained: dict[str, float] = {"intercept": self.intercept} if self.intercept else {}
        for part, score, value in zip(self.parts, raw, values, strict=True):
            explained[part.name] = score
            explained[f"{part.name}.normal"] = value
        added = zip(self.parts, composition.terms(weights, values), strict=False)
        explained |= {f"{part.name}.contribution": float(term) for part, term in added}
        return Score(self.intercept + float(composition(weights, values)), explained)
