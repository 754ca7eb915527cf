"""Numbers as they are said in messages, tables and reports."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "turn"), counted(1200, "turn")
    ('1 turn', '1,200 turns')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
