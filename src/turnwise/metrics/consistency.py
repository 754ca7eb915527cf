"""Holistic's logical self-consistency (Pang et al. 2020): does the response contradict what its speaker said before?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar, Literal

from turnwise.dialogue import Example
from turnwise.errors import TurnwiseError
from turnwise.metrics.base import Mode, Need, Score, TurnMetric
from turnwise.metrics.causal import CITE, MODES
from turnwise.metrics.registry import register
from turnwise.models.requests import Classify, Request, Window
from turnwise.problems import Problem

Aggregate = Literal["last", "mean", "max"]
Direction = Literal["forward", "both"]

CONTRADICTION = "contradiction"
NO_EARLIER_TURN = Problem.of("score.no_earlier_turn")
# The authors' classifier read pairs of up to this many tokens.
RELEASED_LENGTH = 128

_TURN = re.compile(r"turn (\d+)")


def own_turns(example: Example) -> list[int]:
    """Where in the context the speaker of the response spoke; without speakers, two people take turns.

    >>> own_turns(Example("Yes.", ("Any pets?", "No.", "Really?")))
    [1]
    >>> own_turns(Example("Yes.", ("Any pets?", "No.", "Really?"), speakers=("B", "A", "C", "B")))
    [0]
    """
    turns = len(example.context)
    if example.speakers:
        return [i for i in range(turns) if example.speakers[i] == example.speakers[-1]]
    return list(range(turns % 2, turns, 2))


def aggregated(contradictions: Sequence[float], aggregate: Aggregate) -> float:
    """One probability of contradiction for those with several earlier turns, in their order.

    >>> [aggregated([0.75, 0.0, 0.25], how) for how in ("last", "mean", "max")]
    [0.25, 0.3333333333333333, 0.75]
    """
    if aggregate == "last":
        return contradictions[-1]
    return fmean(contradictions) if aggregate == "mean" else max(contradictions)


def pairs_of(score: Score) -> list[tuple[int, float]]:
    """Which context turns a score compared the response with, and how probably each pair is a contradiction.

    >>> pairs_of(Score(0.5, {"turn 2": 0.5}))
    [(1, 0.5)]
    """
    found = ((_TURN.fullmatch(name), value) for name, value in score.parts.items())
    return [(int(match[1]) - 1, value) for match, value in found if match]


@register({"consistency": {}})
@dataclass(frozen=True, kw_only=True)
class Consistency(TurnMetric):
    """Recommended: the last own turn, from 0 to 1. Paper: the mean over all own turns. Released: the last, from 0 to 5.

    `direction=both` also asks whether the earlier turn contradicts the response, and takes the mean of the two.
    """

    aggregate: Aggregate = "last"
    scale: float = 1.0
    direction: Direction = "forward"
    max_length: int | None = None

    summary: ClassVar[str] = "how improbable it is that the response contradicts what its speaker said before"
    cite: ClassVar[str] = CITE
    needs: ClassVar[frozenset[Need]] = frozenset({"context"})
    modes: ClassVar[tuple[Mode, ...]] = MODES
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "paper": {"aggregate": "mean", "max_length": RELEASED_LENGTH},
        "released": {"scale": 5.0, "max_length": RELEASED_LENGTH},
    }
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    roles: ClassVar[frozenset[str]] = frozenset({"nli"})

    def __post_init__(self) -> None:
        if not 0 < self.scale < float("inf"):
            raise ValueError(f"option scale={self.scale:g}: write a number above 0")
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"option max_length={self.max_length}: write a whole number of at least 1")
        # The class speaks for the recommended form; another scale ends elsewhere.
        object.__setattr__(self, "range", (0.0, self.scale))

    def unmet_need(self, example: Example) -> Problem | None:
        return super().unmet_need(example) or (None if own_turns(example) else NO_EARLIER_TURN)

    def _compared(self, example: Example) -> list[int]:
        own = own_turns(example)
        return own[-1:] if self.aggregate == "last" else own

    def requests(self, example: Example) -> Sequence[Request]:
        window = None if self.max_length is None else Window(total=self.max_length, keep="start")
        pairs = [(example.context[turn], example.response) for turn in self._compared(example)]
        if self.direction == "both":
            pairs = [pair for earlier, response in pairs for pair in ((earlier, response), (response, earlier))]
        return [Classify(premise, hypothesis, window, "nli") for premise, hypothesis in pairs]

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        chances = [_contradiction(answer) for answer in answers]
        if self.direction == "both":
            chances = [fmean(pair) for pair in zip(chances[::2], chances[1::2], strict=True)]
        parts = {f"turn {turn + 1}": chance for turn, chance in zip(self._compared(example), chances, strict=True)}
        return Score(self.scale * (1 - aggregated(chances, self.aggregate)), parts)


def _contradiction(answer: Mapping[str, float]) -> float:
    if CONTRADICTION not in answer:
        raise TurnwiseError(
            f"the model for 'nli' has no label '{CONTRADICTION}', but {', '.join(answer)}; give another with --models"
        )
    return answer[CONTRADICTION]
