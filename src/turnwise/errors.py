"""The one exception that a user is meant to see: a single line that says what, where and how to mend it."""

from __future__ import annotations


class TurnwiseError(Exception):
    """A request or an input that cannot be used. The command line prints it as one line and exits with 2."""


def in_brief(problem: BaseException) -> str:
    """What an error of another library says, on one line and no longer than a message bears.

    >>> in_brief(ValueError("not\\n  a number")), in_brief(KeyError())
    ('not a number', 'KeyError')
    """
    return " ".join(str(problem).split())[:200] or type(problem).__name__
