"""How dialogue becomes the two texts of a classifier, and the spellings that the same words come in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

SEPARATOR = " [SEP] "
CONTEXT_TURNS = 6
CONTEXT_TOKENS = 160
RESPONSE_TOKENS = 64
FACT_WORDS = 40

_CONTRACTION = re.compile(r"(?i)(?<=\w)(n['’]t|['’](?:s|m|re|ve|ll|d))\b")
_PUNCTUATION = re.compile(r"\s*([,.!?;:\"()]+)\s*")


def context_text(turns: Sequence[str], fact: str | None = None, kept: int = CONTEXT_TURNS) -> str:
    """Text A: the fact, if there is one, and the last turns, joined by the separator token.

    >>> context_text(["Hi!", "Hello, how are you?"], fact="i ski.")
    'i ski. [SEP] Hi! [SEP] Hello, how are you?'
    """
    parts = [" ".join(fact.split()[:FACT_WORDS])] if fact else []
    return SEPARATOR.join([*parts, *turns[-kept:]])


def spaced(text: str) -> str:
    """The text as a treebank tokeniser leaves it: contractions and punctuation stand apart.

    >>> spaced("I don't know, she's here.")
    "I do n't know , she 's here ."
    """
    apart = _CONTRACTION.sub(r" \1", text)
    return " ".join(_PUNCTUATION.sub(r" \1 ", apart).split())


def unpunctuated(text: str) -> str:
    """The text as people type it in a hurry: no apostrophes, no marks but question marks.

    >>> unpunctuated("I don't know, she's here.")
    'i dont know shes here'
    """
    return " ".join(re.sub(r"[^\w\s?]", "", text.lower().replace("-", " ")).split())


def restyled(texts: Sequence[str], rng: Random, share: float = 0.35) -> list[str]:
    """All texts in one other style with the given probability, as they are otherwise."""
    if rng.random() >= share:
        return list(texts)
    style = spaced if rng.random() < 0.75 else unpunctuated
    return [style(text) or text for text in texts]
