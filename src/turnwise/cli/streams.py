"""Standard output as it is: an encoding that may lack our characters, and a reader that may go."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import TextIO

# For people whose terminal cannot show what stands in our tables.
STAND_INS = {
    **{"↑": "^", "↓": "v", "→": ">", "·": ".", "±": "~", "×": "x", "…": "...", "≥": ">=", "≤": "<="},
    **dict.fromkeys("–—−─━", "-"),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("“”", '"'),
}


def _stand_in(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    return "".join(STAND_INS.get(character, "?") for character in _missing(problem)), problem.end


def _json_escape(problem: UnicodeError) -> tuple[str, int]:
    """Outside its strings JSON is plain ASCII, so whatever is missing stands in one, where it may be escaped."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    units = _missing(problem).encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4)), problem.end


def _missing(problem: UnicodeEncodeError) -> str:
    return problem.object[problem.start : problem.end]


FOR_PEOPLE = "turnwise.people"
FOR_MACHINES = {"json": "turnwise.json", "csv": "backslashreplace"}
codecs.register_error(FOR_PEOPLE, _stand_in)
codecs.register_error(FOR_MACHINES["json"], _json_escape)


def for_people() -> None:
    """From now on, what standard output cannot show is replaced by something like it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=FOR_PEOPLE)


def for_machines(form: str) -> TextIO:
    """Standard output for JSON or CSV: UTF-8 for files and pipes unless somebody said otherwise, else with escapes."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        errors = FOR_MACHINES[form]
        if sys.stdout.isatty() or os.environ.get("PYTHONIOENCODING"):
            sys.stdout.reconfigure(errors=errors)
        else:
            sys.stdout.reconfigure(encoding="utf-8", errors=errors)
    return sys.stdout


def end_quietly() -> None:
    """What is left in the buffers has nowhere to go; it must not be tried again when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            os.dup2(nowhere, stream.fileno())
