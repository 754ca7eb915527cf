"""WordNet substitution (Pang et al. 2020): an utterance said again, with synonyms for some of its words.

`repaired` gives a synonym the form and the case of the word that it stands for. `released` is what the authors'
published files show: lower case, uninflected lemmas with underscores, and always the same synonym.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

from turnwise.text.augment.inflect import inflect
from turnwise.text.augment.tag import CLOSED, tag
from turnwise.text.tokenise import TOKEN
from turnwise.text.wordnet import Pos, base_forms, synsets

Kind = Literal["verbs", "nouns", "modifiers", "all"]
Sense = Literal["first", "random", "likely"]
Style = Literal["repaired", "released"]
# Scores whole utterances, the likeliest highest.
Rank = Callable[[Sequence[str]], Sequence[float]]

KINDS: tuple[Kind, ...] = get_args(Kind)
# Rare senses are hardly ever meant, and more candidates only make more work for a language model.
MOST_SENSES = 3
MOST_CANDIDATES = 6
TRIES = 20

_KIND_OF: Mapping[str, tuple[Kind, Pos]] = {
    "VB": ("verbs", "v"),
    "NN": ("nouns", "n"),
    "JJ": ("modifiers", "a"),
    "RB": ("modifiers", "r"),
}
# Verbs that are mostly grammar: a synonym of "get" hardly ever fits where "get" stands.
_LIGHT = frozenset({"be", "have", "do", "let", "get", "go"})
_MODIFIERS: tuple[Pos, ...] = ("a", "r")
_COMPARING = frozenset({"JJR", "JJS", "RBR", "RBS"})
_PLAIN = re.compile(r"[a-z]+(?:[ -][a-z]+){0,2}")
# Words that are spoken with a vowel first: not "one", "union" and "euro", but "hour", and "un-" before a consonant.
_SPOKEN_VOWEL = re.compile(r"(?!one\b|once\b|uni[^m]|eu|u[bst][aeiu])[aeiou]|hour|honest|honou?r", re.IGNORECASE)
_ARTICLE = re.compile(r"\b(a|an)(\s+)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Slot:
    """A word that may be exchanged: where it stands, what it is, and what may stand in its place, best first."""

    start: int
    end: int
    kind: Kind
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Paraphrase:
    """An utterance said again, and which words of it were exchanged."""

    text: str
    kind: Kind


def slots(text: str, style: Style = "repaired") -> list[Slot]:
    """Return the words of an utterance that have a synonym.

    >>> [text for slot in slots("She repaired two engines.") for text in slot.candidates[:2]]
    ['mended', 'fixed', 'locomotives', 'railway locomotives']
    """
    tokens = list(TOKEN.finditer(text))
    tags = tag([match[0] for match in tokens])
    # Of a text that shouts, everything is in capitals.
    case = str.upper if text.isupper() else str
    found = []
    for match, penn, after in zip(tokens, tags, [*tags, ""][1:], strict=True):
        # What is written large right before a name belongs to it: "New York".
        name = penn == "NNP" or (after == "NNP" and match[0][0].isupper())
        if name or penn[:2] not in _KIND_OF:
            continue
        kind, pos = _KIND_OF[penn[:2]]
        words = _repaired(match[0], penn, pos) if style == "repaired" else _released(match[0], pos)
        candidates = tuple(dict.fromkeys(map(case, words)))
        if candidates:
            found.append(Slot(match.start(), match.end(), kind, candidates))
    return found


def _released(word: str, pos: Pos) -> list[str]:
    """Return the first name of the first sense that is not the word as written: inflected words always change."""
    lower = word.lower()
    kinds: tuple[Pos, ...] = ("a", "r") if pos == "a" else (pos,)
    names = (synset[0].lower() for part in kinds for synset in synsets(lower, part))
    return [name for name in names if name != lower][:1]


def _repaired(word: str, penn: str, pos: Pos) -> Iterable[str]:
    """Yield every synonym in the order of the senses, in the form and case of the word."""
    lower = word.lower()
    if lower in CLOSED or len(lower) < 3 or not lower.isalpha():
        return
    for base in base_forms(lower, pos)[::-1]:
        if base in _LIGHT:
            return
        for synset in synsets(base, pos)[:MOST_SENSES]:
            for name in synset:
                plain = name.replace("_", " ")
                if base not in plain.split(" ") and _PLAIN.fullmatch(plain) and not _is_compared(plain, penn):
                    form = inflect(plain, penn)
                    if form != lower:
                        yield form.capitalize() if word[0].isupper() else form


def _is_compared(name: str, penn: str) -> bool:
    """Return whether WordNet lists the name as a comparative already: "larger" and "elder" have no other."""
    if penn not in _COMPARING:
        return False
    return name == "elder" or any(base != name for pos in _MODIFIERS for base in base_forms(name, pos))


def substituted(text: str, chosen: Iterable[tuple[Slot, str]]) -> str:
    """Return the text with words in place of slots, and the articles before them mended.

    >>> substituted("It is an old car.", [(Slot(9, 12, "modifiers", ("big",)), "big")])
    'It is a big car.'
    """
    result, end = "", 0
    for slot, word in sorted(chosen, key=lambda item: item[0].start):
        before = text[end : slot.start]
        article = _ARTICLE.search(result + before)
        if article:
            kept = (result + before)[: article.start()]
            joined = kept + _article(article[1], word) + article[2]
        else:
            joined = result + before
        result, end = joined + word, slot.end
    return result + text[end:]


def _article(given: str, word: str) -> str:
    wanted = "an" if _SPOKEN_VOWEL.match(word) else "a"
    if given[0].isupper() and word.isupper() and len(word) > 1:
        return wanted.upper()
    return wanted.capitalize() if given[0].isupper() else wanted


def paraphrases(
    text: str,
    count: int = len(KINDS),
    *,
    sense: Sense = "first",
    style: Style = "repaired",
    seed: int = 0,
    rank: Rank | None = None,
) -> list[Paraphrase]:
    """Return up to `count` ways to say it: other verbs, other nouns, other adjectives and adverbs, all of these.

    Where one of the four changes nothing or repeats another, all words are drawn at random instead; there are fewer
    where the utterance has no more synonyms. `released` gives its four as they are.

    >>> [paraphrase.text for paraphrase in paraphrases("She bought a small car.", 3)]
    ['She purchased a small car.', 'She bought a small auto.', 'She bought a little car.']
    """
    if style == "released":
        text = text.lower()
    rng = Random(f"{seed}:{text}")
    places = slots(text, style)
    made: list[Paraphrase] = []
    seen = {text}
    for kind in KINDS[:count]:
        said = Paraphrase(substituted(text, _chosen(text, _of_kind(places, kind), sense, rng, rank)), kind)
        if style == "released" or said.text not in seen:
            made.append(said)
            seen.add(said.text)
    for _ in range(TRIES if style == "repaired" else 0):
        if len(made) >= count:
            break
        drawn = substituted(text, _chosen(text, places, "random", rng, None))
        if drawn not in seen:
            made.append(Paraphrase(drawn, "all"))
            seen.add(drawn)
    return made


def _of_kind(places: Sequence[Slot], kind: Kind) -> list[Slot]:
    return [slot for slot in places if kind in ("all", slot.kind)]


def _chosen(text: str, places: Sequence[Slot], sense: Sense, rng: Random, rank: Rank | None) -> list[tuple[Slot, str]]:
    """Return a candidate for every slot: the first, one at random, or the one that makes the utterance likeliest."""
    if sense == "random":
        return [(slot, rng.choice(slot.candidates)) for slot in places]
    if sense == "first" or rank is None:
        return [(slot, slot.candidates[0]) for slot in places]
    pairs = [(slot, word) for slot in places for word in slot.candidates[:MOST_CANDIDATES]]
    scores = dict(zip(pairs, rank([substituted(text, [pair]) for pair in pairs]), strict=True))
    return [max((pair for pair in pairs if pair[0] is slot), key=scores.__getitem__) for slot in places]
