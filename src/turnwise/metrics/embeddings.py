"""Static word vectors of a response against those of its references: average, extrema and greedy matching."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from turnwise.dialogue import Example
from turnwise.metrics.base import MODES, Mode, Need, Score, TurnMetric
from turnwise.metrics.overlap import NO_REFERENCE_WORDS
from turnwise.metrics.registry import register
from turnwise.models.requests import Lookup, Request
from turnwise.models.vectors import open_vectors
from turnwise.problems import Problem
from turnwise.text.tokenise import Tokens, lower_words, plain_words, treebank_words, words

Vectors = npt.NDArray[np.float64]
Extrema = Literal["signed", "max"]
# nlg-eval prints its numbers and reads them back.
PRINTED_DECIMALS = 6


def cosines(first: Vectors, second: Vectors) -> Vectors:
    """Return the cosine of every row of the first with every row of the second; 0 for a row of zeros.

    >>> cosines(np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[0.0, 2.0]])).tolist()
    [[0.8], [0.0]]
    """
    return np.clip(_unit(first) @ _unit(second).T, -1.0, 1.0)


def _unit(vectors: Vectors) -> Vectors:
    sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(sizes == 0, 1.0, sizes)


def average_similarity(hypothesis: Vectors, reference: Vectors) -> float:
    """Return the cosine of the mean vectors.

    >>> round(average_similarity(np.array([[1, 1], [-2, 0.5]]), np.array([[1, 0], [0, 1]])), 4)
    0.1961
    """
    return _cosine(hypothesis.mean(axis=0), reference.mean(axis=0))


def extrema(vectors: Vectors, rule: Extrema = "signed", *, zero_floor: bool = False) -> Vectors:
    """In each dimension the most extreme number, with its sign, or just the largest.

    `zero_floor` is nlg-eval's slip: where the smallest number is exactly 0, so is the result.

    >>> extrema(np.array([[1, 1], [-2, 0.5]])).tolist(), extrema(np.array([[1, 1], [-2, 0.5]]), "max").tolist()
    ([-2.0, 1.0], [1.0, 1.0])
    """
    top: Vectors = vectors.max(axis=0)
    bottom: Vectors = vectors.min(axis=0)
    if rule == "max":
        return top
    kept = (top > np.abs(bottom)) & ~(zero_floor & (bottom == 0))
    return np.where(kept, top, bottom)


def greedy_similarity(hypothesis: Vectors, reference: Vectors) -> tuple[float, float]:
    """Return the mean best cosine of the hypothesis' words in the reference, and of the reference's in the hypothesis.

    >>> greedy = greedy_similarity(np.array([[1, 1], [-2, 0.5]]), np.array([[1, 0], [0, 1]]))
    >>> [round(way, 4) for way in greedy]
    [0.4748, 0.7071]
    """
    table = cosines(hypothesis, reference)
    return float(table.max(axis=1).mean()), float(table.max(axis=0).mean())


def _cosine(first: Vectors, second: Vectors) -> float:
    return float(cosines(first[None], second[None])[0, 0])


@dataclass(frozen=True, kw_only=True)
class VectorMetric(TurnMetric):
    """A metric on word vectors: those of the models in use, or of a file. With several references the best counts.

    `oov` says what stands for a word without a vector: nothing, zeros, or the mean of all vectors of the file.
    """

    vectors: str | None = None
    oov: Literal["skip", "zero", "mean"] = "skip"
    lower: bool = True

    needs: ClassVar[frozenset[Need]] = frozenset({"references"})
    modes: ClassVar[tuple[Mode, ...]] = ("recommended", "released")
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {"released": {"oov": "mean", "lower": False}}
    roles = frozenset({"vectors"})
    range = (-1.0, 1.0)

    @abstractmethod
    def compare(self, hypothesis: Vectors, reference: Vectors) -> tuple[float, dict[str, float]]:
        """Return the value of two texts that have vectors, and its parts."""

    def __post_init__(self) -> None:
        if self.vectors is not None:
            open_vectors(self.vectors)
        elif self.oov == "mean":
            raise ValueError(
                "the mean of all vectors can be taken of a file only: add vectors=FILE (the published tables had "
                "GloVe 6B 300d), or oov=skip"
            )

    def options(self) -> dict[str, object]:
        given = super().options()
        if self.vectors is None:
            return {key: value for key, value in given.items() if key not in ("vectors", "lower")}
        return given | {"vectors": open_vectors(self.vectors).label}

    def words(self, text: str) -> Tokens:
        """Words as the vectors know them: a pack's as it counted them, those of a file as most files have them."""
        keep_case = self.vectors is not None and not self.lower
        if self.mode == "released":
            return treebank_words(text if keep_case else text.lower())
        if self.vectors is None:
            return plain_words(text)
        return tuple(words(text.replace("’", "'"))) if keep_case else lower_words(text)

    def requests(self, example: Example) -> Sequence[Request]:
        if self.vectors is not None:
            return ()
        return [Lookup(self.words(text)) for text in (example.response, *example.references)]

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        texts = [self.words(text) for text in (example.response, *example.references)]
        if not any(texts[1:]):
            return NO_REFERENCE_WORDS
        if not texts[0]:
            return Score(0.0)
        found = answers if self.vectors is None else [open_vectors(self.vectors).rows(text) for text in texts]
        hypothesis, *references = (self._filled(np.asarray(rows, dtype=np.float64)) for rows in found)
        compared = [self.compare(hypothesis, reference) for reference in references if len(hypothesis) * len(reference)]
        if not compared:
            whose = "references" if len(hypothesis) else "response"
            return Score(None, note=Problem.of("score.no_vectors", whose=whose))
        value, parts = max(compared, key=lambda pair: pair[0])
        known = float(1 - np.isnan(found[0]).any(axis=1).mean())
        return Score(
            round(value, PRINTED_DECIMALS) if self.mode == "released" else value, {**parts, "known words": known}
        )

    def _filled(self, rows: Vectors) -> Vectors:
        """Return the vectors of a text, with something or nothing in place of those that are missing."""
        missing = np.isnan(rows).sum(axis=1) > 0
        if self.oov == "mean" and self.vectors is not None and missing.any():
            return np.where(missing[:, None], open_vectors(self.vectors).mean, rows)
        return np.where(missing[:, None], 0.0, rows) if self.oov == "zero" else rows[~missing]


