"""Skip-thought (Kiros et al. 2015): texts are alike if a network that foretells neighbours reads them alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from turnwise.dialogue import Example
from turnwise.metrics.base import Mode, Need, Score, TurnMetric
from turnwise.metrics.embeddings import PRINTED_DECIMALS, cosines
from turnwise.metrics.overlap import NO_REFERENCE_WORDS
from turnwise.metrics.registry import register
from turnwise.models.heads_numpy import Numbers, read_text
from turnwise.models.requests import Floats, Lookup, Request, Weights
from turnwise.text.tokenise import plain_words

Part = Literal["both", "uni", "bi"]


@register({"skip-thought": {}})
@dataclass(frozen=True, kw_only=True)
class SkipThought(TurnMetric):
    """One vector from a network that reads forwards and one from a network that reads both ways, side by side.

    `part` takes one of them alone. With several references the best counts.
    """

    part: Part = "both"

    summary: ClassVar[str] = "cosine of the vectors of a network that learnt to foretell neighbouring utterances"
    cite: ClassVar[str] = "Kiros et al. 2015, Skip-Thought Vectors"
    needs: ClassVar[frozenset[Need]] = frozenset({"references"})
    modes: ClassVar[tuple[Mode, ...]] = ("recommended", "released")
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {}
    roles: ClassVar[frozenset[str]] = frozenset({"skip-thought", "vectors"})
    range: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def requests(self, example: Example) -> Sequence[Request]:
        texts = (example.response, *example.references)
        return (Weights("skip-thought"), *(Lookup(plain_words(text)) for text in texts))

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        weights, response, *references = answers
        if not any(map(len, references)):
            return NO_REFERENCE_WORDS
        if not len(response):
            return Score(0.0)
        vectors = [self._vector(weights, words) for words in (response, *references) if len(words)]
        value = float(cosines(np.stack(vectors[:1]), np.stack(vectors[1:])).max())
        return Score(round(value, PRINTED_DECIMALS) if self.mode == "released" else value)

    def _vector(self, weights: Numbers, words: Floats) -> Any:
        wanted = ("uni", "bi") if self.part == "both" else (self.part,)
        return np.concatenate([read_text(weights, name, words) for name in wanted]).astype(np.float64)
