"""Words of a text: one small pattern, the same for every metric, that never loses a character.

Contractions come apart as in most published corpora (`do n't`, `i 'm`), so that text which was tokenised
before and text which was not give the same words. Each token also stands alone when it is tokenised again.
"""

from __future__ import annotations

import re
from functools import lru_cache

Tokens = tuple[str, ...]

# `re` has no class for combining marks: Latin, Cyrillic, Hebrew, Arabic, Indic, Thai, Lao, and the joiners.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e\u0eb1-\u0ecd\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d"
)
_W = rf"[\w{_MARKS}]"
_APOSTROPHE = "['’]"
_CLITIC = rf"(?:s|m|d|ll|re|ve)(?!{_W})"
_NOT = rf"n{_APOSTROPHE}t(?!{_W})"
_PICTURE = "[\u231a-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
_DRESSED = rf"{_PICTURE}[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]*"

TOKEN = re.compile(
    rf"""
      https?://\S*[\w/]                                             # https://example.org/page
    | [:;]{_APOSTROPHE}?-?(?:[()\[\]|/\\]+|[dp](?!{_W}))            # :-) :D
    | [\U0001f1e6-\U0001f1ff]{{2}} | [\d\#*]\ufe0f?\u20e3           # flags, keycaps
    | {_DRESSED}(?:\u200d{_DRESSED})*                               # emoji, joined ones whole
    | \d+(?:[.,:]\d+)+{_W}*                                         # 10,000  3.5  5:30pm
    | [^\W\d_](?:\.[^\W\d_])+(?!{_W})                               # u.s  a.m
    | {_NOT} | {_APOSTROPHE}{_CLITIC}                               # n't  'm
    | (?:{_W}+-)*{_W}+?(?={_NOT})                                   # the do of don't
    | [@\#]?{_W}+(?:(?:-|{_APOSTROPHE}(?!{_CLITIC})){_W}+)*         # well-known  o'clock  #tag
    | ([^\w\s])\1*                                                  # !!!
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Scripts without spaces: Chinese characters and kana count one by one.
_UNSPACED = re.compile("[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]")


def words(text: str) -> list[str]:
    """Return the words and punctuation marks of a text, in order, as they are written.

    >>> words("I can't wait, it's 5:30pm!!! 😀👍🏽")
    ['I', 'ca', "n't", 'wait', ',', 'it', "'s", '5:30pm', '!!!', '😀', '👍🏽']
    """
    if not text.isascii():
        text = _UNSPACED.sub(r" \g<0> ", text)
    return [token for chunk in text.split() for token in _tokens(chunk)]


# No token spans a space, and few words make up most of a conversation: what stands between spaces is remembered.
@lru_cache(maxsize=1 << 15)
def _tokens(chunk: str) -> Tokens:
    return tuple(match[0] for match in TOKEN.finditer(chunk))


@lru_cache(maxsize=1 << 13)
def lower_words(text: str) -> Tokens:
    """Return the words of a text in lower case, with straight apostrophes: what texts are compared by.

    >>> lower_words("Don’t!")
    ('do', "n't", '!')
    """
    return tuple(words(text.lower().replace("’", "'")))


WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


def plain_words(text: str) -> tuple[str, ...]:
    """Words in lower case, marks apart.

    >>> plain_words("Don’t stop, please!")
    ("don't", 'stop', ',', 'please', '!')
    """
    return tuple(WORD.findall(text.lower().replace("’", "'")))


_OPENING = re.compile(r'(^|[\s(\[{<])"')
_COMPOUND = re.compile(r"(?i)(can)(not)|(d)('ye)|(gim|lem)(me)|(gon|wan)(na)|(got)(ta)|(more)('n)|('t)(is|was)")
# These stay together when they are repeated; other marks stand alone.
_RUNS = frozenset(".`'-")


@lru_cache(maxsize=1 << 13)
def treebank_words(text: str) -> Tokens:
    """Return the words of a text, as they are written.

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


_MARK, _CLOSING = "[.!?…]", r"""["'’”)\]]"""
# A word with a space before the mark or without one, the mark and what follows it. Where a word starts and where it
# ends is not tried twice, so that the time grows with the text alone, even where it is nothing but marks.
_END = re.compile(
    rf"(?<!\S)(?:(?P<apart>\S*+)\s|(?P<joined>\S*)(?={_MARK}{_CLOSING}*+\s)){_MARK}(?:\s*+{_MARK})*{_CLOSING}*\s+"
)
_WORD = re.compile(r"\w")
# What ends with a full stop in the middle of a sentence; so does a single letter, as in "j. smith" and "p.m.".
_SHORTENED = frozenset("mr mrs ms dr prof st jr sr vs etc approx inc ltd e.g i.e".split())


def sentences(text: str) -> list[str]:
    """Return the sentences of a text; one without any mark is a single sentence, and so is one of nothing but marks.

    >>> sentences("i see . it leaves at 5 p.m. from st. ives! does that suit you?")
    ['i see .', 'it leaves at 5 p.m. from st. ives!', 'does that suit you?']
    """
    found: list[str] = []
    start = looked_at = 0
    says_something = False
    for end in _END.finditer(text):
        word = (end["apart"] or end["joined"] or "").lower()
        says_something = says_something or _WORD.search(text, looked_at, end.end()) is not None
        looked_at = end.end()
        if word in _SHORTENED or len(word.rpartition(".")[2]) == 1 or not says_something:
            continue
        found.append(text[start:looked_at].strip())
        start, says_something = looked_at, False
    rest = text[start:].strip()
    if rest and (_WORD.search(rest) or not found):
        found.append(rest)
    elif rest:
        found[-1] += f" {rest}"
    return found
