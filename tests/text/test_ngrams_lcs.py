"""The longest common subsequence against the textbook table."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from turnwise.text.lcs import lcs_length

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
