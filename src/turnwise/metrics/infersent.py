"""Two of MAUDE's baselines, both with InferSent's comparison: over a recurrent network, and over an encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from turnwise.dialogue import Example
from turnwise.metrics.base import Mode, Need, Score, TurnMetric
from turnwise.metrics.masked import check_turns, last_turns
from turnwise.metrics.registry import register
from turnwise.models.heads_numpy import (
    CONTEXT_TURNS,
    CONTEXT_WORDS,
    LAYER,
    compared,
    layers,
    read_text,
    sigmoid,
)
from turnwise.models.requests import Embed, Lookup, Request, Weights
from turnwise.text.tokenise import plain_words

MAUDE = "Sinha et al. 2020, Learning an Unreferenced Metric for Online Dialogue Evaluation"


@dataclass(frozen=True, kw_only=True)
class Compared(TurnMetric):
    """A network that compares the context's vector with the response's; the released form flattens every turn."""

    turns: str = str(CONTEXT_TURNS)

    cite: ClassVar[str] = MAUDE
    needs: ClassVar[frozenset[Need]] = frozenset({"context"})
    modes: ClassVar[tuple[Mode, ...]] = ("recommended", "released")
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {"released": {"turns": "all"}}
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        check_turns(self.turns)

    def context(self, example: Example) -> str:
        """The turns that count, as one text."""
        return " ".join(last_turns(example.context, self.turns))


@register({"infersent": {}})
@dataclass(frozen=True, kw_only=True)
class InferSent(Compared):
    """Reads words with a recurrent network; of a long context, the last ones."""

    summary: ClassVar[str] = "a recurrent network's word that the response is the true one, whole and in place"
    roles: ClassVar[frozenset[str]] = frozenset({"infersent", "vectors"})

    def requests(self, example: Example) -> Sequence[Request]:
        context = plain_words(self.context(example))[-CONTEXT_WORDS:]
        return (Weights("infersent"), Lookup(context), Lookup(plain_words(example.response)))

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        weights, context, response = answers
        read = (read_text(weights, name, words) for name, words in (("context", context), ("response", response)))
        return Score(float(sigmoid(layers(weights, compared(weights, *read)))))


@register({"bert-nli": {}})
@dataclass(frozen=True, kw_only=True)
class BertNli(Compared):
    """DistilBERT-NLI in MAUDE's tables: a frozen encoder's vectors of the flattened context and of the response."""

    summary: ClassVar[str] = "the same word from a frozen encoder's vectors"
    roles: ClassVar[frozenset[str]] = frozenset({"bert-nli", "encoder"})

    def requests(self, example: Example) -> Sequence[Request]:
        texts = (self.context(example), example.response)
        return (Weights("bert-nli"), *(Embed(text, layer=LAYER) for text in texts))

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        weights, context, response = answers
        return Score(float(sigmoid(layers(weights, compared(weights, context, response)))))
