"""The word tokeniser: what it does on real text, and what it promises on any text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nltk.tokenize import NLTKWordTokenizer

from turnwise.text.tokenise import _SHORTENED, lower_words, sentences, treebank_words, words

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


SENTENCES = [
    "i ca n't wait , it 's 5 pm !",
    "I can't wait, they've said it isn't John's.",
    'He said "no", then ("yes").',
    'a quote : " well " and more .',
    "You cannot be serious!!! What?!",
    "I'm gonna go... gimme that, lemme see; I wanna, I've gotta.",
    "'Tis the well-known 50% of $3.50 -- or 10,000 & more",
    "",
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_words_are_nltks(sentence: str) -> None:
    assert list(treebank_words(sentence)) == NLTKWordTokenizer().tokenize(sentence)


@pytest.mark.parametrize("corpus", ["usr_topicalchat", "usr_personachat"])
def test_the_corpora_of_the_published_tables_come_out_as_nltk_has_them(corpus: str, data_dir: Path) -> None:
    rows = (data_dir / "human" / f"{corpus}.jsonl").read_text(encoding="utf-8").splitlines()
    texts = {text for row in map(json.loads, rows) for text in (row["response"], *row["references"])}
    different = [text for text in texts if list(treebank_words(text)) != NLTKWordTokenizer().tokenize(text)]
    assert len(texts) > 200
    assert len(different) <= 1


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
