"""Holistic evaluation (Pang et al. 2020): coherence, fluency, consistency and diversity."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from statistics import fmean
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.dialogue import Example
from turnwise.errors import TurnwiseError
from turnwise.metrics.base import MODES, GroupMetric, Mode, Need, Score, TurnMetric
from turnwise.metrics.masked import NOTHING_TO_JUDGE, check_turns, last_turns, surprisals
from turnwise.metrics.registry import plain_form, register
from turnwise.metrics.scaling import BATCH, RAW, CalibratedMetric
from turnwise.models.requests import Classify, Continuation, Request, TokenScores, Window
from turnwise.problems import Problem
from turnwise.text.counts import Counts
from turnwise.text.ngrams import joined_ngrams
from turnwise.text.tokenise import lower_words

Reduction = Literal["mean", "sum", "median", "min"]

CITE = "Pang et al. 2020, Towards Holistic and Automatic Evaluation of Open-Domain Dialogue Generation"

_REDUCE: Mapping[Reduction, Callable[[NDArray[np.float64]], Any]] = {
    "mean": np.mean,
    "sum": np.sum,
    "median": np.median,
    "min": np.min,
}


def reduced(log_probs: Sequence[float], reduction: Reduction) -> float:
    """Return one number for the log-likelihoods of all tokens.

    >>> [reduced([-1.0, -2.0, -6.0], how) for how in ("mean", "sum", "median", "min")]
    [-3.0, -9.0, -2.0, -6.0]
    """
    return float(_REDUCE[reduction](np.asarray(log_probs, dtype=np.float64)))


def above_cutoff(raw: ArrayLike, cutoff: float) -> NDArray[np.float64]:
    """Return how far log-likelihoods lie above a cutoff, as a share of its size: 0 up to the cutoff, 1 at certainty.

    >>> above_cutoff([-10, -40, -200], -168).round(6).tolist()
    [0.940476, 0.761905, 0.0]
    """
    if cutoff == 0:
        raise ValueError("a cutoff of 0 leaves nothing to normalise by")
    column = np.asarray(raw, dtype=np.float64)
    shares: NDArray[np.float64] = (np.maximum(column, cutoff) - cutoff) / abs(cutoff)
    return shares


@dataclass(frozen=True, kw_only=True)
class CausalMetric(CalibratedMetric):
    """The log-likelihood of a response's tokens, reduced to one number, and normalised where asked.

    `constants` says whose low quantile becomes 0: nobody's (`none`), that of the responses which are judged
    (`batch`), or a stored one. `role` names the language model in a pack that holds several.
    """

    reduction: Reduction = "mean"
    begin: bool = True
    constants: str = RAW
    quantile: float = 0.05
    role: str = "causal-lm"

    cite: ClassVar[str] = CITE
    modes: ClassVar[tuple[Mode, ...]] = MODES

    @property
    def range(self) -> tuple[float, float]:
        return (-math.inf, 0.0) if self.constants == RAW else (0.0, 1.0)

    @property
    def roles(self) -> frozenset[str]:
        return frozenset({self.role})

    def __post_init__(self) -> None:
        if not 0 <= self.quantile <= 1:
            raise ValueError(f"option quantile={self.quantile:g}: write a number from 0 to 1")
        # Looked up now, so that a request that cannot be met is answered before any work is done.
        _ = self.cutoff

    @cached_property
    def cutoff(self) -> float | None:
        """Return the stored quantile; None while the batch is awaited, or where nothing is normalised."""
        if self.constants in (RAW, BATCH):
            return None
        request = plain_form(self, without=("constants", "quantile"))
        return self._stored.bounds(request, (self.quantile, self.quantile))[0]

    @property
    def waits(self) -> bool:
        return self.constants == BATCH

    @property
    def stored(self) -> float | None:
        return self.cutoff

    def raw(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        answer: TokenScores = answers[0]
        if not answer.tokens:
            return Score(None, note=NOTHING_TO_JUDGE)
        raw = reduced(answer.log_probs, self.reduction)
        parts = {"raw": raw, "tokens": float(len(answer.tokens)), "log-likelihood": sum(answer.log_probs)}
        return Score(None, parts, tokens=surprisals(answer), evidence=raw)

    def fit(self, evidence: Sequence[float]) -> float:
        """Return the low quantile of this run."""
        return float(np.quantile(evidence, self.quantile))

    def finish(self, raw: Score, fitted: float | None) -> Score:
        if fitted is None:
            return Score(raw.evidence, raw.parts, tokens=raw.tokens)
        if fitted == 0:
            return Score(None, raw.parts, Problem.of("score.no_cutoff"), raw.tokens)
        value = float(above_cutoff(raw.evidence, fitted))
        return Score(value, {**raw.parts, "cutoff": fitted}, tokens=raw.tokens)


# --- Holistic's context coherence (Pang et al. 2020): how likely is the response after its query? --------


@register({"coherence": {}})
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


# --- Holistic's fluency (Pang et al. 2020): how likely is the response on its own? -----------------------


@register({"fluency": {}})
class Fluency(CausalMetric):
    """Paper: the mean over all tokens. Released: over all but the first, which is given (`begin=false`)."""

    summary: ClassVar[str] = "log-likelihood of the response on its own, by a causal language model"
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "paper": {"constants": BATCH},
        "released": {"begin": False, "constants": BATCH},
    }

    def requests(self, example: Example) -> Sequence[Request]:
        return (Continuation("", example.response, self.begin, role=self.role),)


# --- Holistic's logical self-consistency (Pang et al. 2020): does the response contradict what its -------


Aggregate = Literal["last", "mean", "max"]
Direction = Literal["forward", "both"]

CONTRADICTION = "contradiction"
NO_EARLIER_TURN = Problem.of("score.no_earlier_turn")
# The authors' classifier read pairs of up to this many tokens.
RELEASED_LENGTH = 128

_TURN = re.compile(r"turn (\d+)")


def own_turns(example: Example) -> list[int]:
    """Return where in the context the speaker of the response spoke; without speakers, two people take turns.

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
    """Return one probability of contradiction for those with several earlier turns, in their order.

    >>> [aggregated([0.75, 0.0, 0.25], how) for how in ("last", "mean", "max")]
    [0.25, 0.3333333333333333, 0.75]
    """
    if aggregate == "last":
        return contradictions[-1]
    return fmean(contradictions) if aggregate == "mean" else max(contradictions)


