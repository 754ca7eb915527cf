"""USL-H's sub-metrics (Phy et al. 2020): is it a valid utterance, does it follow, how specific is it?"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from turnwise.dialogue import Example
from turnwise.metrics.base import Mode, Need, Score, TurnMetric
from turnwise.metrics.masked import NOTHING_TO_JUDGE, SHORTEST, check_length, check_turns, last_turns, surprisals
from turnwise.metrics.registry import register
from turnwise.models.quality import yes
from turnwise.models.requests import Classify, Continuation, Lookup, MaskedLikelihood, Request, TokenScores, Window
from turnwise.problems import Problem
from turnwise.text.inputs import context_text
from turnwise.text.tokenise import plain_words

CITE = "Phy et al. 2020, Deconstruct to Reconstruct a Configurable Evaluation Metric for Open-Domain Dialogue Systems"
MODES: tuple[Mode, ...] = ("recommended", "paper", "released")
# The authors' scorer cuts a response, and by default a context, after this many tokens.
RELEASED_LENGTH = 25

# Words as they were counted for a pack's unigrams.


@register({"vup": {}})
@dataclass(frozen=True, kw_only=True)
class ValidUtterance(TurnMetric):
    """BERT-VUP. It reads the response alone; a pack's model has its own length, the authors' had 25 tokens."""

    max_length: int | None = None

    summary: ClassVar[str] = "how probable it is that the response is a valid utterance, and not a broken one"
    cite: ClassVar[str] = CITE
    modes: ClassVar[tuple[Mode, ...]] = MODES
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {"released": {"max_length": RELEASED_LENGTH}}
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    roles: ClassVar[frozenset[str]] = frozenset({"vup"})

    def __post_init__(self) -> None:
        check_length(self.max_length, SHORTEST)

    def requests(self, example: Example) -> Sequence[Request]:
        window = None if self.max_length is None else Window(total=self.max_length)
        return (Classify(example.response, window=window, role="vup"),)

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        return Score(yes(answers[0]))


@register({"nup": {}})
@dataclass(frozen=True, kw_only=True)
class NextUtterance(TurnMetric):
    """BERT-NUP. The paper gives it one turn of context; the released data up to five, joined by spaces.

    The two lengths cut a context and a response that are longer than both together, and leave others whole.
    """

    turns: str = "6"
    context_length: int | None = None
    response_length: int | None = None

    summary: ClassVar[str] = "how probable it is that the response comes next after its context"
    cite: ClassVar[str] = CITE
    needs: ClassVar[frozenset[Need]] = frozenset({"context"})
    modes: ClassVar[tuple[Mode, ...]] = MODES
    _lengths: ClassVar[Mapping[str, object]] = {"context_length": RELEASED_LENGTH, "response_length": RELEASED_LENGTH}
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "released": {"turns": "5", **_lengths},
        "paper": {"turns": "1", **_lengths},
    }
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    roles: ClassVar[frozenset[str]] = frozenset({"nup"})

    def __post_init__(self) -> None:
        check_turns(self.turns)
        if (self.context_length is None) != (self.response_length is None):
            raise ValueError("options context_length and response_length go together")
        # Together they hold the template's tokens too.
        check_length(self.context_length, SHORTEST, "context_length")
        check_length(self.response_length, SHORTEST, "response_length")

    def requests(self, example: Example) -> Sequence[Request]:
        turns = last_turns(example.context, self.turns)
        context = context_text(turns, kept=len(turns)) if self.mode == "recommended" else " ".join(turns)
        window = None
        if self.context_length is not None and self.response_length is not None:
            total = self.context_length + self.response_length
            window = Window(total, self.context_length, self.response_length, together=True)
        return (Classify(context, example.response, window, "nup"),)

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        return Score(yes(answers[0]))


@register({"empathy": {}})
@dataclass(frozen=True, kw_only=True)
class Empathy(TurnMetric):
    """The likability of USL_E-H: emotion against none, of the response alone or after some turns."""

    turns: str = "0"

    summary: ClassVar[str] = "how probable it is that the response carries an emotion"
    cite: ClassVar[str] = CITE
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    roles: ClassVar[frozenset[str]] = frozenset({"emotion"})

    def __post_init__(self) -> None:
        check_turns(self.turns, least=0)

    def requests(self, example: Example) -> Sequence[Request]:
        turns = last_turns(example.context, self.turns)
        if not turns:
            return (Classify(example.response, role="emotion"),)
        return (Classify(context_text(turns, kept=len(turns)), example.response, role="emotion"),)

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        return Score(yes(answers[0]))


# --- specificity: how unexpected the words are ----------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Likelihood(TurnMetric):
    """A value of the response's log-likelihood and its number of tokens. Its context is left out on purpose."""

    cite: ClassVar[str] = CITE
    range: ClassVar[tuple[float, float]] = (0.0, math.inf)

    @abstractmethod
    def value(self, total: float, tokens: int) -> float:
        """The value of a summed log-likelihood."""

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        answer: TokenScores = answers[0]
        if not answer.tokens:
            return Score(None, note=NOTHING_TO_JUDGE)
        total, tokens = sum(answer.log_probs), len(answer.tokens)
        parts = {"tokens": float(tokens), "log-likelihood": total}
        return Score(self.value(total, tokens), parts, tokens=surprisals(answer))


