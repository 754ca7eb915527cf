"""N-grams: runs of neighbouring words."""

from __future__ import annotations

from collections.abc import Sequence


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
