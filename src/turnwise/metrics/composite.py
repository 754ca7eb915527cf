"""One number of several metrics: the scores of the parts on common scales, and a rule that combines them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.dialogue import Example
from turnwise.metrics.base import Metric, PartScore, RunMetric, Score, judge_parts, requests_of_parts
from turnwise.metrics.scaling import Clamp, Normaliser
from turnwise.models.requests import Request
from turnwise.problems import Problem

# --- rules ---------------------------------------------------------------------------------------------------
# How weighted qualities become one number: sums, of which some are hierarchies, and means. Of numbers or of arrays.

Floats = NDArray[np.float64]


def linear(weights: Sequence[float], values: Sequence[ArrayLike]) -> list[Floats]:
    """Return the plain weighted sum.

    >>> [float(term) for term in linear([0.5, 2.0], [1.0, 3.0])]
    [0.5, 6.0]
    """
    pairs = zip(weights, values, strict=True)
    return [np.asarray(weight * np.asarray(value, dtype=np.float64)) for weight, value in pairs]


def hierarchy(weights: Sequence[float], values: Sequence[ArrayLike]) -> list[Floats]:
    """Return terms in which each quality counts as far as all before it do: USL-H in full (Phy et al. 2020, Eq. 1).

    >>> [float(term) for term in hierarchy([1.0, 1.0, 1.0], [0.5, 1.0, 0.5])]
    [0.5, 0.5, 0.25]
    """
    return linear(weights, list(accumulate(values, np.multiply)))


def simplified(weights: Sequence[float], values: Sequence[ArrayLike]) -> list[Floats]:
    """Return terms of which the first stands alone and the others are a hierarchy: simplified USL-H (Eq. 3).

    >>> [float(term) for term in simplified([1.0, 1.0, 1.0], [0.0, 1.0, 0.5])]
    [0.0, 1.0, 0.5]
    """
    return linear(weights[:1], values[:1]) + hierarchy(weights[1:], values[1:])


def geometric(weights: Sequence[float], values: Sequence[ArrayLike]) -> Floats:
    """Return the weighted geometric mean.

    >>> geometric([1.0, 1.0], [0.25, 1.0]).item()
    0.5
    """
    shares, qualities = _stacked(weights, values)
    return np.asarray(np.prod(qualities**shares, axis=-1))


def harmonic(weights: Sequence[float], values: Sequence[ArrayLike]) -> Floats:
    """Return the weighted harmonic mean; 0 where a quality that has a weight is 0.

    >>> round(harmonic([1.0, 1.0], [0.5, 1.0]).item(), 4), harmonic([1.0, 1.0], [0.0, 1.0]).item()
    (0.6667, 0.0)
    """
    shares, qualities = _stacked(weights, values)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(1 / np.sum(np.where(shares > 0, shares / qualities, 0.0), axis=-1))


def _stacked(weights: Sequence[float], values: Sequence[ArrayLike]) -> tuple[Floats, Floats]:
    """Return the weights as shares of one, and the qualities side by side."""
    qualities = np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in values))
    return np.asarray(weights, dtype=np.float64) / sum(weights), np.stack(qualities, axis=-1)


@dataclass(frozen=True, slots=True)
class Composition:
    """One of them: a sum, for which `added` says what each quality adds, or a `mean`, which is no such sum.

    A mean holds only for qualities from 0 up and weights of which none is negative.
    """

    added: Callable[[Sequence[float], Sequence[ArrayLike]], list[Floats]] | None = None
    mean: Callable[[Sequence[float], Sequence[ArrayLike]], Floats] | None = None

    def terms(self, weights: Sequence[float], values: Sequence[ArrayLike]) -> list[Floats]:
        """Return what each quality adds; nothing where there is no such thing."""
        return [] if self.added is None else self.added(weights, values)

    def __call__(self, weights: Sequence[float], values: Sequence[ArrayLike]) -> Floats:
        if self.mean is not None:
            return self.mean(weights, values)
        return np.asarray(sum(self.terms(weights, values)), dtype=np.float64)


COMPOSITIONS: Mapping[str, Composition] = {
    "linear": Composition(linear),
    "A": Composition(linear),
    "H": Composition(hierarchy),
    "HS": Composition(simplified),
    "geometric": Composition(mean=geometric),
    "harmonic": Composition(mean=harmonic),
}

# --- composites ----------------------------------------------------------------------------------------------


class Composite(RunMetric):
    """Combine other metrics into one score.

    A subclass names its parts (`members`), their scales (`stored` or `fit`) and the rule (`finish`, given the raw
    score of each part). A part without a score leaves none, unless it is excused.
    """

    @property
    @abstractmethod
    def members(self) -> Mapping[str, Metric]:
        """Return the parts by name."""

    @property
    def roles(self) -> frozenset[str]:
        return frozenset(role for part in self.members.values() for role in part.roles)

    @property
    def excused(self) -> frozenset[str]:
        """Return the parts that may be missing."""
        return frozenset()

    def label(self, name: str) -> str:
        """Return the name that a score gives a part."""
        return name

    def unscored(self, lacking: Mapping[str, Problem | None]) -> Problem | None:
        """Return why there is no score, given the notes of the parts that have none."""
        return next(iter(lacking.values()))

    def requests(self, example: Example) -> Sequence[Request]:
        return requests_of_parts(self.members, example)

    def raw(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        found = judge_parts(self.members, example, answers)
        raw = {name: score.value for name, score in found.items() if score.value is not None}
        lacking = {name: score.note for name, score in found.items() if score.value is None}
        shown = {self.label(name): value for name, value in raw.items()}
        tokens = next((score.tokens for score in found.values() if score.tokens), ())
        if lacking and (not raw or not lacking.keys() <= self.excused):
            return Score(None, shown, self.unscored(lacking), tokens)
        return Score(None, shown, tokens=tokens, evidence=raw)


# --- composites read from a configuration --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CompositePart:
    """Hold one part: a metric as it was requested, its weight and the scale of its score."""

    name: str
    request: str
    metric: Metric
    weight: float
    normaliser: Normaliser | None = None

    @property
    def least(self) -> float:
        """Return the lower bound of normalised scores."""
        return 0.0 if isinstance(self.normaliser, Clamp) else -math.inf if self.normaliser else self.metric.range[0]

    def normalised(self, value: float) -> float:
        """Return the part's score on the scale that its weight is for."""
        return value if self.normaliser is None else self.normaliser(value)

    def __str__(self) -> str:
        options = ",".join(f"{key}={value}" for key, value in self.metric.options().items())
        scale = "" if self.normaliser is None else f"*{self.normaliser}"
        return f"{self.weight!r}{scale}*{self.request}({options})"


