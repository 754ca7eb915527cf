"""Add a metric that requests a model of the kind lexicon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.dialogue import Example
from turnwise.metrics.base import Score, TurnMetric
from turnwise.models.requests import Request
from turnwise_example.model_kind import Weigh


@dataclass(frozen=True, kw_only=True)
class Warmth(TurnMetric):
    """Score the mean warmth of the words of a response."""

    summary: ClassVar[str] = "mean warmth of the words of a response"
    cite: ClassVar[str] = "this example"
    roles = frozenset({"warmth"})

    def requests(self, example: Example) -> Sequence[Request]:
        """Return what the engine has answered before it calls `judge`."""
        return (Weigh(example.response),)

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        """Return the answer as a score."""
        return Score(float(answers[0][0]))
