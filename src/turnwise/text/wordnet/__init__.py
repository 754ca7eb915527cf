"""WordNet 3.0's words, synonym sets and irregular forms, as nltk's reader finds them.

`tools/wordnet.py` makes the three files beside this one. They are kept as lines of text and searched
by bisection, so that opening the table costs an unpacking and no parsing.
"""

from __future__ import annotations

import lzma
import re
from bisect import bisect_left
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, get_args

Pos = Literal["n", "v", "a", "r"]  # noun, verb, adjective (satellites too), adverb
Synset = tuple[str, ...]  # its names in WordNet's order, words of a name joined by underscores

EVERY_POS: tuple[Pos, ...] = get_args(Pos)
# WordNet's rules of detachment: an ending, and what may stand in its place.
DETACHMENTS: dict[Pos, tuple[tuple[str, str], ...]] = {
    "n": (
        *(("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z")),
        *(("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y")),
    ),
    "v": (
        *(("s", ""), ("ies", "y"), ("es", "e"), ("es", "")),
        *(("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    ),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}
SENSES = re.compile(r"([nvar])((?: \d+)+)")


@cache
def _lines(name: str) -> list[str]:
    packed = Path(__file__).with_name(f"{name}.txt.xz").read_bytes()
    return lzma.decompress(packed).decode("ascii").split("\n")


@cache
def _exceptions() -> dict[tuple[str, str], list[str]]:
    return {(pos, form): bases for pos, form, *bases in map(str.split, _lines("exceptions"))}


@lru_cache(maxsize=1 << 14)
def _senses(lemma: str) -> dict[str, list[int]]:
    """Return the synset numbers of a lemma by part of speech, in the order of its senses."""
    index = _lines("index")
    position = bisect_left(index, f"{lemma} ")
    found, _, senses = index[position].partition(" ") if position < len(index) else ("", "", "")
    if found != lemma:
        return {}
    return {pos: [int(number) for number in numbers.split()] for pos, numbers in SENSES.findall(senses)}


def lemmas() -> list[str]:
    """Return every lemma in WordNet, in lower case, words joined by underscores."""
    return [line.partition(" ")[0] for line in _lines("index")]


def base_forms(word: str, pos: Pos) -> list[str]:
    """Return the lemmas that a lower-case word may be a form of, itself first.

    >>> base_forms("axes", "n")
    ['ax', 'axis']
    """
    irregular = _exceptions().get((pos, word))
    if irregular is None:
        endings = DETACHMENTS[pos]
        forms = [word[: -len(old)] + new for old, new in endings if word.endswith(old)]
    else:
        forms = irregular
    return [form for form in dict.fromkeys([word, *forms]) if pos in _senses(form)]


@cache
def _irregular() -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for (pos, form), bases in _exceptions().items():
        for base in bases:
            found.setdefault((pos, base), []).append(form)
    return found


def irregular_forms(base: str, pos: Pos) -> list[str]:
    """Return the forms of a lemma that no rule of detachment leads back.

    >>> irregular_forms("prefer", "v")
    ['preferred', 'preferring']
    """
    return list(_irregular().get((pos, base), ()))


def morphy(word: str, pos: Pos | None = None) -> str | None:
    """Return the first lemma that a lower-case word may be a form of.

    >>> morphy("churches"), morphy("better", "r"), morphy("xyzzy")
    ('church', 'better', None)
    """
    for part in EVERY_POS if pos is None else (pos,):
        for form in base_forms(word, part):
            return form
    return None


def synsets(word: str, pos: Pos | None = None) -> list[Synset]:
    """Return the synonym sets of a word or any of its base forms, in the order of their senses.

    >>> synsets("quickest", "r")
    [('quickest', 'fastest')]
    """
    names = _lines("synsets")
    return [
        tuple(names[number].split(" "))
        for part in (EVERY_POS if pos is None else (pos,))
        for form in base_forms(word.lower(), part)
        for number in _senses(form)[part]
    ]


@lru_cache(maxsize=1 << 15)
def synonyms(word: str) -> frozenset[str]:
    """Return every single-word name of every sense of a word: what METEOR lets stand for it.

    >>> sorted(synonyms("cars"))
    ['auto', 'automobile', 'car', 'gondola', 'machine', 'motorcar', 'railcar']
    """
    return frozenset(name for synset in synsets(word) for name in synset if "_" not in name)
