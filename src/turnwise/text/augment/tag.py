"""A small part-of-speech tagger: what each word may be, and which tags like to follow each other.

Closed classes are listed by hand; WordNet and a word's ending say the rest. Tags are those of the Penn Treebank. The
best path through all readings is found as in a hidden Markov model, with transitions that are rules written by hand.
Good enough to know which words of an utterance may be exchanged; tests measure how good.
"""

from __future__ import annotations

import lzma
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

from turnwise.text.augment.inflect import past_readings
from turnwise.text.wordnet import EVERY_POS, Pos, base_forms, morphy, synsets

# How often a word is what a tag says, up to a constant.
Weights = dict[str, float]

_CLOSED = {
    "DT": "a an the this that these those each every some any no another either neither both all half",
    "PRP": "i you he she it we they me him us them myself yourself himself herself itself ourselves themselves "
    "mine yours hers ours theirs ya",
    "PRP$": "my your his her its our their",
    "NN": "someone somebody anyone anybody everyone everybody nobody something anything everything nothing",
    "IN": "of in on at by for with from about into over after before between under through during without against "
    "among within along across behind beyond near since until till than as if because although though while unless "
    "whether upon per via despite toward towards except around like that so",
    "RP": "up out off down",
    "CC": "and or but nor & plus",
    "MD": "can could will would shall should may might must ca wo sha 'll 'd cannot",
    "TO": "to",
    "EX": "there",
    "WP": "who whom what",
    "WP$": "whose",
    "WDT": "which",
    "WRB": "when where why how",
    "UH": "oh ah yes yeah yep yup nope hi hello hey okay ok wow um uh hmm hm bye goodbye ouch huh please no well",
    "RB": "not n't never always often sometimes usually very too also just only even still already again here now then "
    "so ever soon maybe perhaps almost together once twice there away instead anyway else though yet either "
    "however about today tomorrow yesterday tonight down later ago",
    "CD": "zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty hundred "
    "thousand million",
    "VB": "be have do",
    "VBP": "am are 'm 're 've have do",
    "VBZ": "is has does 's",
    "VBD": "was were had did",
    "VBN": "been done had",
    "VBG": "being having doing",
    "POS": "'s",
    "JJ": "many much more most few less other own same such next last",
}
CLOSED: dict[str, list[str]] = {}
for _tag, _words in _CLOSED.items():
    for _word in _words.split():
        CLOSED.setdefault(_word, []).append(_tag)
# Of closed words that are also open ones, the readings that WordNet adds.
_ALSO_OPEN = frozenset({"like", "well", "last", "own"})

_SUFFIXES = (
    (re.compile(r"ly$"), "RB"),
    (re.compile(r"(?:ous|ful|able|ible|ive|less|ish|ic|al)$"), "JJ"),
    (re.compile(r"(?:ness|tion|sion|ment|ship|hood|ity|ism|er|or|ist)$"), "NN"),
    (re.compile(r"ing$"), "VBG"),
    (re.compile(r"ed$"), "VBD"),
    (re.compile(r"[^su]s$"), "NNS"),
)
_NUMBER = re.compile(r"[\d.,:]*\d[\d.,:]*(?:st|nd|rd|th|am|pm|s|%)?")


@cache
def _counts() -> dict[str, dict[str, int]]:
    packed = Path(__file__).with_name("counts.txt.xz").read_bytes()
    lines = (line.split(" ") for line in lzma.decompress(packed).decode("ascii").split("\n"))
    return {lemma: {item[0]: int(item[1:]) for item in found} for lemma, *found in lines}


def frequency(lemma: str, pos: Pos) -> float:
    """Return how often a lemma is this part of speech, among its parts of speech.

    >>> frequency("work", "v") > frequency("work", "n") > frequency("work", "a")
    True
    """
    # WordNet counted few words of conversation: what it never saw still happens.
    return _counts().get(lemma, {}).get(pos, 0) + 0.1 * len(synsets(lemma, pos))


@lru_cache(maxsize=1 << 14)
def readings(word: str) -> Weights:
    """Return the tags that a word in lower case may have, each with its weight; never none.

    >>> sorted(readings("walked"))
    ['VBD', 'VBN']
    """
    if word in CLOSED and word not in _ALSO_OPEN:
        return dict.fromkeys(CLOSED[word], 1.0)
    if not any(map(str.isalnum, word)):
        return {".": 1.0}
    if _NUMBER.fullmatch(word):
        return {"CD": 1.0}
    found: Weights = {}
    for pos in EVERY_POS:
        bases = base_forms(word, pos)
        # "Years" is in WordNet as it stands, too; it is more often the plural.
        for base in bases[1:] if pos == "n" and word.endswith("s") and len(bases) > 1 else bases:
            weight = frequency(base, pos)
            for tag in _inflections(word, base, pos):
                found[tag] = max(found.get(tag, 0.0), weight)
    if "JJ" in found:
        # What became an adjective of its own ("tired", "interesting") is mostly meant as one.
        found = {tag: weight / 4 if tag in ("VBD", "VBN", "VBG") else weight for tag, weight in found.items()}
    total = sum(found.values()) or 1.0
    found = {tag: weight / total for tag, weight in found.items()}
    found |= dict.fromkeys(CLOSED.get(word, ()), 0.5)
    return found or {_by_ending(word): 1.0}


def _inflections(word: str, base: str, pos: Pos) -> tuple[str, ...]:
    """Return the tags of a word as a form of a base."""
    if pos == "n":
        return ("NN",) if word == base else ("NNS",)
    if pos == "r":
        return ("RB",)
    if pos == "a":
        if word == base:
            return ("JJ",)
        return ("JJS",) if word.endswith("st") else ("JJR",)
    if word == base:
        return ("VB",)
    if word.endswith("ing"):
        return ("VBG",)
    if word.endswith("s") and not word.endswith("ss"):
        return ("VBZ",)
    return tuple(past_readings().get(word, ("VBD", "VBN")))


def _by_ending(word: str) -> str:
    return next((tag for ending, tag in _SUFFIXES if ending.search(word)), "NN")


@lru_cache(maxsize=1 << 12)
def is_name(word: str) -> bool:
    """Return whether WordNet knows a word in lower case as a name only, such as "paris".

    >>> is_name("paris"), is_name("table"), is_name("xyzzy")
    (True, False, False)
    """
    if any(base_forms(word, pos) for pos in ("v", "a", "r")):
        return False
    spelt = [name for synset in synsets(word, "n") for name in synset if name.lower() == word]
    return bool(spelt) and all(name[0].isupper() for name in spelt)


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
    """Return a Penn Treebank tag for every word of an utterance.

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
    """Return the readings of a word where it stands."""
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
        if morphy(word) is None:
            return {**found, "NNP": 1.0}
    return found


def _before(lower: Sequence[str], path: Sequence[str]) -> str:
    """Return what the words so far are to the next one; a "please" or a "well" between changes nothing."""
    place = len(path) - 1
    while place > 0 and path[place] == "UH":
        place -= 1
    return _class(lower[place], path[place])


def _class(word: str, reading: str) -> str:
    if reading == "PRP":
        return "object" if word in _OBJECT else "pronoun"
    if word == "'s" and reading == "VBZ":
        return "be"
    closed = {"this": _THIS, "be": _BE, "have": _HAVE, "not": _NOT, "modal": _DO}
    return next((name for name, words in closed.items() if word in words), _CLASSES[reading])


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
