"""Names and numbers as people read them: text that any viewer can show, digits that mean something."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence

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
    """The text with everything that a page cannot hold replaced by the usual sign for it.

    >>> printable("a\\x00b\\r\\nc")
    'a�b\\nc'
    """
    return _UNPRINTABLE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str) -> str:
    """A name as a label: printable, on one line, and never empty.

    >>> one_line(" two\\nlines "), one_line("")
    ('two lines', '(unnamed)')
    """
    line = " ".join(printable(text).split())
    visible = any(unicodedata.category(character) not in {"Cf", "Zs"} for character in line)
    return line if visible else "(unnamed)"


def labels(names: Iterable[str]) -> dict[str, str]:
    """A label for every name, no two alike and none that a chart's script takes for its own.

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
    """How many decimals a column of such numbers deserves.

    >>> decimals([0.1234, 0.5]), decimals([12.3]), decimals([]), decimals([1234567.0])
    (3, 1, 3, 0)
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return 3 if largest <= 1 else 2 if largest < 10 else 1 if largest < 1000 else 0


def number(value: float | None, places: int) -> str:
    """A number with a real minus sign; a dash where there is none.

    >>> number(-0.25, 2), number(None, 2), number(-0.0001, 2)
    ('−0.25', '–', '0.00')
    """
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:.{places}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def interval(low: float | None, high: float | None, places: int, between: str = " to ") -> str:
    """Both ends of an interval; nothing where there is none.

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
