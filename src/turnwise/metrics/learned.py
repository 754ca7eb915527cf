"""Small networks on word or sentence vectors: RUBER, PONE, InferSent's comparison and skip-thought."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from turnwise.dialogue import Example
from turnwise.metrics.base import MODES, Mode, Need, PartScore, RunMetric, Score, TurnMetric
from turnwise.metrics.embeddings import PRINTED_DECIMALS, Vectors, cosines
from turnwise.metrics.masked import check_turns, last_turns
from turnwise.metrics.overlap import NO_REFERENCE_WORDS
from turnwise.metrics.registry import register
from turnwise.models.heads import CONTEXT_TURNS, LAYER
from turnwise.models.requests import Embed, Lookup, Read, Relate, Request
from turnwise.problems import Problem
from turnwise.text.tokenise import plain_words

Blend = Literal["min", "max", "geometric", "arithmetic", "referenced", "unreferenced"]
PARTS = ("referenced", "unreferenced")
Bounds = Mapping[str, tuple[float, float]]

_BLENDS: Mapping[str, Callable[[float, float], float]] = {
    "min": min,
    "max": max,
    "geometric": lambda referenced, unreferenced: (referenced * unreferenced) ** 0.5,
    "arithmetic": lambda referenced, unreferenced: (referenced + unreferenced) / 2,
    "referenced": lambda referenced, _: referenced,
    "unreferenced": lambda _, unreferenced: unreferenced,
}


def blended(referenced: float, unreferenced: float, blend: Blend) -> float:
    """Return one number of two that lie between 0 and 1.

    >>> [round(blended(0.2, 0.8, how), 2) for how in ("min", "max", "geometric", "arithmetic")]
    [0.2, 0.8, 0.4, 0.5]
    """
    return float(_BLENDS[blend](referenced, unreferenced))


def scaled(value: float, low: float, high: float) -> float:
    """Return where a value lies between two others, 0 to 1; 0 where they are one and the same.

    >>> scaled(3, 2, 4), scaled(9, 2, 4), scaled(2, 2, 2)
    (0.5, 1.0, 0.0)
    """
    return min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.0


def pooled_words(vectors: Vectors) -> Vectors:
    """RUBER's vector of a text: the largest number in each dimension of its word vectors, then the smallest.

    >>> pooled_words(np.array([[1.0, 5.0], [3.0, -2.0]])).tolist()
    [3.0, 5.0, 1.0, -2.0]
    """
    return np.concatenate([vectors.max(axis=0), vectors.min(axis=0)])


@dataclass(frozen=True, kw_only=True)
class Blended(RunMetric):
    """A referenced and an unreferenced part, each scaled to 0..1, in one number.

    `scale` says by what: bounds that were measured when the models were trained, or the least and the largest value
    of the very responses that are judged. Without references the recommended form is its unreferenced part.
    """

    blend: Blend = "arithmetic"
    scale: Literal["stored", "batch"] = "stored"
    turns: str = str(CONTEXT_TURNS)

    needs: ClassVar[frozenset[Need]] = frozenset({"context"})
    modes: ClassVar[tuple[Mode, ...]] = MODES
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "paper": {"scale": "batch"},
        "released": {"scale": "batch", "blend": "min", "turns": "all"},
    }
    range = (0.0, 1.0)

    def __post_init__(self) -> None:
        check_turns(self.turns)

    @abstractmethod
    def vectors(self, text: str) -> Request:
        """Return the request for what likeness to a reference is computed from."""

    @abstractmethod
    def likeness(self, response: npt.NDArray[Any], references: Sequence[npt.NDArray[Any]]) -> float:
        """Return the likeness to the best reference."""

    def requests(self, example: Example) -> Sequence[Request]:
        context = " ".join(last_turns(example.context, self.turns))
        texts = (example.response, *example.references) if example.references else ()
        return (Relate(context, example.response, role=self.name), *map(self.vectors, texts))

    def unmet_need(self, example: Example) -> Problem | None:
        optional = self.blend == "unreferenced" or (self.mode == "recommended" and self.blend != "referenced")
        lacking = super().unmet_need(example)
        return lacking or (None if example.references or optional else Problem.of("score.no_references"))

    @property
    def waits(self) -> bool:
        return self.scale == "batch"

    @property
    def stored(self) -> None:
        """Bounds come with each answer."""

    def raw(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        relation, *vectors = answers
        raw = {"unreferenced": relation.probability}
        if vectors:
            raw["referenced"] = self.likeness(vectors[0], vectors[1:])
        return Score(None, raw, evidence=(raw, {"unreferenced": (0.0, 1.0), "referenced": relation.bounds}))

    def fit(self, evidence: Sequence[Any]) -> Bounds:
        """Return the least and the largest value of each part in this run."""
        found = {part: [raw[part] for raw, _ in evidence if part in raw] for part in PARTS}
        return {part: (min(values), max(values)) for part, values in found.items() if values}

    def finish(self, raw: Score, fitted: Bounds | None) -> Score:
        found, stored = raw.evidence
        bounds = stored if fitted is None else fitted
        normal = {part: scaled(value, *bounds[part]) for part, value in found.items()}
        parts = {**found, **{f"{part}, scaled": value for part, value in normal.items()}}
        breakdown = tuple(PartScore(part, value, normal[part]) for part, value in found.items())
        if "referenced" not in found:
            note = None if self.blend == "unreferenced" else Problem.of("score.unreferenced_alone")
            return Score(normal["unreferenced"], parts, note, breakdown=breakdown)
        value = blended(normal["referenced"], normal["unreferenced"], self.blend)
        return Score(value, parts, breakdown=breakdown)


@register({"ruber": {}})
class Ruber(Blended):
    """Words as vectors; a recurrent network reads the context's and the response's for the unreferenced part."""

    summary: ClassVar[str] = "likeness to the reference, and a small network's word that the response follows"
    cite: ClassVar[str] = (
        "Tao et al. 2018, RUBER: An Unsupervised Method for Automatic Evaluation of Open-Domain Dialog"
    )
    roles = frozenset({"ruber", "vectors"})

    def vectors(self, text: str) -> Request:
        return Lookup(plain_words(text))

    def likeness(self, response: npt.NDArray[Any], references: Sequence[npt.NDArray[Any]]) -> float:
        return max(_likeness(response, reference) for reference in references)


def _likeness(response: npt.NDArray[Any], reference: npt.NDArray[Any]) -> float:
    """Return the cosine of two pooled texts, 0 where one of them has no word that has a vector."""
    first, second = (rows[~np.isnan(rows).any(axis=1)].astype(np.float64) for rows in (response, reference))
    if not len(first) or not len(second):
        return 0.0
    return float(cosines(pooled_words(first)[None], pooled_words(second)[None])[0, 0])


@register({"bert-ruber": {}})
class BertRuber(Blended):
    """One vector of an encoder for the context, one for the response; the reference is compared by cosine."""

    summary: ClassVar[str] = "RUBER on sentence vectors of a pretrained encoder"
    cite: ClassVar[str] = "Ghazarian et al. 2019, Better Automatic Evaluation with Contextualized Embeddings"
    roles = frozenset({"bert-ruber", "encoder"})

    def vectors(self, text: str) -> Request:
        return Embed(text, layer=LAYER)

    def likeness(self, response: npt.NDArray[Any], references: Sequence[npt.NDArray[Any]]) -> float:
        return float(cosines(response[None], np.stack(references)).max())


@register({"pone": {}})
class Pone(BertRuber):
    """EN-PONE, the form with enhanced negatives alone, which USL-H's tables have."""

    summary: ClassVar[str] = "BERT-RUBER, taught to tell the response from similar ones"
    cite: ClassVar[str] = (
        "Lan et al. 2020, PONE: A Novel Automatic Evaluation Metric for Open-Domain Generative Dialogue"
    )
    roles = frozenset({"pone", "encoder"})


