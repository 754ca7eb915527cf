"""Where a sentence ends, in text that may have lost its capitals."""

from __future__ import annotations

import re

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
    """The sentences of a text; one without any mark is a single sentence, and so is one of nothing but marks.

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
