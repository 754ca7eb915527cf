"""Where a sentence ends, in text that may have lost its capitals."""

from __future__ import annotations

import re

_END = re.compile(r"""(?P<word>\S*)\s?[.!?…](?:\s*[.!?…])*["'’”)\]]*\s+""")
# What ends with a full stop in the middle of a sentence; so does a single letter, as in "j. smith" and "p.m.".
_SHORTENED = frozenset("mr mrs ms dr prof st jr sr vs etc approx inc ltd e.g i.e".split())


def sentences(text: str) -> list[str]:
    """The sentences of a text; one without any mark is a single sentence, and so is one of nothing but marks.

    >>> sentences("i see . it leaves at 5 p.m. from st. ives! does that suit you?")
    ['i see .', 'it leaves at 5 p.m. from st. ives!', 'does that suit you?']
    """
    found, start = [], 0
    for end in _END.finditer(text):
        word = end["word"].lower()
        said = text[start : end.end()].strip()
        if word in _SHORTENED or len(word.rpartition(".")[2]) == 1 or not re.search(r"\w", said):
            continue
        found.append(said)
        start = end.end()
    rest = text[start:].strip()
    if rest and (re.search(r"\w", rest) or not found):
        found.append(rest)
    elif rest:
        found[-1] += f" {rest}"
    return found
