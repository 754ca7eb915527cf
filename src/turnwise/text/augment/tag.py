"""A small part-of-speech tagger: what each word may be, and which tags like to follow each other.

The best path through all readings is found as in a hidden Markov model, with transitions that are rules written by
hand. Good enough to know which words of an utterance may be exchanged; tests measure how good.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from turnwise.text.augment.lexicon import CLOSED, Weights, is_name, readings

SENTENCE_ENDS = frozenset({".", "!", "?", "...", "…", "!!", "!!!", "??", "?!", '"', "“", "”", "\n"})
NAME_WEIGHT = 4.0

# Tags that behave alike towards their neighbours.
_CLASSES = {
    "NN": "noun", "NNS": "noun", "NNP": "noun", "JJ": "adj", "JJR": "adj", "JJS": "adj", "RB": "adv", "RBR": "adv",
    "VB": "base", "VBP": "base", "VBZ": "third", "VBD": "past", "VBN": "participle", "VBG": "gerund",
    "DT": "det", "PRP$": "det", "POS": "det", "CD": "number", "PRP": "pronoun", "EX": "pronoun", "MD": "modal",
    "TO": "to", "IN": "prep", "RP": "particle", "CC": "and", "WP": "wh", "WRB": "wh", "WDT": "wh", "WP$": "det",
    "UH": "uh", ".": "mark",
}  # fmt: skip
_BE = frozenset("be am is are was were been being 'm 're".split())
_HAVE = frozenset("have has had having 've".split())
_DO = frozenset("do does did".split())
_NOT = frozenset({"not", "n't", "never"})
_OBJECT = frozenset("me him us them myself yourself himself herself itself ourselves themselves".split())
_THIS = frozenset({"this", "that", "these", "those", "all", "some"})

# How much more, or less, likely a class is after another than anywhere; what is not here is as likely as anywhere.
_VERBAL = {"base": 0.02, "third": 0.02, "past": 0.05}
_AFTER: Mapping[str, Mapping[str, float]] = {
    "start": {"noun": 1.5, "base": 2, "adj": 1.5, "past": 0.2, "third": 0.2, "participle": 0.3, "uh": 5, "prep": 0.7},
    "det": {"noun": 8, "adj": 6, "participle": 0.7, "gerund": 0.7, "prep": 0.1, "uh": 0.05, **_VERBAL},
    "this": {"noun": 4, "adj": 3, "third": 6, "past": 4, "base": 0.5, "participle": 0.2, "prep": 1},
    "number": {"noun": 8, "adj": 2, **_VERBAL},
    "pronoun": {"base": 8, "third": 8, "past": 8, "participle": 0.1, "gerund": 0.3, "noun": 0.05, "adj": 0.2, "adv": 2,
                "det": 0.3},
    "object": {"base": 0.7, "third": 0.1, "past": 0.2, "adv": 2, "adj": 1, "noun": 0.7, "prep": 2},
    "modal": {"base": 10, "adv": 3, "noun": 0.05, "adj": 0.05, "third": 0.01, "past": 0.01, "participle": 0.02,
              "gerund": 0.02},
    "to": {"base": 10, "noun": 1, "adj": 0.7, "gerund": 0.5, "adv": 0.3, "past": 0.02, "third": 0.02},
    "prep": {"noun": 5, "adj": 3, "gerund": 2, "participle": 0.3, "adv": 0.4, "uh": 0.1, **_VERBAL},
    "be": {"adj": 6, "gerund": 6, "participle": 4, "adv": 2, "noun": 1, "prep": 2, "det": 2, **_VERBAL},
    "have": {"participle": 8, "noun": 3, "adj": 2, "adv": 1.5, "base": 0.05, "past": 0.3, "third": 0.02},
    "not": {"base": 5, "adj": 3, "adv": 2, "gerund": 3, "participle": 3, "noun": 0.3},
    "adj": {"noun": 8, "adj": 1.5, "prep": 2, "adv": 0.3, "base": 0.1, "third": 0.1, "past": 0.2, "participle": 0.3},
    "noun": {"noun": 1.5, "base": 1, "third": 4, "past": 4, "participle": 0.7, "adj": 0.2, "prep": 3, "det": 0.7},
    "base": {"noun": 3, "adj": 1.5, "adv": 2, "base": 0.2, "third": 0.1, "past": 0.1, "participle": 0.3, "prep": 1.5},
    "adv": {"adj": 4, "base": 3, "past": 3, "third": 2, "participle": 2, "gerund": 2, "noun": 0.4, "prep": 1.5},
    "wh": {"base": 0.5, "third": 2, "past": 2, "noun": 1, "adj": 1.5},
    "and": {"uh": 0.3, "participle": 0.7},
    "mark": {"participle": 0.7},
    "uh": {"uh": 2, "past": 0.3, "third": 0.3},
}  # fmt: skip
for _verb in ("third", "past", "participle", "gerund"):
    _AFTER = {**_AFTER, _verb: _AFTER["base"]}


def tag(words: Sequence[str]) -> list[str]:
    """A Penn Treebank tag for every word of an utterance.

    >>> tag(["Do", "you", "like", "the", "old", "songs", "?"])
    ['VBP', 'PRP', 'VB', 'DT', 'JJ', 'NNS', '.']
    """
    if not words:
        return []
    lower = [word.lower().replace("’", "'") for word in words]
    cased = any(word[:1].isupper() for word in words) and not all(word.isupper() for word in words)
    # The best path to every reading of the last word, with its score.
    paths: list[tuple[float, tuple[str, ...]]] = [(0.0, ())]
    first = True
    for place, word in enumerate(words):
        options = _options(words, lower, place, first=first, cased=cased)
        before = [(score, path, "start" if first else _before(lower, path)) for score, path in paths]
        paths = [
            max((score + math.log(weight * _fit(kind, reading)), (*path, reading)) for score, path, kind in before)
            for reading, weight in options.items()
        ]
        first = word in SENTENCE_ENDS
    return _finite(lower, list(max(paths)[1]))


def _options(words: Sequence[str], lower: Sequence[str], place: int, *, first: bool, cased: bool) -> Weights:
    """The readings of a word where it stands."""
    word, found = lower[place], readings(lower[place])
    after = lower[place + 1] if place + 1 < len(lower) else ""
    before = lower[place - 1] if place else ""
    if word == "'s":
        return {"PRP": 1.0} if before == "let" else found
    if word == "there":
        return {"EX" if after in _BE or after == "'s" else "RB": 1.0}
    if word in CLOSED:
        return found
    if is_name(word):
        return {"NNP": 1.0}
    if cased and words[place][:1].isupper():
        if not first:
            return {**found, "NNP": NAME_WEIGHT}
        if not _is_known(word):
            return {**found, "NNP": 1.0}
    return found


def _is_known(lower: str) -> bool:
    from turnwise.text.wordnet import morphy

    return morphy(lower) is not None


def _before(lower: Sequence[str], path: Sequence[str]) -> str:
    """What the words so far are to the next one; a "please" or a "well" between changes nothing."""
    place = len(path) - 1
    while place > 0 and path[place] == "UH":
        place -= 1
    return _class(lower[place], path[place])


def _class(word: str, reading: str) -> str:
    if reading == "PRP":
        return "object" if word in _OBJECT else "pronoun"
    if word in _THIS:
        return "this"
    if word in _BE or (word == "'s" and reading == "VBZ"):
        return "be"
    if word in _HAVE:
        return "have"
    if word in _NOT:
        return "not"
    return "modal" if word in _DO else _CLASSES[reading]


def _fit(before: str, reading: str) -> float:
    return _AFTER.get(before, {}).get(_CLASSES[reading], 1.0)


def _finite(lower: Sequence[str], path: list[str]) -> list[str]:
    """Base forms told apart: an infinitive, or a verb that agrees with its subject."""
    for place, reading in enumerate(path):
        if reading in ("VB", "VBP"):
            path[place] = "VB" if _is_infinitive(lower, path, place) else "VBP"
    return path


def _is_infinitive(lower: Sequence[str], path: Sequence[str], place: int) -> bool:
    """After a modal, "do" or "to", also with a subject or an adverb between; or where nothing stands before it."""
    before = place - 1
    while before >= 0 and path[before] in ("RB", "PRP", "UH"):
        before -= 1
    if before >= 0 and (path[before] in ("MD", "TO") or lower[before] in _DO):
        return True
    # An imperative opens its sentence: no subject between it and the last mark, nor right after it.
    around = [*path[before + 1 : place], *(path[place + 1 : place + 2] if lower[place] in _BE | _HAVE | _DO else ())]
    return "PRP" not in around and (before < 0 or path[before] in (".", "CC")) and lower[place] not in _BE - {"be"}
