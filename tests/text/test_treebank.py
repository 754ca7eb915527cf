"""Treebank words: nltk's own tokeniser on sentences and on the rated corpora."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nltk.tokenize import NLTKWordTokenizer

from turnwise.text.treebank import treebank_words

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
