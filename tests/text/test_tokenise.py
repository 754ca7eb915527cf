"""The word tokeniser: what it does on real text, and what it promises on any text."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turnwise.text.tokenise import lower_words, words

# Plain random text rarely has the characters that the rules are about.
TRICKY = st.text(st.sampled_from("anstmdlrve NT05.,:'’-_@#!?*()/\\;D\u0301\u200d\ufe0f👍🏽🇫❤我で1\u20e3"), max_size=24)
ANY_TEXT = st.one_of(st.text(), TRICKY)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Great, thanks.", "Great|,|thanks|."),
        ("I can't, won't, couldn't've!", "I|ca|n't|,|wo|n't|,|could|n't|'ve|!"),
        ("She's sure they'll say I'm right; it’s fine.", "She|'s|sure|they|'ll|say|I|'m|right|;|it|’s|fine|."),
        ("o'clock rock'n'roll y'all 'quoted'", "o'clock|rock'n'roll|y'all|'|quoted|'"),
        ("so , i 'm not sure , ca n't say .", "so|,|i|'m|not|sure|,|ca|n't|say|."),
        ("It cost $1,000.50 at 5:30pm (90% off)", "It|cost|$|1,000.50|at|5:30pm|(|90|%|off|)"),
        ("the U.S. at 9 a.m. i.e. now", "the|U.S|.|at|9|a.m|.|i.e|.|now"),
        ("a well-known 10-year-old", "a|well-known|10-year-old"),
        ("wait... what?!! no -- yes", "wait|...|what|?|!!|no|--|yes"),
        ("ha :-) :D and/or #fun @you", "ha|:-)|:D|and|/|or|#fun|@you"),
        ("see https://example.org/a?b=c.", "see|https://example.org/a?b=c|."),
        ("😀😀 👍🏽 👨‍👩‍👧 🇫🇷🇩🇪 1️⃣ ❤️", "😀|😀|👍🏽|👨‍👩‍👧|🇫🇷|🇩🇪|1️⃣|❤️"),
        ("naïve cafe\u0301 Привет नमस्ते", "naïve|cafe\u0301|Привет|नमस्ते"),
        ("我爱你 ok", "我|爱|你|ok"),
        ("   ", ""),
    ],
)
def test_words_of_typical_text(text: str, expected: str) -> None:
    assert words(text) == (expected.split("|") if expected else [])


@given(ANY_TEXT)
@example("semi-don't it's5 n'tn't 'sx a.b.cd 1.2.x http://!")
def test_no_character_is_lost(text: str) -> None:
    assert "".join(words(text)) == "".join(text.split())


@given(ANY_TEXT)
@example("don'tn't can't' ''s -don't 3.5n't a.b's :)))x")
def test_tokens_stand_alone(text: str) -> None:
    tokens = words(text)
    assert words(" ".join(tokens)) == tokens


@given(ANY_TEXT)
def test_lower_words_are_words_of_the_lower_case_text(text: str) -> None:
    assert list(lower_words(text)) == words(text.lower().replace("’", "'"))


def test_tokenised_corpora_keep_their_tokens() -> None:
    # Topical-Chat as USR published it: contractions and punctuation already stand apart.
    text = "i do n't watch them very often . that 's one u.s . city i have n't been to , have you ?"
    assert words(text) == text.split()


def test_case_and_apostrophe_do_not_tell_words_apart() -> None:
    assert lower_words("DON’T") == lower_words("don't") == ("do", "n't")
