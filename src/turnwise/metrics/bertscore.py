"""BERTScore (Zhang et al. 2020): tokens matched by vectors that know their sentence, as in the package `bert-score`."""

from __future__ import annotations

import csv
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from turnwise.dialogue import Example
from turnwise.metrics.base import MODES, Mode, Need, RunMetric, Score
from turnwise.metrics.embeddings import cosines
from turnwise.metrics.overlap import NO_REFERENCE_WORDS
from turnwise.metrics.registry import register, show_option
from turnwise.metrics.scaling import BATCH, check_count
from turnwise.models.requests import Embed, Pieces, Request

Floats = npt.NDArray[np.float64]
# The weight of each token, and that of a token which no reference has.
Weighting = tuple[dict[str, float], float]
# Layers are counted from 0, the embeddings.
ROBERTA_LARGE: Mapping[str, object] = {"encoder": "encoder-roberta-large", "layer": 17}


class Triple(NamedTuple):
    """Precision, recall and their harmonic mean."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True)
class TokenMatch:
    """How well the tokens of a response and of one reference find each other, without those of the template."""

    response: tuple[str, ...]
    reference: tuple[str, ...]
    found: Floats
    covered: Floats


def match(response: Pieces, reference: Pieces) -> TokenMatch:
    """Match the tokens of two texts. Tokens of the template may be found, though they do not look for a partner."""
    table = cosines(response.vectors.astype(np.float64), reference.vectors.astype(np.float64))
    first, second = ~np.array(response.added), ~np.array(reference.added)
    return TokenMatch(_own(response), _own(reference), table.max(axis=1)[first], table.max(axis=0)[second])


def _own(text: Pieces) -> tuple[str, ...]:
    return tuple(token for token, added in zip(text.tokens, text.added, strict=True) if not added)


def weigh(found: TokenMatch, weights: Mapping[str, float] | None = None, unseen: float = 1.0) -> Triple:
    """Precision, recall and F1 of a match whose tokens have these weights; all have the same unless given.

    >>> found = TokenMatch(("tea", "."), ("tea",), np.array([1.0, 0.2]), np.array([1.0]))
    >>> [round(value, 4) for value in weigh(found)]
    [0.6, 1.0, 0.75]
    >>> [round(value, 4) for value in weigh(found, {".": 0.0})]
    [1.0, 1.0, 1.0]
    """
    precision = _mean(found.found, found.response, weights or {}, unseen)
    recall = _mean(found.covered, found.reference, weights or {}, unseen)
    total = precision + recall
    return Triple(precision, recall, 2 * precision * recall / total if total else 0.0)


def _mean(values: Floats, tokens: Iterable[str], weights: Mapping[str, float], unseen: float) -> float:
    shares = np.array([weights.get(token, unseen) for token in tokens])
    total = shares.sum() if len(shares) else 0.0
    return float(values @ shares / total) if total else 0.0


def inverse_frequencies(references: Sequence[Iterable[str]]) -> Weighting:
    """Return the weight of each token, by the share of references that have it, and that of a token which none has.

    >>> weights, unseen = inverse_frequencies([["i", "like", "tea"], ["i", "know"]])
    >>> {token: round(weight, 3) for token, weight in sorted(weights.items())}, round(unseen, 3)
    ({'i': 0.0, 'know': 0.405, 'like': 0.405, 'tea': 0.405}, 1.099)
    """
    counts = Counter(token for tokens in references for token in set(tokens))
    whole = len(references) + 1
    return {token: math.log(whole / (count + 1)) for token, count in counts.items()}, math.log(whole)


@register({"bertscore": {}})
class BertScore(RunMetric):
    """On the role `encoder`, or another one. With several references each of the three numbers is its best.

    `baseline` is what unrelated texts get: precision, recall and F1, or a file of the `bert-score` package with a
    line per layer. Scores are then stretched so that it becomes 0 and a perfect match stays 1.
    """

    of: Literal["f1", "precision", "recall"] = "f1"
    encoder: str = "encoder"
    layer: int = -1
    idf: Literal["none", "batch"] = "none"
    baseline: tuple[float, ...] | str = ()

    summary: ClassVar[str] = "tokens matched with those of the reference by their vectors in context"
    cite: ClassVar[str] = "Zhang et al. 2020, BERTScore: Evaluating Text Generation with BERT"
    needs: ClassVar[frozenset[Need]] = frozenset({"references"})
    modes: ClassVar[tuple[Mode, ...]] = MODES
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "released": ROBERTA_LARGE,
        "paper": {**ROBERTA_LARGE, "of": "recall"},
    }
    range = (-math.inf, 1.0)

    @property
    def roles(self) -> frozenset[str]:
        return frozenset({self.encoder})

    def __post_init__(self) -> None:
        # Read now, so that a request that cannot be met is answered before any work is done.
        _ = self._read

    @property
    def floor(self) -> Triple:
        """Return what unrelated texts get."""
        return self._read[0]

    @cached_property
    def _read(self) -> tuple[Triple, tuple[float, ...] | str]:
        """Return what unrelated texts get, and how a signature names it; the same for as long as the metric lives."""
        if not self.baseline:
            return Triple(0.0, 0.0, 0.0), self.baseline
        if isinstance(self.baseline, str):
            floor, digest = _read_baseline(self.baseline, self.layer)
            name: tuple[float, ...] | str = f"{Path(self.baseline).name}#{digest}"
        else:
            check_count(self.baseline, "baseline", 3)
            floor, name = Triple(*self.baseline), self.baseline
        if max(floor) >= 1:
            raise ValueError(f"option baseline={show_option(self.baseline)}: unrelated texts get less than 1")
        return floor, name

    def options(self) -> dict[str, object]:
        return super().options() | {"baseline": self._read[1]}

    def requests(self, example: Example) -> Sequence[Request]:
        # Byte-level tokenizers spell a word by the space before it; other ones do not mind a space.
        texts = (f" {text.strip()}" for text in (example.response, *example.references))
        return [Embed(text, pooling="pieces", layer=self.layer, role=self.encoder) for text in texts]

    @property
    def waits(self) -> bool:
        return self.idf == BATCH

    @property
    def stored(self) -> Weighting:
        return {}, 1.0

    def raw(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        response, *references = answers
        matches = [match(response, reference) for reference in references if not all(reference.added)]
        return Score(None, evidence=matches) if matches else NO_REFERENCE_WORDS

    def fit(self, evidence: Sequence[Sequence[TokenMatch]]) -> Weighting:
        """Weigh tokens by how few of the references of this run have them."""
        return inverse_frequencies([found.reference for matches in evidence for found in matches])

    def finish(self, raw: Score, fitted: Weighting) -> Score:
        found = [weigh(each, *fitted) for each in raw.evidence]
        best = (max(column) for column in zip(*found, strict=True))
        parts = {
            name: (value - floor) / (1 - floor)
            for name, value, floor in zip(Triple._fields, best, self.floor, strict=True)
        }
        return Score(parts[self.of], parts)


def _read_baseline(path: str, layer: int) -> tuple[Triple, str]:
    """Return a layer's line in a file of columns LAYER, P, R and F, and the beginning of the file's SHA-256."""
    try:
        content = Path(path).expanduser().read_bytes()
        rows = list(csv.DictReader(content.decode("utf-8").splitlines()))
        found = {int(row["LAYER"]): Triple(float(row["P"]), float(row["R"]), float(row["F"])) for row in rows}
    except OSError as problem:
        raise ValueError(f"option baseline={path}: cannot be read ({problem.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"option baseline={path}: not a table with columns LAYER,P,R,F") from None
    if layer not in found:
        raise ValueError(
            f"option baseline={path}: it has no layer {layer}; set layer to one of {min(found)} to {max(found)}"
        )
    return found[layer], hashlib.sha256(content).hexdigest()[:8]
