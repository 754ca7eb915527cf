"""The one exception that a user is meant to see: a single line that says what, where and how to mend it."""

from __future__ import annotations


class TurnwiseError(Exception):
    """A request or an input that cannot be used. The command line prints it as one line and exits with 2."""
