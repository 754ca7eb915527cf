"""What can be said of a response without reading anything else: how long it is and how varied its words are."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.dialogue import Example
from turnwise.metrics.base import Mode, PooledMetric, Score, TurnMetric
from turnwise.metrics.registry import register
from turnwise.problems import Problem
from turnwise.text.counts import CountMoments, Counts, Sum
from turnwise.text.ngrams import count_ngrams
from turnwise.text.tokenise import lower_words


@register({"length": {}})
class Length(TurnMetric):
    """Words between spaces. It has no better end, and yet it follows human ratings closely."""

    summary: ClassVar[str] = "number of words in the response"
    cite: ClassVar[str] = "none: the baseline that every other metric should beat"
    higher_is_better = None
    range = (0.0, math.inf)

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        return Score(float(len(example.response.split())))


@dataclass(frozen=True, kw_only=True)
class NgramMetric(PooledMetric):
    """A value of the n-grams of one response, or of all the responses of a system together."""

    n: int

    modes: ClassVar[tuple[Mode, ...]] = ("recommended", "released")

    @abstractmethod
    def grams(self, text: str) -> Mapping[str, int]:
        """Return how often each n-gram of a response occurs."""

    @abstractmethod
    def of_moments(self, moments: CountMoments) -> float | None:
        """Return the value of counted n-grams; None where there are none."""

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        value = self.of_moments(CountMoments.of(self.grams(example.response).values()))
        return Score(value, note=None if value is not None else Problem.of("score.few_words", n=self.n))

    def statistic(self, example: Example) -> Counts:
        return Sum((self.grams(example.response),))

    def value(self, total: Counts) -> float | None:
        return self.of_moments(total.moments)


@register({"distinct-1": {"n": 1}, "distinct-2": {"n": 2}})
class Distinct(NgramMetric):
    """Released: the whitespace words of USL-H's scorer. Recommended: lower-case words of our tokeniser."""

    summary: ClassVar[str] = "different n-grams as a share of all n-grams"
    cite: ClassVar[str] = "Li et al. 2016, A Diversity-Promoting Objective Function for Neural Conversation Models"
    range = (0.0, 1.0)

    def grams(self, text: str) -> Mapping[str, int]:
        return count_ngrams(tuple(text.split()) if self.mode == "released" else lower_words(text), self.n)

    def of_moments(self, moments: CountMoments) -> float | None:
        return moments.distinct_ratio()


@register({"entropy-1": {"n": 1}, "entropy-2": {"n": 2}, "entropy-3": {"n": 3}})
class Entropy(NgramMetric):
    """Released: words between single spaces, and a response of up to n words is one n-gram, whole."""

    summary: ClassVar[str] = "entropy of the n-grams, in nats"
    cite: ClassVar[str] = "Pang et al. 2020, Towards Holistic and Automatic Evaluation of Open-Domain Dialogue"
    range = (0.0, math.inf)

    def grams(self, text: str) -> Mapping[str, int]:
        if self.mode == "recommended":
            return count_ngrams(lower_words(text), self.n)
        if not text:
            return {}
        tokens = tuple(text.split(" "))
        return {text: 1} if len(tokens) <= self.n else count_ngrams(tokens, self.n)

    def of_moments(self, moments: CountMoments) -> float | None:
        return moments.entropy()
