"""N-grams: runs of neighbouring words, the words that two texts share in order, and BLEU.

BLEU is computed from counts that add up, by sacreBLEU's definition and by nlg-eval's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from turnwise.text.tokenise import Tokens

MAX_ORDER = 4
Smoothing = Literal["exp", "floor", "add-k", "none"]
FLOOR = 0.1  # the match count that stands for none, from Chen and Cherry 2014


def ngrams(tokens: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """Return every run of n neighbouring words.

    >>> ngrams("a b a".split(), 2)
    [('a', 'b'), ('b', 'a')]
    """
    return list(zip(*[tokens[start:] for start in range(n)], strict=False))


def joined_ngrams(tokens: Sequence[str], n: int) -> list[str]:
    """Return the same as text, which is smaller to keep.

    >>> joined_ngrams("a b a".split(), 2)
    ['a b', 'b a']
    """
    return list(tokens) if n == 1 else [" ".join(gram) for gram in ngrams(tokens, n)]


# A response is scored and later added to its system's total: large enough to hold orders 1 to 3 of a window of rows.
@lru_cache(maxsize=1 << 13)
def count_ngrams(tokens: tuple[str, ...], n: int) -> Mapping[str, int]:
    """Return how often each n-gram occurs, by its text.

    >>> dict(count_ngrams(("a", "b", "a", "b"), 2))
    {'a b': 2, 'b a': 1}
    """
    return Counter(joined_ngrams(tokens, n))


def lcs_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return how many words two sequences share in the same order (Hyyrö's bit-vector recurrence, 2004).

    >>> lcs_length("the cat sat on the mat".split(), "the cat on mat".split())
    4
    """
    places: dict[str, int] = {}
    bit = 1
    for token in first:
        places[token] = places.get(token, 0) | bit
        bit <<= 1
    everything = bit - 1
    # A row of the table of lengths, coded by its steps: a zero bit where the length grows by one.
    row = everything
    for token in second:
        common = row & places.get(token, 0)
        if common:
            row = (row + common | row - common) & everything
    return len(first) - row.bit_count()


@dataclass(frozen=True, slots=True)
class BleuCounts:
    """Everything BLEU needs to know of a text, or of many: it adds up and comes apart again."""

    matches: tuple[int, ...]
    totals: tuple[int, ...]
    length: int
    reference_length: int

    def __add__(self, other: BleuCounts) -> BleuCounts:
        return self._combined(other, int.__add__)

    def __sub__(self, other: BleuCounts) -> BleuCounts:
        return self._combined(other, int.__sub__)

    def _combined(self, other: BleuCounts, operation: Callable[[int, int], int]) -> BleuCounts:
        return BleuCounts(
            tuple(map(operation, self.matches, other.matches)),
            tuple(map(operation, self.totals, other.totals)),
            operation(self.length, other.length),
            operation(self.reference_length, other.reference_length),
        )


# All four orders are counted at once, so that bleu-1 .. bleu-4 on one response cost little more than one of them.
# Corpus BLEU adds the counts of a window of rows after all of them are scored, so the cache holds two windows.
@lru_cache(maxsize=1 << 12)
def bleu_counts(hypothesis: Tokens, references: tuple[Tokens, ...]) -> BleuCounts:
    """N-gram matches clipped to the best reference, and the reference length closest to the response's."""
    matches = [0] * MAX_ORDER
    for order in range(MAX_ORDER):
        matches[order] = clipped_matches(hypothesis, references, order + 1)
        # Longer n-grams can only match where shorter ones do.
        if not matches[order]:
            break
    length = len(hypothesis)
    totals = tuple(max(0, length - order) for order in range(MAX_ORDER))
    _, closest = min((abs(len(reference) - length), len(reference)) for reference in references)
    return BleuCounts(tuple(matches), totals, length, closest)


def clipped_matches(hypothesis: Tokens, references: tuple[Tokens, ...], n: int) -> int:
    """Return how many n-grams of a text occur in references, each counted up to its maximum in one reference."""
    allowed: dict[tuple[str, ...], int] = {}
    for reference in references:
        for gram, count in Counter(ngrams(reference, n)).items():
            if count > allowed.get(gram, 0):
                allowed[gram] = count
    shared = Counter(gram for gram in ngrams(hypothesis, n) if gram in allowed)
    return sum(min(count, allowed[gram]) for gram, count in shared.items())


def brevity_penalty(length: float, reference_length: float) -> float:
    """Return what a text loses for being shorter than its references."""
    if length >= reference_length:
        return 1.0
    return math.exp(1 - reference_length / length) if length else 0.0


def bleu(counts: BleuCounts, n: int, *, smooth: Smoothing, effective_order: bool) -> float:
    """BLEU-n as sacreBLEU defines it, on a scale from 0 to 1.

    With `effective_order`, orders for which the text is too short are left out instead of making it zero.
    """
    if not any(counts.matches[:n]):
        return 0.0
    precisions: list[float] = []
    missed = 0
    for order, (matches, total) in enumerate(zip(counts.matches[:n], counts.totals, strict=False)):
        extra = int(smooth == "add-k" and order > 0)
        if total + extra == 0:
            break
        if matches + extra:
            precisions.append((matches + extra) / (total + extra))
        else:
            missed += 1
            precisions.append({"exp": 0.5**missed, "floor": FLOOR}.get(smooth, 0.0) / total)
    if 0.0 in precisions or (len(precisions) < n and not effective_order):
        return 0.0
    mean_log = math.fsum(map(math.log, precisions)) / len(precisions)
    return brevity_penalty(counts.length, counts.reference_length) * math.exp(mean_log)


def nlg_eval_bleu(counts: BleuCounts, n: int) -> float:
    """BLEU-n as nlg-eval defines it: no smoothing but two tiny constants, whose traces still rank the zeros."""
    tiny, small = 1e-15, 1e-9
    product = 1.0
    for matches, total in zip(counts.matches[:n], counts.totals, strict=False):
        product *= (matches + tiny) / (total + small)
    ratio = (counts.length + tiny) / (counts.reference_length + small)
    return math.pow(product, 1 / n) * (math.exp(1 - 1 / ratio) if ratio < 1 else 1.0)
