"""What a word may be: the closed classes by hand, everything else by WordNet and by its ending.

Tags are those of the Penn Treebank. A weight says how often a word is what the tag says, up to a constant.
"""

from __future__ import annotations

import lzma
import re
from functools import cache, lru_cache
from pathlib import Path

from turnwise.text.augment.inflect import past_readings
from turnwise.text.wordnet import EVERY_POS, Pos, base_forms, synsets

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
    """How often a lemma is this part of speech, among its parts of speech.

    >>> frequency("work", "v") > frequency("work", "n") > frequency("work", "a")
    True
    """
    # WordNet counted few words of conversation: what it never saw still happens.
    return _counts().get(lemma, {}).get(pos, 0) + 0.1 * len(synsets(lemma, pos))


@lru_cache(maxsize=1 << 14)
def readings(word: str) -> Weights:
    """The tags that a word in lower case may have, each with its weight; never none.

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
    """The tags of a word as a form of a base."""
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
    """Whether WordNet knows a word in lower case as a name only, such as "paris".

    >>> is_name("paris"), is_name("table"), is_name("xyzzy")
    (True, False, False)
    """
    if any(base_forms(word, pos) for pos in ("v", "a", "r")):
        return False
    spelt = [name for synset in synsets(word, "n") for name in synset if name.lower() == word]
    return bool(spelt) and all(name[0].isupper() for name in spelt)
