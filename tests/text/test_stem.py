"""The stemmer against nltk's, on all of WordNet and on made-up words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.stem import PorterStemmer

from turnwise.text.stem import stem
from turnwise.text.wordnet import lemmas

NLTK = PorterStemmer()
SUFFIXES = (
    *("", "s", "es", "ies", "sses", "ed", "ied", "eed", "ing", "y", "e", "ll", "er", "est", "ion", "ment", "ement"),
    *(
        "ational",
        "tional",
        "alli",
        "ally",
        "bli",
        "bly",
        "logi",
        "logy",
        "fulli",
        "fully",
        "ization",
        "iveness",
        "icate",
    ),
)
MADE_UP = st.tuples(
    st.text("aeiouyblstzngdrvwx", max_size=6), st.sampled_from(SUFFIXES), st.sampled_from(SUFFIXES)
).map("".join)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *(("caresses", "caress"), ("ponies", "poni"), ("ties", "tie"), ("cats", "cat"), ("feed", "feed")),
        *(("agreed", "agre"), ("plastered", "plaster"), ("motoring", "motor"), ("sing", "sing"), ("hissing", "hiss")),
        *(("filing", "file"), ("happy", "happi"), ("sky", "sky"), ("conditional", "condit"), ("dying", "die")),
        *(("vietnamization", "vietnam"), ("sensitivity", "sensit"), ("rational", "ration"), ("controlling", "control")),
        *(("Dogs", "dog"), ("is", "is"), ("", ""), ("'s", "'s"), ("10,000s", "10,000")),
    ],
)
def test_known_stems(word: str, expected: str) -> None:
    assert stem(word) == expected == NLTK.stem(word)


@given(MADE_UP)
def test_made_up_words_equal_nltk(word: str) -> None:
    assert stem(word) == NLTK.stem(word)


def test_wordnet_equals_nltk() -> None:
    # Every eighth word of WordNet, plain and with endings that it lists no forms for.
    vocabulary = sorted({part for lemma in lemmas() for part in lemma.split("_")})[::8]
    forms = [word + ending for word in vocabulary for ending in ("", "s", "ed", "ing")]
    assert len(forms) > 30_000
    assert [form for form in forms if stem(form) != NLTK.stem(form)] == []
