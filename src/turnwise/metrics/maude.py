"""MAUDE (Sinha et al. 2020): does the response belong to the conversation so far? Learnt by contrast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from turnwise.dialogue import Example
from turnwise.metrics.base import MODES, Mode, Need
from turnwise.metrics.masked import Probability, check_turns, last_turns
from turnwise.metrics.registry import register
from turnwise.models.requests import Converse, Request


@register({"maude": {}})
class Maude(Probability):
    """Each turn is encoded by itself and read in its order; what was read before is remembered.

    Paper and released are heads of their own, which a pack has only if they were trained for it.
    """

    turns: str = "all"
    role: str = "maude"

    summary: ClassVar[str] = "how probable it is that the response belongs to the conversation so far"
    cite: ClassVar[str] = "Sinha et al. 2020, Learning an Unreferenced Metric for Online Dialogue Evaluation"
    needs: ClassVar[frozenset[Need]] = frozenset({"context"})
    modes: ClassVar[tuple[Mode, ...]] = MODES
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "paper": {"role": "maude-paper"},
        "released": {"role": "maude-released"},
    }

    @property
    def roles(self) -> frozenset[str]:
        return frozenset({self.role})

    def __post_init__(self) -> None:
        check_turns(self.turns)

    def requests(self, example: Example) -> Sequence[Request]:
        return (Converse(tuple(last_turns(example.context, self.turns)), example.response, role=self.role),)
