"""Names that fit beside a chart: shortened where they are alike, so that no two of them look the same."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

# Places that a name may take on an axis or in a legend; a Chinese character takes two.
MOST_PLACES = 28
_CUT = "…"


def short_names(names: Iterable[str], most: int = MOST_PLACES) -> dict[str, str]:
    """Every name as it is, or shortened in the middle; where that makes two alike, elsewhere.

    >>> list(short_names(["assistant-2026-11-01", "assistant-2026-11-08"], 12).values())
    ['assis…-11-01', 'assis…-11-08']
    >>> list(short_names(["my-first-red-long-name", "my-first-tan-long-name"], 14).values())
    ['my…d-long-name', 'my…n-long-name']
    """
    wanted = list(dict.fromkeys(names))
    room = most - 1
    middle = room // 2
    for head in sorted(range(room + 1), key=lambda head: abs(head - middle)):
        found = {name: _ends(name, head, room - head, most) for name in wanted}
        if len(set(found.values())) == len(found):
            return found
    return _numbered({name: _after_the_same_start(name, wanted, most) for name in wanted}, most)


def shortened_from(names: Iterable[str], most: int = MOST_PLACES) -> dict[str, str]:
    """The full name that each shortened one stands for."""
    return {short: name for name, short in short_names(names, most).items() if short != name}


def shown_as(short: Mapping[str, str | list[str]]) -> str:
    """What Vega has to compute to show an axis's or a legend's names shortened."""
    return f"{json.dumps(list(short.values()))}[indexof({json.dumps(list(short))}, datum.label)]"


def places(text: str) -> int:
    """How many places a text takes.

    >>> places("ab"), places("你好"), places("e\\u0301")
    (2, 4, 1)
    """
    return sum(map(_places_of, text))


def _places_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) == "Cf":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _ends(name: str, head: int, tail: int, most: int) -> str:
    if places(name) <= most:
        return name
    return f"{_start(name, head)}{_CUT}{_start(name[::-1], tail)[::-1]}"


def _start(text: Sequence[str], room: int) -> str:
    taken = 0
    for place, character in enumerate(text):
        taken += _places_of(character)
        if taken > room:
            return "".join(text[:place])
    return "".join(text)


def _after_the_same_start(name: str, names: Sequence[str], most: int) -> str:
    """For long names that differ somewhere inside: what comes before and after the first difference."""
    if places(name) <= most:
        return name
    long = [other for other in names if places(other) > most]
    same = 0
    while len({other[same : same + 1] for other in long}) == 1 and same < len(name):
        same += 1
    head = most // 4
    rest = name[max(same - 2, 0) :]
    inside = _start(rest, most - head - 2)
    return f"{_start(name, head)}{_CUT}{inside}{_CUT if inside != rest else ''}"


def _numbered(short: dict[str, str], most: int) -> dict[str, str]:
    taken: set[str] = set()
    for name, label in short.items():
        count = 1
        while short[name] in taken:
            count += 1
            short[name] = f"{_start(label, most - len(str(count)) - 3)} ({count})"
        taken.add(short[name])
    return short
