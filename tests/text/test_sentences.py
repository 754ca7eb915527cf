"""Sentences: nothing is lost between them, and what only looks like an end is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.text.sentences import sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("...", ["..."]),
        ("no. i would rather not", ["no.", "i would rather not"]),
        ("It costs 8445.37 USD. Leaving on sunday", ["It costs 8445.37 USD.", "Leaving on sunday"]),
        ("the centre of town . would you like a table ?", ["the centre of town .", "would you like a table ?"]),
        ("wow ! ! ! what happened ?", ["wow ! ! !", "what happened ?"]),
        ("dr. who lives at 5 st. john's", ["dr. who lives at 5 st. john's"]),
        ('he said "stop." then he left', ['he said "stop."', "then he left"]),
    ],
)
def test_by_hand(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(st.text(alphabet="ab .!?\n\"'", max_size=60))
def test_no_word_is_lost_or_moved(text: str) -> None:
    found = sentences(text)
    assert " ".join(found).split() == text.split()
    assert all(one == one.strip() and one for one in found)
