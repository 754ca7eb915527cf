"""N-grams: runs of neighbouring words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache


def ngrams(tokens: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """Every run of n neighbouring words.

    >>> ngrams("a b a".split(), 2)
    [('a', 'b'), ('b', 'a')]
    """
    return list(zip(*[tokens[start:] for start in range(n)], strict=False))


def joined_ngrams(tokens: Sequence[str], n: int) -> list[str]:
    """The same as text, which is smaller to keep.

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
    """How many words two sequences share in the same order (Hyyrö's bit-vector recurrence, 2004).

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
