"""Why a row, a score or a value is missing: a code for programs, and one text for people."""

from __future__ import annotations

from dataclasses import dataclass

# Every code with its text; the details of a problem fill the braces. Programs and tests match codes, never texts.
TEXTS: dict[str, str] = {
    "other": "{text}",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Name what is wrong, and where.

    `place` is a file and line, a field or an option; `details` fill the text of the code.

    >>> str(Problem.of("other", "chats.jsonl:3", text="odd"))
    'chats.jsonl:3: odd'
    """

    code: str
    place: str = ""
    details: tuple[tuple[str, str | int | float], ...] = ()

    @classmethod
    def of(cls, code: str, place: str = "", **details: str | int | float) -> Problem:
        """Return the problem of this code; a code that is not in `TEXTS` is a mistake of the caller."""
        if code not in TEXTS:
            raise KeyError(code)
        return cls(code, place, tuple(details.items()))

    def __str__(self) -> str:
        text = " ".join(TEXTS[self.code].format(**dict(self.details)).split())
        return f"{self.place}: {text}" if self.place else text
