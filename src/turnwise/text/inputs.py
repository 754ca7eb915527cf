"""How dialogue becomes the two texts of a classifier: turns, the fact a response is about, and other spellings."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from random import Random

import numpy as np
import numpy.typing as npt

SEPARATOR = " [SEP] "
CONTEXT_TURNS = 6
CONTEXT_TOKENS = 160
RESPONSE_TOKENS = 64
FACT_WORDS = 40

_CONTRACTION = re.compile(r"(?i)(?<=\w)(n['’]t|['’](?:s|m|re|ve|ll|d))\b")
_PUNCTUATION = re.compile(r"\s*([,.!?;:\"()]+)\s*")

Vector = Mapping[str, float]
Embed = Callable[[Sequence[str]], npt.NDArray[np.floating]]
# The fact that a response is about, if one is closer to it than a minimum.
ChooseFact = Callable[[str, Sequence[str], float], str | None]
# How close a fact must at least be: of words that both have, or of meaning.
LEAST_OF_WORDS, LEAST_OF_MEANING = 0.12, 0.3

WORD = re.compile(r"n't\b|[a-z0-9]+(?:'[a-z]+)?")


def context_text(turns: Sequence[str], fact: str | None = None, kept: int = CONTEXT_TURNS) -> str:
    """Text A: the fact, if there is one, and the last turns, joined by the separator token.

    >>> context_text(["Hi!", "Hello, how are you?"], fact="i ski.")
    'i ski. [SEP] Hi! [SEP] Hello, how are you?'
    """
    parts = [" ".join(fact.split()[:FACT_WORDS])] if fact else []
    return SEPARATOR.join([*parts, *turns[-kept:]])


def spaced(text: str) -> str:
    """Return the text as a treebank tokeniser leaves it: contractions and punctuation stand apart.

    >>> spaced("I don't know, she's here.")
    "I do n't know , she 's here ."
    """
    apart = _CONTRACTION.sub(r" \1", text)
    return " ".join(_PUNCTUATION.sub(r" \1 ", apart).split())


def unpunctuated(text: str) -> str:
    """Return the text as people type it in a hurry: no apostrophes, no marks but question marks.

    >>> unpunctuated("I don't know, she's here.")
    'i dont know shes here'
    """
    return " ".join(re.sub(r"[^\w\s?]", "", text.lower().replace("-", " ")).split())


def restyled(texts: Sequence[str], rng: Random, share: float = 0.35) -> list[str]:
    """Return all texts in one other style with the given probability, as they are otherwise."""
    if rng.random() >= share:
        return list(texts)
    style = spaced if rng.random() < 0.75 else unpunctuated
    return [style(text) or text for text in texts]


def words_of(text: str) -> list[str]:
    """Lower-cased words, contractions as they are spelt.

    >>> words_of("I do n't ski, and she isn't.")
    ['i', 'do', "n't", 'ski', 'and', 'she', "isn't"]
    """
    return WORD.findall(text.lower())


class TfIdf:
    """Unit-length TF-IDF vectors as plain mappings, fitted on any texts. Unknown words weigh the most."""

    def __init__(self, texts: Iterable[str]) -> None:
        documents = 0
        seen: Counter[str] = Counter()
        for text in texts:
            documents += 1
            seen.update(set(words_of(text)))
        self._rarest = math.log(1 + documents)
        # The same facts and candidates come up again and again while examples are drawn.
        self.vector = lru_cache(maxsize=100_000)(self._vector)
        self._idf = {word: math.log((1 + documents) / (1 + count)) for word, count in seen.items()}

    def _vector(self, text: str) -> Vector:
        """Return the text's vector; empty for a text without words that carry weight."""
        raw = {w: n * self._idf.get(w, self._rarest) for w, n in Counter(words_of(text)).items()}
        norm = math.sqrt(sum(weight * weight for weight in raw.values()))
        return {word: weight / norm for word, weight in raw.items()} if norm else {}


def cosine(a: Vector, b: Vector) -> float:
    """Cosine of two unit vectors.

    >>> cosine({"a": 1.0}, {"a": 0.6, "b": 0.8})
    0.6
    """
    if len(b) < len(a):
        a, b = b, a
    return sum(weight * b.get(word, 0.0) for word, weight in a.items())


def by_words(tfidf: TfIdf) -> ChooseFact:
    """Return the choice by TF-IDF."""
    return lambda response, facts, minimum: choose_fact(response, facts, tfidf, minimum)


def by_meaning(embed: Embed) -> ChooseFact:
    """Return the choice by an encoder."""
    return lambda response, facts, minimum: choose_fact_by_meaning(response, facts, embed, minimum)


def choose_fact(response: str, facts: Sequence[str], tfidf: TfIdf, minimum: float = 0.0) -> str | None:
    """Return the fact closest to the response, or None if none is closer than `minimum`. The first wins a tie."""
    asked = tfidf.vector(response)
    scores = [cosine(asked, tfidf.vector(fact)) for fact in facts]
    return _best(facts, scores, minimum)


def choose_fact_by_meaning(response: str, facts: Sequence[str], embed: Embed, minimum: float = 0.0) -> str | None:
    """Return the same choice by the cosine of an encoder's vectors."""
    if not facts:
        return None
    vectors = np.asarray(embed([response, *facts]), dtype=np.float64)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return _best(facts, [float(score) for score in vectors[1:] @ vectors[0]], minimum)


def _best(facts: Sequence[str], scores: Sequence[float], minimum: float) -> str | None:
    if not facts:
        return None
    best = max(range(len(facts)), key=scores.__getitem__)
    return facts[best] if scores[best] > minimum else None
