"""Holistic's context coherence (Pang et al. 2020): how likely is the response after its query?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from turnwise.dialogue import Example
from turnwise.metrics.base import Mode, Need
from turnwise.metrics.causal import CausalMetric
from turnwise.metrics.masked import check_turns, last_turns
from turnwise.metrics.normalise import BATCH
from turnwise.metrics.registry import register
from turnwise.models.requests import Continuation, Request


@register({"coherence": {}})
@dataclass(frozen=True, kw_only=True)
class Coherence(CausalMetric):
    """Paper: the mean over tokens. Released: their sum, which favours short responses and made the published table."""

    turns: str = "1"
    separator: Literal["newline", "space"] = "space"

    summary: ClassVar[str] = "log-likelihood of the response after its context, by a causal language model"
    needs: ClassVar[frozenset[Need]] = frozenset({"context"})
    _as_published: ClassVar[Mapping[str, object]] = {"begin": False, "constants": BATCH, "turns": "1"}
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "paper": _as_published,
        "released": {**_as_published, "reduction": "sum"},
    }

    def __post_init__(self) -> None:
        check_turns(self.turns)
        super().__post_init__()

    def requests(self, example: Example) -> Sequence[Request]:
        turns = last_turns(example.context, self.turns)
        if self.separator == "space":
            # A space belongs to the word after it; a newline is a token of its own, and none of the response's.
            return (Continuation(" ".join(turns), f" {example.response}", self.begin, role=self.role),)
        return (Continuation("\n".join([*turns, ""]), example.response, self.begin, role=self.role),)
