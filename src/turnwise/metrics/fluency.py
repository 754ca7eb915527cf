"""Holistic's fluency (Pang et al. 2020): how likely is the response on its own?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from turnwise.dialogue import Example
from turnwise.metrics.base import Mode
from turnwise.metrics.causal import CausalMetric
from turnwise.metrics.normalise import BATCH
from turnwise.metrics.registry import register
from turnwise.models.requests import Continuation, Request


@register({"fluency": {}})
@dataclass(frozen=True, kw_only=True)
class Fluency(CausalMetric):
    """Paper: the mean over all tokens. Released: over all but the first, which is given (`begin=false`)."""

    summary: ClassVar[str] = "log-likelihood of the response on its own, by a causal language model"
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "paper": {"constants": BATCH},
        "released": {"begin": False, "constants": BATCH},
    }

    def requests(self, example: Example) -> Sequence[Request]:
        return (Continuation("", example.response, self.begin, role=self.role),)