@dataclass(frozen=True, kw_only=True)
class CompositeMetric(Composite):
    """Combine the scores of its parts, with the contribution of each."""

    summary: ClassVar[str] = "a composition of other metrics, read from a configuration"
    cite: ClassVar[str] = "none: the configuration is the user's own"
    range = (-math.inf, math.inf)

    parts: tuple[CompositePart, ...]
    intercept: float = 0.0
    composition: str = "linear"

    @property
    def members(self) -> Mapping[str, Metric]:
        return {part.name: part.metric for part in self.parts}

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

    @property
    def waits(self) -> bool:
        return False

    @property
    def stored(self) -> None:
        """Each part holds its own scale."""

    def fit(self, evidence: Sequence[Any]) -> None:
        """Nothing depends on the run."""

    def finish(self, raw: Score, fitted: None) -> Score:
        return replace(self.compose(list(raw.evidence.values())), tokens=raw.tokens)

    def unscored(self, lacking: Mapping[str, Problem | None]) -> Problem:
        name, why = next(iter(lacking.items()))
        return Problem.of("score.part_unscored", why=str(why or "no score"), part=name)

    def compose(self, raw: Sequence[float]) -> Score:
        """Return the score of the parts' scores, with every part, its normalised value and its contribution."""
        values = [part.normalised(value) for part, value in zip(self.parts, raw, strict=True)]
        weights = [part.weight for part in self.parts]
        composition = COMPOSITIONS[self.composition]
        explained: dict[str, float] = {"intercept": self.intercept} if self.intercept else {}
        for part, score, value in zip(self.parts, raw, values, strict=True):
            explained[part.name] = score
            explained[f"{part.name}.normal"] = value
        added = zip(self.parts, composition.terms(weights, values), strict=False)
        contributions = {part.name: float(term) for part, term in added}
        explained |= {f"{name}.contribution": term for name, term in contributions.items()}
        breakdown = tuple(
            PartScore(part.name, score, value, part.weight, contributions.get(part.name))
            for part, score, value in zip(self.parts, raw, values, strict=True)
        )
        return Score(self.intercept + float(composition(weights, values)), explained, breakdown=breakdown)
