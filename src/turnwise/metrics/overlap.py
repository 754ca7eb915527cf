"""Word overlap with references: F1, BLEU and ROUGE-L, as we recommend them and as USR's tables had them."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from turnwise.dialogue import Example
from turnwise.metrics.base import Mode, Need, PooledMetric, Score, TurnMetric
from turnwise.metrics.registry import register
from turnwise.problems import Problem
from turnwise.text.ngrams import MAX_ORDER, BleuCounts, Smoothing, bleu, bleu_counts, lcs_length, nlg_eval_bleu
from turnwise.text.stem import stem
from turnwise.text.tokenise import Tokens, lower_words
from turnwise.text.wordnet import synonyms

NO_REFERENCE_WORDS = Score(None, note=Problem.of("score.no_reference_words"))


@dataclass(frozen=True, kw_only=True)
class OverlapMetric(TurnMetric):
    """A metric that compares the tokens of a response with those of its references."""

    needs: ClassVar[frozenset[Need]] = frozenset({"references"})
    modes: ClassVar[tuple[Mode, ...]] = ("recommended", "released")
    range = (0.0, 1.0)

    def tokens(self, text: str) -> Tokens:
        """Return the tokens of a text: nlg-eval's are the words between spaces, ours are tokenised and lower-case."""
        return tuple(text.split()) if self.mode == "released" else lower_words(text)

    @abstractmethod
    def compare(self, hypothesis: Tokens, references: tuple[Tokens, ...]) -> Score:
        """Return the score of a response against references that all have words."""

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        references = self.reference_tokens(example)
        return self.compare(self.tokens(example.response), references) if references else NO_REFERENCE_WORDS

    def reference_tokens(self, example: Example) -> tuple[Tokens, ...]:
        """Return the tokens of the references that have any."""
        return tuple(tokens for reference in example.references if (tokens := self.tokens(reference)))


# --- F1 ------------------------------------------------------------------------------------------------------

PARLAI_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
PARLAI_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def parlai_words(text: str) -> Tokens:
    """Words as ParlAI's F1 counts them: lower case, no punctuation, no articles.

    >>> parlai_words("The cat's on a mat.")
    ('cat', 's', 'on', 'mat')
    """
    return tuple(PARLAI_ARTICLE.sub(" ", PARLAI_PUNCTUATION.sub(" ", text.lower())).split())


def f1_score(hypothesis: Iterable[str], reference: Iterable[str]) -> tuple[float, float, float]:
    """F1, precision and recall of the tokens that two texts share, counting repetitions.

    >>> f1_score("i like tea .".split(), "i like coffee .".split())
    (0.75, 0.75, 0.75)
    """
    ours, theirs = Counter(hypothesis), Counter(reference)
    shared = sum(min(count, theirs[token]) for token, count in ours.items() if token in theirs)
    if not shared:
        return 0.0, 0.0, 0.0
    precision, recall = shared / ours.total(), shared / theirs.total()
    return 2 * precision * recall / (precision + recall), precision, recall


@register({"f1": {}})
class F1(OverlapMetric):
    """Released: characters, spaces included, because USR's script was given strings instead of lists."""

    normalise: Literal["words", "parlai", "none"] = "words"

    summary: ClassVar[str] = "F1 of the words shared with the best reference"
    cite: ClassVar[str] = "Mehri and Eskenazi 2020, USR"

    def __post_init__(self) -> None:
        if self.mode == "released" and self.normalise != "words":
            raise ValueError("the released F1 compares characters; 'normalise' does not apply to it")

    def options(self) -> dict[str, object]:
        return {} if self.mode == "released" else super().options()

    def tokens(self, text: str) -> Tokens:
        if self.mode == "released":
            return tuple(text)
        if self.normalise == "parlai":
            return parlai_words(text)
        return tuple(text.split()) if self.normalise == "none" else lower_words(text)

    def compare(self, hypothesis: Tokens, references: tuple[Tokens, ...]) -> Score:
        value, precision, recall = max(f1_score(hypothesis, reference) for reference in references)
        return Score(value, {"precision": precision, "recall": recall})


# --- BLEU ----------------------------------------------------------------------------------------------------


