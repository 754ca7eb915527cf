"""Lines that people know about themselves, and which two of them one person cannot both say."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from turnwise.train.dialogues import Dialogue
from turnwise.train.facts import words_of

# Said of one thing only: whoever opens two lines with the same of these words gives two answers to one question.
_FRAME = re.compile(
    r"^(my favou?rite [a-z ]{2,20}? (?:is|are)|my (?:full |first )?name is|my (?:job|major|birthday) is"
    r"|my (?:mom|mother|dad|father|wife|husband|brother|sister) works (?:as|at|in|for)"
    r"|i was (?:born|raised) in|i grew up in|i live (?:in|with)|i am from|i come from|i work (?:as|at|in|for)|i drive"
    r"|i (?:study|am studying)|i am (?=\d+ years old)|i have (?=(?:no|one|two|three|four|five|six|\d+) ))",
    re.I,
)


def frame(line: str) -> str | None:
    """How a line opens that is said of one thing only, or None.

    >>> frame("My favorite color is blue."), frame("i have two dogs."), frame("i have dogs.")
    ('my favorite color is', 'i have', None)
    """
    found = _FRAME.match(line)
    return found[1].strip().lower() if found else None


def exclusive(first: str, second: str) -> bool:
    """Whether two lines of one frame give two answers: other words throughout, or another number of the same thing.

    >>> exclusive("i live in rome.", "i live in paris."), exclusive("i live in rome.", "i live in south rome.")
    (True, False)
    >>> exclusive("i have two dogs.", "i have no dogs."), exclusive("i have two dogs.", "i have one car.")
    (True, False)
    """
    opening = frame(first)
    if opening is None or opening != frame(second):
        return False
    rests = [words_of(line)[len(words_of(opening)) :] for line in (first, second)]
    if not all(rests):
        return False
    if opening in {"i have", "i am"}:
        return rests[0][1:2] == rests[1][1:2] and rests[0][0] != rests[1][0]
    return not set(rests[0]) & set(rests[1])


def short_facts(dialogue: Dialogue) -> list[str]:
    """The lines that the speakers know, as far as they are short enough to be said."""
    return [line for lines in dialogue.facts.values() for line in lines if len(line.split()) < 20]


def lines_by_frame(dialogues: Iterable[Dialogue]) -> dict[str, list[str]]:
    """The first sentences of lines by their frame, each once; frames with at least two."""
    lines: dict[str, dict[str, None]] = defaultdict(dict)
    for dialogue in dialogues:
        for line in short_facts(dialogue):
            if opening := frame(line):
                lines[opening].setdefault(re.split(r"(?<=[.!?])\s", line)[0])
    return {opening: list(some) for opening, some in sorted(lines.items()) if len(some) > 1}
