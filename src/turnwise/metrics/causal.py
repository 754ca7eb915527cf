"""What the metrics that ask a causal language model share: reductions, and normalisation by a low quantile."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.dialogue import Example
from turnwise.metrics.base import Mode, RunMetric, Score
from turnwise.metrics.masked import NOTHING_TO_JUDGE, surprisals
from turnwise.metrics.normalise import BATCH, DEFAULT, Constants, load_constants
from turnwise.metrics.registry import plain_form
from turnwise.models.requests import TokenScores
from turnwise.problems import Problem

Reduction = Literal["mean", "sum", "median", "min"]

CITE = "Pang et al. 2020, Towards Holistic and Automatic Evaluation of Open-Domain Dialogue Generation"
MODES: tuple[Mode, ...] = ("recommended", "paper", "released")
# Neither a stored set nor the batch: the log-likelihood as it is.
RAW = "none"

_REDUCE: Mapping[Reduction, Callable[[NDArray[np.float64]], Any]] = {
    "mean": np.mean,
    "sum": np.sum,
    "median": np.median,
    "min": np.min,
}


def reduced(log_probs: Sequence[float], reduction: Reduction) -> float:
    """One number for the log-likelihoods of all tokens.

    >>> [reduced([-1.0, -2.0, -6.0], how) for how in ("mean", "sum", "median", "min")]
    [-3.0, -9.0, -2.0, -6.0]
    """
    return float(_REDUCE[reduction](np.asarray(log_probs, dtype=np.float64)))


def above_cutoff(raw: ArrayLike, cutoff: float) -> NDArray[np.float64]:
    """How far log-likelihoods lie above a cutoff, as a share of its size: 0 at the cutoff and below, 1 at certainty.

    >>> above_cutoff([-10, -40, -200], -168).round(6).tolist()
    [0.940476, 0.761905, 0.0]
    """
    if cutoff == 0:
        raise ValueError("a cutoff of 0 leaves nothing to normalise by")
    column = np.asarray(raw, dtype=np.float64)
    shares: NDArray[np.float64] = (np.maximum(column, cutoff) - cutoff) / abs(cutoff)
    return shares


@dataclass(frozen=True, kw_only=True)
class CausalMetric(RunMetric):
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
    range: ClassVar[tuple[float, float]] = (-math.inf, 0.0)
    roles: ClassVar[frozenset[str]] = frozenset({"causal-lm"})

    def __post_init__(self) -> None:
        if not 0 <= self.quantile <= 1:
            raise ValueError(f"option quantile={self.quantile:g}: write a number from 0 to 1")
        if self.constants != RAW:
            # The class speaks for the recommended form; a normalised score lies elsewhere.
            object.__setattr__(self, "range", (0.0, 1.0))
        object.__setattr__(self, "roles", frozenset({self.role}))
        # Looked up now, so that a request that cannot be met is answered before any work is done.
        _ = self.cutoff

    @cached_property
    def cutoff(self) -> float | None:
        """The stored quantile; None while the batch is awaited, or where nothing is normalised."""
        if self.constants in (RAW, BATCH):
            return None
        request = plain_form(self, without=("constants", "quantile"))
        return self._stored.bounds(request, (self.quantile, self.quantile))[0]

    @property
    def calibrated_to(self) -> str | None:
        return self.constants if self.constants == DEFAULT else None

    def options(self) -> dict[str, object]:
        given = super().options()
        if self.constants in (RAW, BATCH):
            return given
        return given | {"constants": self._stored.label}

    @cached_property
    def _stored(self) -> Constants:
        """The constants as they were when first read: a signature names those that made the scores."""
        return load_constants(self.constants)

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
