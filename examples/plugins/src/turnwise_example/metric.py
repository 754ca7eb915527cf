"""Add a metric: the share of the words of a response that its context contains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.dialogue import Example
from turnwise.metrics.base import Need, Score, TurnMetric


@dataclass(frozen=True, kw_only=True)
class Copied(TurnMetric):
    """Score how much a response repeats. `turns` is an option: `copied[turns=1]` compares with the last turn alone."""

    summary: ClassVar[str] = "share of the words of a response that occur in its context"
    cite: ClassVar[str] = "this example"
    needs: ClassVar[frozenset[Need]] = frozenset({"context"})
    higher_is_better = False
    range = (0.0, 1.0)
    turns: int = 0

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        """Return the share; the engine calls this only for examples that have all `needs`."""
        before = " ".join(example.context[-self.turns :]).casefold().split()
        words = example.response.casefold().split()
        return Score(sum(word in before for word in words) / len(words))