@register({"embedding-average": {}})
class EmbeddingAverage(VectorMetric):
    """The order of words makes no difference to it."""

    summary: ClassVar[str] = "cosine of the mean word vectors of response and reference"
    cite: ClassVar[str] = "Wieting et al. 2016, Towards Universal Paraphrastic Sentence Embeddings"

    def compare(self, hypothesis: Vectors, reference: Vectors) -> tuple[float, dict[str, float]]:
        return average_similarity(hypothesis, reference), {}


@register({"vector-extrema": {}})
class VectorExtrema(VectorMetric):
    """Extremes, so that the telling words of a text count more than those that occur everywhere."""

    rule: Extrema = "signed"

    summary: ClassVar[str] = "cosine of the most extreme numbers in each dimension of the word vectors"
    cite: ClassVar[str] = "Forgues et al. 2014, Bootstrapping Dialog Systems with Word Embeddings"

    def compare(self, hypothesis: Vectors, reference: Vectors) -> tuple[float, dict[str, float]]:
        as_released = self.mode == "released"
        first, second = (extrema(rows, self.rule, zero_floor=as_released) for rows in (hypothesis, reference))
        return _cosine(first, second), {}


@register({"greedy-matching": {}})
class GreedyMatching(VectorMetric):
    """Each word looks for its best partner: those of the response, of the reference, or both in turn."""

    direction: Literal["both", "response", "reference"] = "both"

    summary: ClassVar[str] = "mean cosine of each word with its closest word on the other side"
    cite: ClassVar[str] = "Rus and Lintean 2012, A Comparison of Greedy and Optimal Assessment of Answers"
    modes: ClassVar[tuple[Mode, ...]] = MODES
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        **VectorMetric.mode_options,
        "paper": {"direction": "response"},
    }

    def compare(self, hypothesis: Vectors, reference: Vectors) -> tuple[float, dict[str, float]]:
        response, other = greedy_similarity(hypothesis, reference)
        values = {"both": (response + other) / 2, "response": response, "reference": other}
        return values[self.direction], {"response": response, "reference": other}