# --- Two of MAUDE's baselines, both with InferSent's comparison: over a recurrent network, and over-------


MAUDE = "Sinha et al. 2020, Learning an Unreferenced Metric for Online Dialogue Evaluation"


@dataclass(frozen=True, kw_only=True)
class Compared(TurnMetric):
    """A network that compares the context's vector with the response's; the released form flattens every turn."""

    turns: str = str(CONTEXT_TURNS)

    cite: ClassVar[str] = MAUDE
    needs: ClassVar[frozenset[Need]] = frozenset({"context"})
    modes: ClassVar[tuple[Mode, ...]] = ("recommended", "released")
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {"released": {"turns": "all"}}
    range = (0.0, 1.0)

    def __post_init__(self) -> None:
        check_turns(self.turns)

    def requests(self, example: Example) -> Sequence[Request]:
        return (Relate(" ".join(last_turns(example.context, self.turns)), example.response, role=self.name),)

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        return Score(answers[0].probability)


@register({"infersent": {}})
class InferSent(Compared):
    """Reads words with a recurrent network; of a long context, the last ones."""

    summary: ClassVar[str] = "a recurrent network's word that the response is the true one, whole and in place"
    roles = frozenset({"infersent", "vectors"})


@register({"bert-nli": {}})
class BertNli(Compared):
    """DistilBERT-NLI in MAUDE's tables: a frozen encoder's vectors of the flattened context and of the response."""

    summary: ClassVar[str] = "the same word from a frozen encoder's vectors"
    roles = frozenset({"bert-nli", "encoder"})


# --- Skip-thought (Kiros et al. 2015): texts are alike if a network that foretells neighbours reads-------


Part = Literal["both", "uni", "bi"]


@register({"skip-thought": {}})
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
    roles = frozenset({"skip-thought", "vectors"})
    range = (-1.0, 1.0)

    def requests(self, example: Example) -> Sequence[Request]:
        networks = ("uni", "bi") if self.part == "both" else (self.part,)
        texts = (example.response, *example.references)
        return tuple(Read(text, networks, role=self.name) for text in texts if plain_words(text))

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        if not any(map(plain_words, example.references)):
            return NO_REFERENCE_WORDS
        if not plain_words(example.response):
            return Score(0.0)
        vectors = [vector.astype(np.float64) for vector in answers]
        value = float(cosines(np.stack(vectors[:1]), np.stack(vectors[1:])).max())
        return Score(round(value, PRINTED_DECIMALS) if self.mode == "released" else value)
