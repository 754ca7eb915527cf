"""Names and numbers for display: printable text, sensible digits, and names short enough to stand beside a chart."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

# Places that a name may take on an axis or in a legend; a Chinese character takes two.
MOST_PLACES = 28
_CUT = "…"
# Control characters other than tab and newline, and lone surrogates: neither XML nor UTF-8 can hold them.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# Every object of JavaScript has these; as names of data they break Vega's charts.
OF_SCRIPTS = frozenset(
    "constructor hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf __defineGetter__ "
    "__defineSetter__ __lookupGetter__ __lookupSetter__ __proto__".split()
)
# A zero-width space, which sets such a name apart and is not seen.
UNSEEN = "\u200b"
ARROWS = {True: "↑", False: "↓", None: ""}
DIRECTIONS = {True: "higher is better", False: "lower is better", None: "no better direction"}


def printable(text: str) -> str:
    """Return the text with everything that a page cannot hold replaced by the usual sign for it.

    >>> printable("a\\x00b\\r\\nc")
    'a�b\\nc'
    """
    return _UNPRINTABLE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str) -> str:
    """Return a name as a label: printable, on one line, and never empty.

    >>> one_line(" two\\nlines "), one_line("")
    ('two lines', '(unnamed)')
    """
    line = " ".join(printable(text).split())
    visible = any(unicodedata.category(character) not in {"Cf", "Zs"} for character in line)
    return line if visible else "(unnamed)"


def labels(names: Iterable[str]) -> dict[str, str]:
    """Return a label for every name, no two alike and none that a chart's script takes for its own.

    >>> labels(["a", " a"])
    {'a': 'a', ' a': 'a (2)'}
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        base = label = one_line(name) + (UNSEEN if one_line(name) in OF_SCRIPTS else "")
        count = 1
        while label in taken:
            count += 1
            label = f"{base} ({count})"
        taken.add(label)
        found[name] = label
    return found


def decimals(values: Iterable[float]) -> int:
    """Return how many decimals a column of such numbers deserves.

    >>> decimals([0.1234, 0.5]), decimals([12.3]), decimals([]), decimals([1234567.0])
    (3, 1, 3, 0)
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return 3 if largest <= 1 else 2 if largest < 10 else 1 if largest < 1000 else 0


def number(value: float | None, places: int) -> str:
    """Return a number with a real minus sign; a dash where there is none.

    >>> number(-0.25, 2), number(None, 2), number(-0.0001, 2)
    ('−0.25', '–', '0.00')
    """
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:.{places}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def interval(low: float | None, high: float | None, places: int, between: str = " to ") -> str:
    """Return both ends of an interval; nothing where there is none.

    >>> interval(-0.25, 0.5, 2), interval(None, None, 2)
    ('−0.25 to 0.50', '')
    """
    return "" if low is None or high is None else f"{number(low, places)}{between}{number(high, places)}"


def listed(items: Sequence[str]) -> str:
    """Words in a row.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def short_names(names: Iterable[str], most: int = MOST_PLACES) -> dict[str, str]:
    """Return every name as it is, or shortened in the middle; where that makes two alike, elsewhere.

    >>> list(short_names(["assistant-2026-11-01", "assistant-2026-11-08"], 12).values())
    ['assis…-11-01', 'assis…-11-08']
    >>> list(short_names(["my-first-red-long-name", "my-first-tan-long-name"], 14).values())
    ['my…d-long-name', 'my…n-long-name']
    """
    wanted = list(dict.fromkeys(names))
    free = most - len(_CUT)
    for head in sorted(range(free + 1), key=lambda head: abs(head - free // 2)):
        found = {name: _ends(name, head, free - head, most) for name in wanted}
        if len(set(found.values())) == len(found):
            return found
    return _numbered({name: _after_the_same_start(name, wanted, most) for name in wanted}, most)


def shortened_from(names: Iterable[str], most: int = MOST_PLACES) -> dict[str, str]:
    """Return the full name that each shortened one stands for."""
    return {short: name for name, short in short_names(names, most).items() if short != name}


def shown_as(short: Mapping[str, str | list[str]]) -> str:
    """Return what Vega has to compute to show an axis's or a legend's names shortened."""
    return f"{json.dumps(list(short.values()))}[indexof({json.dumps(list(short))}, datum.label)]"


def places(text: str) -> int:
    """Return how many places a text takes.

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


def _start(text: str, most: int) -> str:
    taken = 0
    for place, character in enumerate(text):
        taken += _places_of(character)
        if taken > most:
            return text[:place]
    return text


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