@dataclass(frozen=True, kw_only=True)
class MaskedLm(Likelihood):
    """Each token by itself is masked. `fast` reads all of them off one pass instead, with nothing masked."""

    fast: bool = False

    modes: ClassVar[tuple[Mode, ...]] = MODES
    roles: ClassVar[frozenset[str]] = frozenset({"masked-lm"})

    def requests(self, example: Example) -> Sequence[Request]:
        return (MaskedLikelihood(example.response, masked=not self.fast),)


@register({"mlm-likelihood": {}})
@dataclass(frozen=True, kw_only=True)
class MlmLikelihood(MaskedLm):
    """The specificity of USL_S-H. It grows with length."""

    summary: ClassVar[str] = "summed surprisal of the response under a masked language model, in nats"

    def value(self, total: float, tokens: int) -> float:
        return -total


@register({"mlm-nce": {}})
@dataclass(frozen=True, kw_only=True)
class MlmNce(MaskedLm):
    """Higher is more ordinary, so people's specificity falls with it."""

    summary: ClassVar[str] = "mean log-likelihood of the response's tokens under a masked language model"
    higher_is_better: ClassVar[bool | None] = False
    range: ClassVar[tuple[float, float]] = (-math.inf, 0.0)

    def value(self, total: float, tokens: int) -> float:
        return total / tokens


@register({"mlm-ppl": {}})
@dataclass(frozen=True, kw_only=True)
class MlmPerplexity(MaskedLm):
    """The authors tried it for understandability."""

    summary: ClassVar[str] = "pseudo-perplexity of the response under a masked language model"
    higher_is_better: ClassVar[bool | None] = False
    range: ClassVar[tuple[float, float]] = (1.0, math.inf)

    def value(self, total: float, tokens: int) -> float:
        return math.exp(min(-total / tokens, 700.0))


@register({"lm-likelihood": {}})
@dataclass(frozen=True, kw_only=True)
class CausalLikelihood(Likelihood):
    """Specificity by a causal language model in place of the masked one."""

    summary: ClassVar[str] = "summed surprisal of the response under a causal language model, in nats"
    roles: ClassVar[frozenset[str]] = frozenset({"causal-lm"})

    def value(self, total: float, tokens: int) -> float:
        return -total

    def requests(self, example: Example) -> Sequence[Request]:
        return (Continuation("", example.response),)


@register({"mlm-slor": {}})
@dataclass(frozen=True, kw_only=True)
class MlmSlor(MaskedLm):
    """(L - sum of log p(word)) / m. The authors do not say how they estimate p(word): here, from a pack's dialogues."""

    summary: ClassVar[str] = "log-likelihood above that of the bare words, per token"
    modes: ClassVar[tuple[Mode, ...]] = ("recommended", "paper")
    range: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    roles: ClassVar[frozenset[str]] = frozenset({"masked-lm", "unigrams"})

    def requests(self, example: Example) -> Sequence[Request]:
        return (*super().requests(example), Lookup(plain_words(example.response), role="unigrams"))

    def value(self, total: float, tokens: int) -> float:
        return total / tokens

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        score = super().judge(example, answers)
        if score.value is None:
            return score
        words = float(np.asarray(answers[1], dtype=np.float64).sum())
        parts = {**score.parts, "log-likelihood of words": words}
        return Score(self.value(score.parts["log-likelihood"] - words, len(score.tokens)), parts, tokens=score.tokens)


@register({"iwf": {}})
@dataclass(frozen=True, kw_only=True)
class InverseWordFrequency(TurnMetric):
    """The mean (or the largest) of -log p(word) over the words and marks of a response."""

    reduction: Literal["mean", "max"] = "mean"

    summary: ClassVar[str] = "how rare the words of the response are, in nats"
    cite: ClassVar[str] = "Zhang et al. 2018, Learning to Control the Specificity in Neural Response Generation"
    range: ClassVar[tuple[float, float]] = (0.0, math.inf)
    roles: ClassVar[frozenset[str]] = frozenset({"unigrams"})

    def requests(self, example: Example) -> Sequence[Request]:
        return (Lookup(plain_words(example.response), role="unigrams"),)

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        rarity = -np.asarray(answers[0], dtype=np.float64)
        words = plain_words(example.response)
        if not words:
            return Score(None, note=Problem.of("score.no_words"))
        value = float(rarity.mean() if self.reduction == "mean" else rarity.max())
        return Score(value, tokens=tuple(zip(words, rarity.tolist(), strict=True)))
