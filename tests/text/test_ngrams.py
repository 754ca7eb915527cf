"""N-grams, and counts of them that add up and come apart."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.util import ngrams as nltk_ngrams
from scipy.stats import entropy as scipy_entropy

from turnwise.text.counts import CountMoments, Counts, Sum
from turnwise.text.ngrams import bleu_counts, joined_ngrams, lcs_length, ngrams

TOKENS = st.lists(st.sampled_from("abcde"), max_size=12)
TEXTS = st.lists(TOKENS, min_size=1, max_size=12)


@given(TOKENS, st.integers(1, 4))
def test_ngrams_equal_nltk(tokens: list[str], n: int) -> None:
    expected = list(nltk_ngrams(tokens, n))
    assert ngrams(tokens, n) == expected
    assert joined_ngrams(tokens, n) == [" ".join(gram) for gram in expected]


@given(TEXTS)
def test_counts_add_up_in_any_order(texts: list[list[str]]) -> None:
    whole = Counter(token for text in texts for token in text)
    assert reduce(add, map(Counts.of, texts)).table == whole
    assert reduce(add, map(Counts.of, reversed(texts))).table == whole
    middle = len(texts) // 2
    halves = [reduce(add, map(Counts.of, half), Counts.of([])) for half in (texts[:middle], texts[middle:])]
    assert (halves[0] + halves[1]).table == whole


@given(TEXTS, TOKENS)
def test_counts_come_apart_again(texts: list[list[str]], removed: list[str]) -> None:
    rest = reduce(add, map(Counts.of, texts))
    remainder = rest + Counts.of(removed) - Counts.of(removed)
    assert remainder == rest
    assert remainder.moments.size == rest.moments.size
    assert remainder.moments.types == rest.moments.types
    assert remainder.moments.weighted_log == pytest.approx(rest.moments.weighted_log, abs=1e-9)
    assert remainder + Counts.of(removed) == rest + Counts.of(removed)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30))
def test_entropy_equals_scipy(counts: list[int]) -> None:
    assert CountMoments.of(counts).entropy() == pytest.approx(scipy_entropy(counts), abs=1e-9)


@given(st.integers(1, 1000))
def test_a_single_type_has_no_entropy(count: int) -> None:
    value = CountMoments.of([count]).entropy()
    assert value is not None
    assert value >= 0.0
    assert value == pytest.approx(0.0, abs=1e-12)


def test_uniform_counts_have_the_entropy_of_their_number() -> None:
    assert CountMoments.of([3] * 7).entropy() == pytest.approx(math.log(7))


def test_nothing_has_neither_entropy_nor_ratio() -> None:
    assert CountMoments.of([]).entropy() is None
    assert CountMoments.of([]).distinct_ratio() is None


def test_long_sums_keep_few_tables() -> None:
    # Each table is at least twice as large as the next, so their number grows with the logarithm only.
    generator = np.random.default_rng(0)
    total = reduce(add, (Counts.of(map(str, generator.integers(0, 10**6, 10))) for _ in range(2000)))
    assert isinstance(total, Sum)
    assert len(total.tables) <= math.log2(20_000) + 1
    assert total.moments.size == 20_000


TOKENS = st.lists(st.sampled_from("abcd"), max_size=40)


def table_lcs(first: Sequence[str], second: Sequence[str]) -> int:
    """One cell for every pair of prefixes."""
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(TOKENS, TOKENS)
def test_equals_the_table(first: list[str], second: list[str]) -> None:
    assert lcs_length(first, second) == table_lcs(first, second)


@given(st.lists(st.text(max_size=2), max_size=10), st.lists(st.text(max_size=2), max_size=10))
def test_equals_the_table_on_any_words(first: list[str], second: list[str]) -> None:
    assert lcs_length(first, second) == lcs_length(second, first) == table_lcs(first, second)


@given(st.lists(st.sampled_from("ab"), min_size=100, max_size=200))
def test_long_sequences_contain_themselves(tokens: list[str]) -> None:
    assert lcs_length(tokens, tokens) == len(tokens)
    assert lcs_length(tokens, tokens[::2]) == len(tokens[::2])


def test_bleu_of_many_references_takes_linear_time() -> None:
    def seconds(count: int) -> float:
        references = tuple((f"w{number}", "a", "b", "c") for number in range(count))
        start = time.perf_counter()
        assert bleu_counts(("a", "b", "c", "d"), references).matches == (3, 2, 1, 0)
        return time.perf_counter() - start

    seconds(10)
    assert seconds(20_000) < 30 * max(seconds(2_000), 0.005)
