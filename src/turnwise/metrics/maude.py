"""MAUDE (Sinha et al. 2020): does the response belong to the conversation so far? Learnt by contrast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.dialogue import Example
from turnwise.metrics.base import Mode, Need, Score, TurnMetric
from turnwise.metrics.masked import check_turns, last_turns
from turnwise.metrics.registry import register
from turnwise.models.quality import yes
from turnwise.models.requests import Converse, Request


@register({"maude": {}})
class Maude(TurnMetric):
    """Each turn is encoded by itself and read in its order; what was read before is remembered.

    Paper and released are heads of their own, which a pack has only if they were trained for it.
    """

    turns: str = "all"
    role: str = "maude"

    summary: ClassVar[str] = "how probable it is that the response belongs to the conversation so far"
    cite: ClassVar[str] = "Sinha et al. 2020, Learning an Unreferenced Metric for Online Dialogue Evaluation"
    needs: ClassVar[frozenset[Need]] = frozenset({"context"})
    modes: ClassVar[tuple[Mode, ...]] = ("recommended", "paper", "released")
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "paper": {"role": "maude-paper"},
        "released": {"role": "maude-released"},
    }
    range = (0.0, 1.0)

    @property
    def roles(self) -> frozenset[str]:
        return frozenset({self.role})

    def __post_init__(self) -> None:
        check_turns(self.turns)

    def requests(self, example: Example) -> Sequence[Request]:
        return (Converse(tuple(last_turns(example.context, self.turns)), example.response, role=self.role),)

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        return Score(yes(answers[0]))
