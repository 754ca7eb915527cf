"""USL-H (Phy et al. 2020): its sub-metrics, and how they are composed as a hierarchy."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from turnwise.dialogue import Example
from turnwise.metrics.base import MODES, Metric, Mode, Need, PartScore, Score, TurnMetric
from turnwise.metrics.composite import COMPOSITIONS, Composite, Floats
from turnwise.metrics.masked import (
    NO_FAST_PART,
    SHORTEST,
    Likelihood,
    Probability,
    check_length,
    check_turns,
    fast_form,
    last_turns,
)
from turnwise.metrics.registry import load_part, plain_form, register
from turnwise.metrics.scaling import BATCH, DEFAULT, CalibratedMetric, check_count, clamp
from turnwise.models.requests import Classify, Continuation, Lookup, MaskedLikelihood, Request, Window
from turnwise.problems import Problem
from turnwise.text.inputs import context_text
from turnwise.text.tokenise import plain_words

CITE = "Phy et al. 2020, Deconstruct to Reconstruct a Configurable Evaluation Metric for Open-Domain Dialogue Systems"
# The authors' scorer cuts a response, and by default a context, after this many tokens.
RELEASED_LENGTH = 25

Composition = Literal["HS", "H", "A", "geometric", "harmonic"]
Bounds = tuple[float, float]

PUBLISHED_ALPHAS = (0.33, 0.33, 0.34)
# What the terms of each sum are called.
TERMS = {"H": ("U", "US", "USL"), "HS": ("U", "S", "SL"), "A": ("U", "S", "L")}


# --- the composition ------------------------------------------------------------------------------------


def terms(
    u: ArrayLike,
    s: ArrayLike,
    l: ArrayLike,  # noqa: E741  (the paper's letter)
    composition: Composition = "HS",
    alphas: Sequence[float] = PUBLISHED_ALPHAS,
) -> dict[str, Floats]:
    """Return what the score is a sum of: H (Eq. 1), HS (Eq. 3, the one the authors use) or A. Means have no terms.

    >>> {name: round(float(value), 2) for name, value in terms(1, 1, 0.5).items()}
    {'U': 0.33, 'S': 0.33, 'SL': 0.17}
    """
    added = COMPOSITIONS[composition].terms(alphas, (u, s, l))
    return dict(zip(TERMS.get(composition, ()), added, strict=True))


def compose(
    u: ArrayLike,
    s: ArrayLike,
    l: ArrayLike,  # noqa: E741
    composition: Composition = "HS",
    alphas: Sequence[float] = PUBLISHED_ALPHAS,
) -> Floats:
    """USL-H or one of its rivals, of one response or of many, each quality from 0 to 1.

    >>> round(compose(1, 0, 1).item(), 2), round(compose(1, 0, 1, "A").item(), 2)
    (0.33, 0.67)
    """
    return COMPOSITIONS[composition](alphas, (u, s, l))


def likability(qualities: Sequence[ArrayLike], betas: Sequence[float] | None = None) -> Floats:
    """Several likable qualities as one: their weighted sum, equal weights unless given.

    >>> likability([1.0, 0.0], [0.7, 0.3]).item()
    0.7
    """
    weights = betas if betas is not None else [1 / len(qualities)] * len(qualities)
    weighed = [beta * np.asarray(q, dtype=np.float64) for beta, q in zip(weights, qualities, strict=True)]
    return np.asarray(sum(weighed), dtype=np.float64)


def compose_ratings(
    ratings: Sequence[tuple[float | None, float | None, float | None]],
    composition: Composition = "HS",
    alphas: Sequence[float] = PUBLISHED_ALPHAS,
) -> float | None:
    """USL-HH, the same composition of people's own judgements (from 0 to 1): one triple per rater, then their mean.

    Likability need not be judged where a response does not make sense. Raters who left out anything else do not count.

    >>> round(compose_ratings([(1, 1, 0), (1, 1, 0), (1, 1, 0), (1, 1, 1)]), 3)
    0.745
    """
    given = [(u, s, q) for u, s, q in ratings if u is not None and s is not None and (q is not None or not s)]
    known = [(u, s, q or 0.0) for u, s, q in given]
    return float(np.mean([compose(*triple, composition, alphas) for triple in known])) if known else None


# --- the metric -----------------------------------------------------------------------------------------

QUALITIES = {"specificity": "mlm-likelihood"}


@register({"usl-h": {}, "usl-a": {"composition": "A"}})
class UslH(CalibratedMetric, Composite):
    """Any metrics may stand for the three qualities; those that do not lie in 0 to 1 are clamped between quantiles.

    What a response must make sense after is its context and, where some are given, what its speaker knows. The authors
    had no such facts: paper and released ask about the context alone.

    `likability` names one or several, with `betas` for their weights; `constants` says whose quantiles: a named set,
    a JSON file, or `batch`, the responses that are judged. `clamp=0/1` is true min-max. `fast` takes the fast form of
    every part that has one.
    """

    understandable: str = "vup"
    sensible: str = "usr-dr-c"
    likability: tuple[str, ...] = ("specificity",)
    composition: Composition = "HS"
    alphas: tuple[float, ...] = PUBLISHED_ALPHAS
    betas: tuple[float, ...] = ()
    clamp: Bounds = (0.25, 0.75)
    constants: str = DEFAULT
    fast: bool = False

    summary: ClassVar[str] = "understandable, then sensible, then likable, as a hierarchy (usl-a: as a plain average)"
    cite: ClassVar[str] = CITE
    needs: ClassVar[frozenset[Need]] = frozenset({"context"})
    modes: ClassVar[tuple[Mode, ...]] = MODES
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "released": {"sensible": "nup", "constants": "published"},
        "paper": {"sensible": "nup", "clamp": (0.0, 1.0), "constants": BATCH},
    }
    fewer_roles: ClassVar[str] = "sensible=nup"

    @property
    def range(self) -> tuple[float, float]:
        # Weights below 0 do not keep the whole between its qualities.
        return (0.0, 1.0) if min(self.alphas + self.betas) >= 0 else (-math.inf, math.inf)

    def __post_init__(self) -> None:
        if self.composition not in get_args(Composition):
            raise ValueError(f"option composition={self.composition}: choose one of {', '.join(get_args(Composition))}")
        for option, weights, count in (("alphas", self.alphas, 3), ("betas", self.betas, len(self.likable))):
            if weights or option == "alphas":
                check_count(weights, option, count)
                if abs(sum(weights) - 1) > 1e-6:
                    raise ValueError(f"option {option}: they must add up to 1")
        if COMPOSITIONS[self.composition].mean is not None and min(self.alphas + self.betas) < 0:
            raise ValueError(f"option composition={self.composition}: a mean has no weights below 0; give 0 or more")
        if not self.likable:
            raise ValueError("option likability: name a metric, or several with / between them")
        check_count(self.clamp, "clamp", 2)
        low, high = self.clamp
        if not 0 <= low < high <= 1:
            raise ValueError("option clamp: write two quantiles from 0 to 1, the lower first")
        # Parts and numbers are looked up now, so that a wrong request fails before any work is done.
        if self.fast and not any(getattr(part, "fast", False) for part in self.members.values()):
            raise ValueError(NO_FAST_PART)
        _ = self.bounds, self.members

    @property
    def first_two(self) -> tuple[str, str]:
        """Return the metrics that stand for understandable and for sensible."""
        return self._form(self.understandable), self._form(self.sensible)

    @property
    def likable(self) -> tuple[str, ...]:
        """Return the metrics of the likable qualities."""
        return tuple(self._form(QUALITIES.get(name, name)) for name in self.likability)

    def _form(self, request: str) -> str:
        return fast_form(request) if self.fast else request

    @cached_property
    def members(self) -> dict[str, Metric]:
        """Return the sub-metrics, by the request that names them."""
        return {name: load_part(name, self.mode) for name in (*self.first_two, *self.likable)}

    @cached_property
    def bounds(self) -> dict[str, Bounds]:
        """Return the bounds of each sub-metric that does not lie in 0 to 1; none while the batch is awaited."""
        if self.constants == BATCH:
            return {}
        forms = {name: plain_form(self.members[name], self.mode) for name in self._unbounded()}
        return {name: self._stored.bounds(form, self.clamp) for name, form in forms.items()}

    @property
    def uses_stored(self) -> bool:
        return super().uses_stored and bool(self._unbounded())

    def _unbounded(self) -> list[str]:
        return [name for name, part in self.members.items() if part.range != (0.0, 1.0)]

    @property
    def waits(self) -> bool:
        return self.constants == BATCH and bool(self._unbounded())

    @property
    def stored(self) -> Mapping[str, Bounds]:
        return self.bounds

    def fit(self, evidence: Sequence[Mapping[str, float]]) -> Mapping[str, Bounds]:
        """Return the quantiles of each part in this run."""
        bounds = {}
        for name in self._unbounded():
            low, high = np.quantile([raw[name] for raw in evidence], self.clamp)
            bounds[name] = (float(low), float(high))
        return bounds

    def finish(self, raw: Score, fitted: Mapping[str, Bounds]) -> Score:
        """Return the score of raw parts, with the normalised value of each and what each term contributes."""
        normal = {name: float(clamp(raw.parts[name], *between)) for name, between in fitted.items()}
        quality = {**raw.parts, **normal}
        betas = self.betas or [1 / len(self.likable)] * len(self.likable)
        liked = float(likability([quality[name] for name in self.likable], betas))
        understandable, sensible = (quality[name] for name in self.first_two)
        triple = (understandable, sensible, liked)
        alphas = self.alphas
        parts = {
            **raw.parts,
            **{f"{name} normalised": value for name, value in normal.items()},
            "likability": liked,
        }
        added = terms(*triple, self.composition, alphas)
        parts |= {f"{term} contribution": float(value) for term, value in added.items()}
        # A part may stand for several qualities.
        weight, contribution = defaultdict[str, float](float), defaultdict[str, float](float)
        for name, alpha, term in zip(self.first_two, alphas, added.values(), strict=False):
            weight[name] += alpha
            contribution[name] += float(term)
        for name, beta in zip(self.likable, betas, strict=True) if added else ():
            # The last term is a multiple of likability, so each quality has its share of it.
            *_, share = terms(understandable, sensible, beta * quality[name], self.composition, alphas).values()
            weight[name] += alphas[2] * beta
            contribution[name] += float(share)
            if len(self.likable) > 1:
                parts[f"{name} contribution"] = parts.get(f"{name} contribution", 0.0) + float(share)
        breakdown = tuple(
            PartScore(name, raw.parts[name], quality[name], weight.get(name), contribution.get(name))
            for name in self.members
        )
        value = float(compose(*triple, self.composition, alphas))
        return Score(value, parts, tokens=raw.tokens, breakdown=breakdown)


# --- USL-H's sub-metrics (Phy et al. 2020): is it a valid utterance, does it follow, how specific i-------


@register({"vup": {}})
class ValidUtterance(Probability):
    """BERT-VUP. It reads the response alone; a pack's model has its own length, the authors' had 25 tokens."""

    max_length: int | None = None

    summary: ClassVar[str] = "how probable it is that the response is a valid utterance, and not a broken one"
    cite: ClassVar[str] = CITE
    modes: ClassVar[tuple[Mode, ...]] = MODES
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {"released": {"max_length": RELEASED_LENGTH}}
    roles = frozenset({"vup"})

    def __post_init__(self) -> None:
        check_length(self.max_length, SHORTEST)

    def requests(self, example: Example) -> Sequence[Request]:
        window = None if self.max_length is None else Window(total=self.max_length)
        return (Classify(example.response, window=window, role="vup"),)


@register({"nup": {}})
class NextUtterance(Probability):
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
    roles = frozenset({"nup"})

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


@register({"empathy": {}})
class Empathy(Probability):
    """The likability of USL_E-H: emotion against none, of the response alone or after some turns."""

    turns: str = "0"

    summary: ClassVar[str] = "how probable it is that the response carries an emotion"
    cite: ClassVar[str] = CITE
    roles = frozenset({"emotion"})

    def __post_init__(self) -> None:
        check_turns(self.turns, least=0)

    def requests(self, example: Example) -> Sequence[Request]:
        turns = last_turns(example.context, self.turns)
        if not turns:
            return (Classify(example.response, role="emotion"),)
        return (Classify(context_text(turns, kept=len(turns)), example.response, role="emotion"),)


# --- specificity: how unexpected the words are ----------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MaskedLm(Likelihood):
    """Judge a response without its context, which is left out on purpose.

    Each token by itself is masked. `fast` reads all of them off one pass instead, with nothing masked.
    """

    fast: bool = False

    cite: ClassVar[str] = CITE
    modes: ClassVar[tuple[Mode, ...]] = MODES
    roles = frozenset({"masked-lm"})

    def requests(self, example: Example) -> Sequence[Request]:
        return (MaskedLikelihood(example.response, masked=not self.fast),)


@register({"mlm-likelihood": {}})
class MlmLikelihood(MaskedLm):
    """The specificity of USL_S-H. It grows with length."""

    summary: ClassVar[str] = "summed surprisal of the response under a masked language model, in nats"
    range = (0.0, math.inf)

    def value(self, total: float, tokens: int) -> float:
        return -total


@register({"mlm-nce": {}})
class MlmNce(MaskedLm):
    """Higher is more ordinary, so people's specificity falls with it."""

    summary: ClassVar[str] = "mean log-likelihood of the response's tokens under a masked language model"
    higher_is_better = False
    range = (-math.inf, 0.0)

    def value(self, total: float, tokens: int) -> float:
        return total / tokens


