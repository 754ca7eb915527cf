"""Sentences: nothing is lost between them, and what only looks like an end is none."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.text.sentences import _SHORTENED, sentences

# The rule as it reads most plainly, which takes the cube of the length of a row of marks.
PLAIN = re.compile(r"""(?P<word>\S*)\s?[.!?…](?:\s*[.!?…])*["'’”)\]]*\s+""")


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


def by_the_plain_rule(text: str) -> list[str]:
    found, start = [], 0
    for end in PLAIN.finditer(text):
        word, said = end["word"].lower(), text[start : end.end()].strip()
        if word not in _SHORTENED and len(word.rpartition(".")[2]) != 1 and re.search(r"\w", said):
            found.append(said)
            start = end.end()
    rest = text[start:].strip()
    if rest and (re.search(r"\w", rest) or not found):
        return [*found, rest]
    return [*found[:-1], f"{found[-1]} {rest}"] if rest else found


@given(st.one_of(st.text(alphabet="aM .)", max_size=14), st.text(alphabet="abst .…!?\n\t\"'’)]", max_size=30)))
@settings(max_examples=2000)
def test_it_is_the_plain_rule(text: str) -> None:
    assert sentences(text) == by_the_plain_rule(text)


@pytest.mark.parametrize("piece", [".", ". ", ".) ", "a. ", ".x ", " ", "x"])
def test_a_row_of_marks_takes_no_longer_than_other_text(piece: str) -> None:
    # By the plain rule the first of these takes longer than anybody would wait.
    assert " ".join(sentences(piece * 50_000 + "x")).split() == (piece * 50_000 + "x").split()