@register({f"bleu-{n}": {"n": n} for n in range(1, MAX_ORDER + 1)})
class Bleu(OverlapMetric, PooledMetric):
    """BLEU of each response; with `corpus` a system's value pools the counts of all its responses."""

    n: int
    corpus: bool = False
    smooth: Smoothing = "exp"

    summary: ClassVar[str] = "precision of the n-grams up to n, with a penalty for brevity"
    cite: ClassVar[str] = "Papineni et al. 2002, BLEU; smoothing: Chen and Cherry 2014"

    def __post_init__(self) -> None:
        if self.mode == "released" and self.smooth != "exp":
            raise ValueError("the released BLEU has its own constants; 'smooth' does not apply to it")

    def options(self) -> dict[str, object]:
        inert = {"smooth"} if self.mode == "released" else set()
        return {key: value for key, value in super().options().items() if key not in inert}

    def compare(self, hypothesis: Tokens, references: tuple[Tokens, ...]) -> Score:
        counts = bleu_counts(hypothesis, references)
        if self.mode == "released":
            return Score(nlg_eval_bleu(counts, self.n))
        return Score(bleu(counts, self.n, smooth=self.smooth, effective_order=True))

    @property
    def pools(self) -> bool:
        return self.corpus

    def statistic(self, example: Example) -> BleuCounts:
        return bleu_counts(self.tokens(example.response), self.reference_tokens(example))

    def value(self, total: BleuCounts) -> float:
        if self.mode == "released":
            return nlg_eval_bleu(total, self.n)
        return bleu(total, self.n, smooth=self.smooth, effective_order=False)


# --- ROUGE-L -------------------------------------------------------------------------------------------------

BETA = 1.2  # nlg-eval's: recall counts more than precision


def rouge_l(hypothesis: Tokens, references: Iterable[Tokens]) -> tuple[float, float, float]:
    """F of the longest common subsequence, with the best precision and the best recall over the references.

    >>> value, precision, recall = rouge_l(("a", "b"), [("a", "c", "b", "d")])
    >>> precision, recall, round(value, 4)
    (1.0, 0.5, 0.6289)
    """
    if not hypothesis:
        return 0.0, 0.0, 0.0
    precision = recall = 0.0
    for reference in references:
        common = lcs_length(hypothesis, reference)
        precision = max(precision, common / len(hypothesis))
        recall = max(recall, common / len(reference))
    if not precision:
        return 0.0, 0.0, 0.0
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision), precision, recall


@register({"rouge-l": {}})
class RougeL(OverlapMetric):
    """The same formula in both modes; they differ in what a word is."""

    summary: ClassVar[str] = "F of the longest word sequence shared with the references"
    cite: ClassVar[str] = "Lin 2004, ROUGE"

    def compare(self, hypothesis: Tokens, references: tuple[Tokens, ...]) -> Score:
        value, precision, recall = rouge_l(hypothesis, references)
        return Score(value, {"precision": precision, "recall": recall})


# --- METEOR of Lavie and Agarwal (2007), number for number as nltk computes it on WordNet 3.0 ------------


Aligned = tuple[int, int]


def align(hypothesis: Tokens, reference: Tokens) -> list[Aligned]:
    """Return which word of a response stands for which of the reference: the same, else the same stem, else a synonym.

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


def _pair_equals(ours: dict[int, str], theirs: dict[int, str]) -> list[Aligned]:
    """Pair equal words from the last to the first, each with the last free place; take them out of both."""
    free = _places(theirs)
    pairs = [(place, places.pop()) for place in reversed(ours) if (places := free.get(ours[place]))]
    for place, partner in pairs:
        del ours[place], theirs[partner]
    return pairs


def _pair_synonyms(ours: dict[int, str], theirs: dict[int, str]) -> list[Aligned]:
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


def count_chunks(pairs: list[Aligned]) -> int:
    """Return how many runs of words that are neighbours, in the same order, on both sides."""
    followed = set(pairs)
    return sum((place - 1, partner - 1) not in followed for place, partner in pairs)


@register({"meteor": {}})
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
        """Return the score against a single reference."""
        pairs = align(hypothesis, reference)
        if not pairs:
            return Score(0.0, {"precision": 0.0, "recall": 0.0, "penalty": 0.0})
        precision, recall = len(pairs) / len(hypothesis), len(pairs) / len(reference)
        mean = precision * recall / (self.alpha * precision + (1 - self.alpha) * recall)
        penalty = self.gamma * (count_chunks(pairs) / len(pairs)) ** self.beta
        return Score((1 - penalty) * mean, {"precision": precision, "recall": recall, "penalty": penalty})


def _value(score: Score) -> float:
    return score.value or 0.0
