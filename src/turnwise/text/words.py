"""Words as the tables of a pack have them: frequencies and static vectors are looked up by these."""

from __future__ import annotations

import re

WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


def plain_words(text: str) -> tuple[str, ...]:
    """Words in lower case, marks apart.

    >>> plain_words("Don’t stop, please!")
    ("don't", 'stop', ',', 'please', '!')
    """
    return tuple(WORD.findall(text.lower().replace("’", "'")))
