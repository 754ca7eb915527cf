"""Words as nltk's `word_tokenize` gives them, for the published numbers that were computed on them.

Built on our own words: the Penn Treebank differs from them in quotation marks, in repeated marks, and in a few
words that it takes apart. Sentence ends are found by our pattern and not by nltk's trained model.
"""

from __future__ import annotations

import re
from functools import lru_cache

from turnwise.text.tokenise import Tokens, words

_OPENING = re.compile(r'(^|[\s(\[{<])"')
_COMPOUND = re.compile(r"(?i)(can)(not)|(d)('ye)|(gim|lem)(me)|(gon|wan)(na)|(got)(ta)|(more)('n)|('t)(is|was)")
# These stay together when they are repeated; other marks stand alone.
_RUNS = frozenset(".`'-")


@lru_cache(maxsize=1 << 13)
def treebank_words(text: str) -> Tokens:
    """The words of a text, as they are written.

    >>> treebank_words('You cannot say "no"!!!')
    ('You', 'can', 'not', 'say', '``', 'no', "''", '!', '!', '!')
    """
    quoted = _OPENING.sub(r"\1 `` ", text).replace('"', " '' ")
    return tuple(piece for word in words(quoted) for piece in _pieces(word))


def _pieces(word: str) -> Tokens:
    if compound := _COMPOUND.fullmatch(word):
        return tuple(part for part in compound.groups() if part)
    if len(word) > 1 and word[0] not in _RUNS and not any(character.isalnum() for character in word):
        return tuple(word)
    return (word,)
