"""METEOR of Lavie and Agarwal (2007), number for number as nltk computes it on WordNet 3.0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from turnwise.metrics.base import Score
from turnwise.metrics.overlap import OverlapMetric
from turnwise.metrics.registry import register
from turnwise.text.stem import stem
from turnwise.text.tokenise import Tokens
from turnwise.text.wordnet import synonyms

Pair = tuple[int, int]


def align(hypothesis: Tokens, reference: Tokens) -> list[Pair]:
    """Which word of a response stands for which of the reference: the same, else the same stem, else a synonym.

    >>> align(("a", "quick", "dogs"), ("the", "dog", "fast"))
    [(1, 2), (2, 1)]
    """
    ours, theirs = dict(enumerate(hypothesis)), dict(enumerate(reference))
    pairs = _pair_equals(ours, theirs)
    ours = {place: stem(word) for place, word in ours.items()}
    theirs = {place: stem(word) for place, word in theirs.items()}
    pairs += _pair_equals(ours, theirs)
    # From here on there are only stems: nltk looks up their synonyms, not those of the words.
    pairs += _pair_synonyms(ours, theirs)
    return sorted(pairs)


def _pair_equals(ours: dict[int, str], theirs: dict[int, str]) -> list[Pair]:
    """Pair equal words from the last to the first, each with the last free place; take them out of both."""
    free = _places(theirs)
    pairs = [(place, places.pop()) for place in reversed(ours) if (places := free.get(ours[place]))]
    for place, partner in pairs:
        del ours[place], theirs[partner]
    return pairs


def _pair_synonyms(ours: dict[int, str], theirs: dict[int, str]) -> list[Pair]:
    """Pair words from the last to the first, each with the last free place of any synonym."""
    free = _places(theirs)
    pairs = []
    for place in reversed(ours):
        stand_ins = synonyms(ours[place])
        # Few words have a synonym on the other side, and this says so fast.
        if stand_ins.isdisjoint(free):
            continue
        partner = max(free[word][-1] for word in stand_ins if word in free)
        word = theirs[partner]
        free[word].pop()
        if not free[word]:
            del free[word]
        pairs.append((place, partner))
    return pairs


def _places(words: dict[int, str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place, word in words.items():
        found.setdefault(word, []).append(place)
    return found


def count_chunks(pairs: list[Pair]) -> int:
    """How many runs of words that are neighbours, in the same order, on both sides."""
    followed = set(pairs)
    return sum((place - 1, partner - 1) not in followed for place, partner in pairs)


@register({"meteor": {}})
@dataclass(frozen=True, kw_only=True)
class Meteor(OverlapMetric):
    """Recall-weighted F of the aligned words, lowered by up to `gamma` when they stand in many pieces."""

    alpha: float = 0.9
    beta: float = 3.0
    gamma: float = 0.5

    summary: ClassVar[str] = "words shared with the best reference, stems and synonyms included"
    cite: ClassVar[str] = "Lavie and Agarwal 2007, METEOR"

    def __post_init__(self) -> None:
        if self.mode == "released":
            raise ValueError(
                "the published tables used METEOR 1.5, a Java program that is not part of turnwise;"
                " ask for 'meteor', which equals nltk's"
            )
        if not (0 <= self.alpha <= 1 and 0 <= self.gamma <= 1 and self.beta >= 0):
            raise ValueError("alpha and gamma lie between 0 and 1, and beta is not negative")

    def compare(self, hypothesis: Tokens, references: tuple[Tokens, ...]) -> Score:
        return max((self.compare_one(hypothesis, reference) for reference in references), key=_value)

    def compare_one(self, hypothesis: Tokens, reference: Tokens) -> Score:
        """The score against a single reference."""
        pairs = align(hypothesis, reference)
        if not pairs:
            return Score(0.0, {"precision": 0.0, "recall": 0.0, "penalty": 0.0})
        precision, recall = len(pairs) / len(hypothesis), len(pairs) / len(reference)
        mean = precision * recall / (self.alpha * precision + (1 - self.alpha) * recall)
        penalty = self.gamma * (count_chunks(pairs) / len(pairs)) ** self.beta
        return Score((1 - penalty) * mean, {"precision": precision, "recall": recall, "penalty": penalty})


def _value(score: Score) -> float:
    return score.value or 0.0
