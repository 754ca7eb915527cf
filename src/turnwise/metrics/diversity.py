"""Holistic's response diversity (Pang et al. 2020): entropy of the n-grams in all replies to one query asked anew."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import ClassVar, Literal

from turnwise.dialogue import Example
from turnwise.metrics.base import GroupMetric, Mode, Need
from turnwise.metrics.causal import CITE
from turnwise.metrics.registry import register
from turnwise.text.counts import Counts
from turnwise.text.ngrams import joined_ngrams
from turnwise.text.tokenise import lower_words

Base = Literal["e", "2", "10"]


def group_grams(tokens: Sequence[str], n: int, whole: str) -> list[str]:
    """The n-grams of one reply; a reply of up to n words is one n-gram, so that no reply goes uncounted.

    >>> group_grams(["so", "do", "i"], 2, "so do i"), group_grams(["Sure", "."], 2, "Sure .")
    (['so do', 'do i'], ['Sure .'])
    """
    return joined_ngrams(tokens, n) if len(tokens) > n else [whole]


@dataclass(frozen=True, slots=True)
class Replies:
    """How many replies a group has, and their n-grams."""

    number: int
    grams: Counts

    def __add__(self, other: Replies) -> Replies:
        return Replies(self.number + other.number, self.grams + other.grams)

    def __sub__(self, other: Replies) -> Replies:
        return Replies(self.number - other.number, self.grams - other.grams)


@register({"diversity": {}})
@dataclass(frozen=True, kw_only=True)
class Diversity(GroupMetric):
    """One entropy per group; a system's value is the mean over its groups.

    Recommended: lower-case words of our tokeniser. Released: words between single spaces, as they are written.
    """

    n: int = 2
    base: Base = "e"

    summary: ClassVar[str] = "entropy of the n-grams in a group of replies to one query and its paraphrases"
    cite: ClassVar[str] = CITE
    needs: ClassVar[frozenset[Need]] = frozenset({"group"})
    modes: ClassVar[tuple[Mode, ...]] = ("recommended", "released")
    range: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"option n={self.n}: write a whole number of at least 1")

    def statistic(self, example: Example) -> Replies:
        text = example.response
        if self.mode == "released":
            grams = group_grams(text.split(" "), self.n, text) if text else []
        else:
            tokens = lower_words(text)
            grams = group_grams(tokens, self.n, " ".join(tokens)) if tokens else []
        return Replies(1, Counts.of(grams))

    def value(self, total: Replies) -> float | None:
        """The entropy of one group; None where a single reply has nothing to differ from."""
        entropy = total.grams.moments.entropy()
        if entropy is None or total.number < 2:
            return None
        return entropy if self.base == "e" else entropy / math.log(float(self.base))

    def of_group(self, replies: Iterable[str]) -> float | None:
        """The diversity of replies that are given as text.

        >>> from turnwise.metrics.registry import load_metric
        >>> round(load_metric("diversity:released").of_group(["Sure .", "Sure .", "OK ."]), 6)
        0.636514
        """
        return self.value(reduce(add, (self.statistic(Example(reply)) for reply in replies), Replies(0, Counts.of(()))))