def pairs_of(score: Score) -> list[tuple[int, float]]:
    """Return which context turns a score compared the response with, and how probably each pair is a contradiction.

    >>> pairs_of(Score(0.5, {"turn 2": 0.5}))
    [(1, 0.5)]
    """
    found = ((_TURN.fullmatch(name), value) for name, value in score.parts.items())
    return [(int(match[1]) - 1, value) for match, value in found if match]


@register({"consistency": {}})
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
    roles = frozenset({"nli"})

    @property
    def range(self) -> tuple[float, float]:
        return 0.0, self.scale

    def __post_init__(self) -> None:
        if not 0 < self.scale < float("inf"):
            raise ValueError(f"option scale={self.scale:g}: write a number above 0")
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"option max_length={self.max_length}: write a whole number of at least 1")

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
            f"the model for 'nli' has no label '{CONTRADICTION}', but {', '.join(answer)}; give another with `models`"
        )
    return answer[CONTRADICTION]


# --- Holistic's response diversity (Pang et al. 2020): entropy of the n-grams in all replies to one-------


Base = Literal["e", "2", "10"]


def group_grams(tokens: Sequence[str], n: int, whole: str) -> list[str]:
    """Return the n-grams of one reply; a reply of up to n words is one n-gram, so that no reply goes uncounted.

    >>> group_grams(["so", "do", "i"], 2, "so do i"), group_grams(["Sure", "."], 2, "Sure .")
    (['so do', 'do i'], ['Sure .'])
    """
    return joined_ngrams(tokens, n) if len(tokens) > n else [whole]


@dataclass(frozen=True, slots=True)
class Replies:
    """How many replies a group has, and their n-grams."""

    number: int
    grams: Counts

    def __add__(self, other: Replies) -> Replies:
        return Replies(self.number + other.number, self.grams + other.grams)

    def __sub__(self, other: Replies) -> Replies:
        return Replies(self.number - other.number, self.grams - other.grams)


@register({"diversity": {}})
class Diversity(GroupMetric):
    """One entropy per group; a system's value is the mean over its groups.

    Recommended: lower-case words of our tokeniser. Released: words between single spaces, as they are written.
    """

    n: int = 2
    base: Base = "e"

    summary: ClassVar[str] = "entropy of the n-grams in a group of replies to one query and its paraphrases"
    cite: ClassVar[str] = CITE
    needs: ClassVar[frozenset[Need]] = frozenset({"group"})
    modes: ClassVar[tuple[Mode, ...]] = ("recommended", "released")
    range = (0.0, math.inf)

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"option n={self.n}: write a whole number of at least 1")

    def statistic(self, example: Example) -> Replies:
        text = example.response
        if self.mode == "released":
            grams = group_grams(text.split(" "), self.n, text) if text else []
        else:
            tokens = lower_words(text)
            grams = group_grams(tokens, self.n, " ".join(tokens)) if tokens else []
        return Replies(1, Counts.of(grams))

    def value(self, total: Replies) -> float | None:
        """Return the entropy of one group; None where a single reply has nothing to differ from."""
        entropy = total.grams.moments.entropy()
        if entropy is None or total.number < 2:
            return None
        return entropy if self.base == "e" else entropy / math.log(float(self.base))

    def of_group(self, replies: Iterable[str]) -> float | None:
        """Return the diversity of replies that are given as text.

        >>> from turnwise.metrics.registry import load_metric
        >>> round(load_metric("diversity:released").of_group(["Sure .", "Sure .", "OK ."]), 6)
        0.636514
        """
        return self.value(reduce(add, (self.statistic(Example(reply)) for reply in replies), Replies(0, Counts.of(()))))