@register({"mlm-ppl": {}})
class MlmPerplexity(MaskedLm):
    """The authors tried it for understandability."""

    summary: ClassVar[str] = "pseudo-perplexity of the response under a masked language model"
    higher_is_better = False
    range = (1.0, math.inf)

    def value(self, total: float, tokens: int) -> float:
        return math.exp(min(-total / tokens, 700.0))


@register({"lm-likelihood": {}})
class CausalLikelihood(Likelihood):
    """Specificity by a causal language model in place of the masked one."""

    summary: ClassVar[str] = "summed surprisal of the response under a causal language model, in nats"
    cite: ClassVar[str] = CITE
    range = (0.0, math.inf)
    roles = frozenset({"causal-lm"})

    def value(self, total: float, tokens: int) -> float:
        return -total

    def requests(self, example: Example) -> Sequence[Request]:
        return (Continuation("", example.response),)


@register({"mlm-slor": {}})
class MlmSlor(MaskedLm):
    """(L - sum of log p(word)) / m. The authors do not say how they estimate p(word): here, from a pack's dialogues."""

    summary: ClassVar[str] = "log-likelihood above that of the bare words, per token"
    modes: ClassVar[tuple[Mode, ...]] = ("recommended", "paper")
    range = (-math.inf, math.inf)
    roles = frozenset({"masked-lm", "unigrams"})

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
class InverseWordFrequency(TurnMetric):
    """The mean (or the largest) of -log p(word) over the words and marks of a response."""

    reduction: Literal["mean", "max"] = "mean"

    summary: ClassVar[str] = "how rare the words of the response are, in nats"
    cite: ClassVar[str] = "Zhang et al. 2018, Learning to Control the Specificity in Neural Response Generation"
    range = (0.0, math.inf)
    roles = frozenset({"unigrams"})

    def requests(self, example: Example) -> Sequence[Request]:
        return (Lookup(plain_words(example.response), role="unigrams"),)

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        rarity = -np.asarray(answers[0], dtype=np.float64)
        words = plain_words(example.response)
        if not words:
            return Score(None, note=Problem.of("score.no_words"))
        value = float(rarity.mean() if self.reduction == "mean" else rarity.max())
        return Score(value, tokens=tuple(zip(words, rarity.tolist(), strict=True)))
