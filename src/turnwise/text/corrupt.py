"""Corruptions of an utterance: what makes it hard to understand, and what people leave out without harm.

USL-H's rules (valid-utterance prediction) work on words and are mended by default; `released=True` gives the
published behaviour, defects included. MAUDE's three syntactic corruptions are below them. Every function is
pure: it draws from the `random.Random` that it is given, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

Words = Sequence[str]
Tagger = Callable[[Words], Sequence[str]]
Kind = Literal["reorder", "drop", "repeat", "unpunctuate", "simplify", "unstop", "unchanged"]

SHORTEST_NEGATIVE = 3
NEGATIVE_KINDS: tuple[Kind, ...] = ("reorder", "drop", "repeat")
NEGATIVE_SHARES = (0.3, 0.3, 0.4)
POSITIVE_KINDS: tuple[Kind, ...] = ("unpunctuate", "simplify", "unstop", "unchanged")
POSITIVE_SHARES = (0.1, 0.1, 0.1, 0.7)

FINAL_MARKS = ("...", "!!!", "!!", "..", ",,", ".", "!", "?", ",")
STOP_WORDS = frozenset({"a", "an", "the", "ve", "'", "s", "ll", "d", "re", "m", "t"})
CONTENT_TAGS = frozenset({"NN", "NNP", "NNS", "NNPS", "VB", "VBZ", "VBN", "VBG", "VBD", "IN"})
# Without a tagger, "nouns, verbs and prepositions" is approached from the other side: leave out closed classes.
FUNCTION_WORDS = frozenset(
    "a an the this that these those i me my mine you your yours he him his she her hers it its we us our ours "
    "they them their theirs who whom whose which what and or but so yet nor because if though although while "
    "very really quite too also just only even still already not never always often then there here now well "
    "oh ah um uh yes no okay ok please".split()
)


@dataclass(frozen=True, slots=True)
class Rules:
    """What is corrupted (words, or the pieces of a tokenizer), as published or mended, and how often by which rule.

    `negative` is the share of utterances that are broken; of those, and of the others, the shares of the rules need
    not add up to one. Untouched, they are the published ones.
    """

    unit: Literal["word", "piece"] = "word"
    released: bool = False
    negative: float = 0.5
    reorder: float = NEGATIVE_SHARES[0]
    drop: float = NEGATIVE_SHARES[1]
    repeat: float = NEGATIVE_SHARES[2]
    unpunctuate: float = POSITIVE_SHARES[0]
    simplify: float = POSITIVE_SHARES[1]
    unstop: float = POSITIVE_SHARES[2]
    unchanged: float = POSITIVE_SHARES[3]

    def __post_init__(self) -> None:
        if self.unit not in ("word", "piece"):
            raise ValueError(f"unit is {self.unit!r}; choose from word, piece")
        if not 0 <= self.negative <= 1:
            raise ValueError(f"negative is {self.negative:g}; give a share from 0 to 1")
        for kinds in (NEGATIVE_KINDS, POSITIVE_KINDS):
            shares = [getattr(self, kind) for kind in kinds]
            if min(shares) < 0 or not sum(shares) > 0:
                raise ValueError(f"shares of {', '.join(kinds)}: give 0 or more, and one above 0")

    def draw(self, kinds: Sequence[Kind], rng: Random) -> Kind:
        """Return one of the rules."""
        return rng.choices(kinds, [getattr(self, kind) for kind in kinds])[0]


PUBLISHED = Rules()


@dataclass(frozen=True, slots=True)
class Utterance:
    """A training utterance: its text, whether it counts as valid, and what was done to it."""

    text: str
    valid: bool
    kind: Kind


def reorder(words: Words, rng: Random, *, released: bool = False) -> list[str]:
    """Return the words in random order. The released form may leave the order as it was; ours only if it must.

    >>> sorted(reorder(["so", "do", "i"], Random(1)))
    ['do', 'i', 'so']
    """
    shuffled = list(words)
    rng.shuffle(shuffled)
    while not released and shuffled == list(words) and len(set(words)) > 1:
        rng.shuffle(shuffled)
    return shuffled


def drop(words: Words, rng: Random) -> list[str]:
    """Leave out each word with one probability drawn from U(0, 0.5), until some are gone and some remain."""
    if len(words) < 2:
        raise ValueError("drop needs at least two words")
    while True:
        threshold = rng.uniform(0, 0.5)
        kept = [word for word in words if rng.random() >= threshold]
        if 0 < len(kept) < len(words):
            return kept


def repeat(words: Words, rng: Random) -> list[str]:
    """Say the last one to three words again, up to three times, here and there, until something was repeated."""
    if not words:
        raise ValueError("repeat needs at least one word")
    while True:
        said: list[str] = []
        for word in words:
            said.append(word)
            if rng.random() < 0.1:
                span = _span_length(len(said), rng)
                times = rng.choices((1, 2, 3), (0.8, 0.15, 0.05))[0]
                said.extend(said[-span:] * times)
        if len(said) > len(words):
            return said


def _span_length(said: int, rng: Random) -> int:
    if said == 1:
        return 1
    if said == 2:
        return rng.choices((1, 2), (0.75, 0.25))[0]
    return rng.choices((1, 2, 3), (0.7, 0.2, 0.1))[0]


def unpunctuate(text: str, *, released: bool = False) -> str:
    """Leave out the final punctuation. The released form spells the text out character by character.

    >>> unpunctuate("I go !"), unpunctuate("I go."), unpunctuate("i go.", released=True)
    ('I go', 'I go', 'i   g o')
    """
    if released:
        kept = text[:-1] if text[-1:] in {".", "!", "?", ","} else text
        return " ".join(kept)
    stripped = text.rstrip()
    mark = next((mark for mark in FINAL_MARKS if stripped.endswith(mark)), "")
    return stripped.removesuffix(mark).rstrip() or text


def simplify(words: Words, tagger: Tagger | None = None) -> list[str]:
    """Keep nouns, verbs and prepositions; without a tagger, everything outside the closed word classes."""
    if tagger is not None:
        return [word for word, tag in zip(words, tagger(words), strict=True) if tag in CONTENT_TAGS]
    return [word for word in words if word.lower() not in FUNCTION_WORDS]


def unstop(words: Words) -> list[str]:
    """Leave out articles and the tails of contractions.

    >>> unstop(["It", "'", "s", "a", "dog"])
    ['It', 'dog']
    """
    return [word for word in words if word.lower() not in STOP_WORDS]


def valid_or_corrupted(
    text: str,
    rng: Random,
    *,
    split: Callable[[str], Words] = str.split,
    tagger: Tagger | None = None,
    released: bool = False,
    rules: Rules = PUBLISHED,
) -> Utterance:
    """Return one training utterance of valid-utterance prediction, half of them negative by default.

    `split` cuts the text into what is corrupted: words by default. Hand a WordPiece tokenizer's `tokenize`
    together with `released=True` to train as the released code did.
    """
    words = split(text)
    released = released or rules.released
    if len(words) >= SHORTEST_NEGATIVE and rng.random() < rules.negative:
        kind = rules.draw(NEGATIVE_KINDS, rng)
        return Utterance(" ".join(_corrupted(kind, words, rng, released)), valid=False, kind=kind)
    kind = rules.draw(POSITIVE_KINDS, rng)
    changed = text
    if kind == "unpunctuate":
        changed = unpunctuate(text, released=released)
    elif kind == "simplify":
        changed = " ".join(simplify(words, tagger))
    elif kind == "unstop":
        changed = " ".join(unstop(words))
    # An empty utterance teaches nothing; the released code kept it.
    return Utterance(changed if changed.strip() or released else text, valid=True, kind=kind)


def _corrupted(kind: Kind, words: Words, rng: Random, released: bool) -> list[str]:
    if kind == "reorder":
        return reorder(words, rng, released=released)
    return drop(words, rng) if kind == "drop" else repeat(words, rng)


def word_drop(text: str, rng: Random, probability: float = 0.5) -> str:
    """MAUDE: each word goes with a probability; if none stays, a shuffle; of nothing, the literal "word"."""
    words = text.split()
    kept = [word for word in words if rng.random() >= probability]
    return " ".join(kept) or word_order(text, rng) or "word"


def word_order(text: str, rng: Random) -> str:
    """MAUDE: the words in a uniformly random order, which may be the old one."""
    words = text.split()
    rng.shuffle(words)
    return " ".join(words)


def word_repeat(text: str, rng: Random) -> str:
    """MAUDE: one of the first two words is said again until the utterance has its old length.

    >>> word_repeat("no no way", Random(0))
    'no no no'
    """
    words = text.split()
    if not words:
        return text
    first = words.index(rng.choice(words[:2]))
    return " ".join(words[:first] + [words[first]] * (len(words) - first))


Transform = Literal["noise", "mismatch", "permutate", "repeat"]
TRANSFORMS: tuple[Transform, ...] = get_args(Transform)

# What says nothing and fits everywhere.
CANNED = (
    "I don't know.",
    "I'm not sure what you mean.",
    "That sounds great!",
    "Really? Tell me more.",
    "Yes, I think so too.",
    "No, not really.",
    "I see. That's interesting.",
    "Thank you very much.",
    "What do you think about it?",
    "I have no idea, sorry.",
)


def perturbed(answers: Sequence[str], transform: Transform, ratio: float, seed: int = 0) -> list[str]:
    """Return all answers in their order, a share of them spoilt.

    >>> perturbed(["so do i", "me too", "no"], "mismatch", 0.0)
    ['so do i', 'me too', 'no']
    >>> sorted(perturbed(["so do i", "me too", "no"], "mismatch", 1.0))
    ['me too', 'no', 'so do i']
    """
    if not 0 <= ratio <= 1:
        raise ValueError(f"a ratio of {ratio:g} is no share; give one from 0 to 1")
    order = list(range(len(answers)))
    Random(seed).shuffle(order)
    chosen = order[: round(ratio * len(answers))]
    spoilt = list(answers)
    if transform == "mismatch":
        # Everybody says what the next one chosen would have said: nobody keeps an answer, and all of them are used.
        for place, following in zip(chosen, [*chosen[1:], *chosen[:1]], strict=True):
            spoilt[place] = answers[following]
        return spoilt
    vocabulary = sorted({word for answer in answers for word in answer.split()})
    spoil: Callable[[str, Random], str] = {
        "noise": lambda text, rng: noise(text, vocabulary, rng),
        "permutate": word_order,
        "repeat": lambda _, rng: rng.choice(CANNED),
    }[transform]
    for place in chosen:
        spoilt[place] = spoil(answers[place], Random(f"{seed} {place}"))
    return spoilt


def noise(text: str, vocabulary: Sequence[str], rng: Random) -> str:
    """Random words at random places: at least a quarter as many as there are, at most half.

    >>> len(noise("one two three four five six seven eight", ["x"], Random(0)).split()) in range(10, 13)
    True
    """
    words = text.split()
    for _ in range(rng.randint(len(words) // 4, len(words) // 2)):
        words.insert(rng.randint(0, len(words)), rng.choice(vocabulary))
    return " ".join(words)
