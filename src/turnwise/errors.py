"""The one exception that users see: a single line that says what is wrong, where, and how to fix it."""

from __future__ import annotations

from turnwise.problems import Problem


class TurnwiseError(Exception):
    """Report a request or an input that cannot be used. The command line prints one line and exits with 2.

    `code` names the problem for programs; it is empty if the error was raised with a text alone.

    >>> import turnwise as tw
    >>> try:
    ...     tw.load_metric("f1:best")
    ... except tw.TurnwiseError as problem:
    ...     print(problem)
    metric 'f1' has no mode 'best'; it has: recommended, released
    """

    def __init__(self, problem: Problem | str) -> None:
        super().__init__(str(problem))
        self.code = problem.code if isinstance(problem, Problem) else ""


class TurnwiseWarning(UserWarning):
    """Warn of what goes on in another way than was asked for. The command line prints it as a note."""


def in_brief(problem: BaseException) -> str:
    """Return another library's error message on one line, cut to a readable length.

    >>> in_brief(ValueError("not\\n  a number")), in_brief(KeyError())
    ('not a number', 'KeyError')
    """
    return " ".join(str(problem).split())[:200] or type(problem).__name__
