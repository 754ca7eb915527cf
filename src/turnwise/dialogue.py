"""What is scored: one response, with everything that is known about where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from unicodedata import category

from turnwise.problems import Problem

Ratings = Mapping[str, tuple[float | None, ...]]

NO_RATINGS: Ratings = {}
# Blank on every screen, though Unicode counts them among symbols and letters: braille without dots, Hangul fillers.
FILLERS = frozenset("\u2800\u115f\u1160\u3164\uffa0")


def is_blank(text: str) -> bool:
    """Whether there is nothing to see in a text.

    >>> [is_blank(text) for text in ("", " \\n", "\\u200b\\ufeff", "\\u00ad", "ok\\u200b")]
    [True, True, True, True, False]
    """
    if text.isascii():
        return not text or text.isspace()
    return all(sign.isspace() or sign in FILLERS or category(sign) == "Cf" for sign in text)


@dataclass(frozen=True, slots=True)
class Example:
    """Hold one response to judge. Only `response` is required; the rest is what a metric may need.

    `speakers` names the speaker of every context turn and of the response (so it is one longer than
    `context`); empty means strict alternation. Each list in `ratings` aligns with `raters`, and `None`
    stands for a rating that was not given. `rated` says whether people judged this turn, or the whole
    dialogue that it belongs to.

    >>> import turnwise as tw
    >>> tw.evaluate([tw.Example("Yes, I do.", context=("Do you like tea?",))], "length").turns["length"].item()
    3.0
    """

    response: str
    context: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    id: str = ""
    system: str = "system"
    context_id: str | None = None
    dialogue_id: str | None = None
    group: str | None = None
    speakers: tuple[str, ...] = ()
    ratings: Ratings = field(default_factory=dict)
    raters: tuple[str, ...] = ()
    rated: Literal["turn", "dialogue"] = "turn"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of an input file: an example, or the reason why there is none. Nothing is dropped.

    `system` says whose row it is, also where there is no example, so that failures can be counted per system. `more`
    are the fields of the file that are none of ours; `goes_on` says that its dialogue began in an earlier file.
    `unanswered` is what an example would be, were its response not blank or missing: a failure of the system.
    """

    id: str
    file: str
    line: int
    example: Example | None
    error: Problem | None = None
    system: str | None = None
    more: Mapping[str, Any] | None = None
    goes_on: bool = False
    unanswered: Example | None = None


def mean_rating(ratings: tuple[float | None, ...]) -> float | None:
    """The plain mean of the ratings that were given.

    >>> mean_rating((4.0, None, 5.0))
    4.5
    """
    given = [rating for rating in ratings if rating is not None]
    return sum(given) / len(given) if given else None
