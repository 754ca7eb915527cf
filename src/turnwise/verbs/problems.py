"""What went wrong with the rows of a run, one clear line each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

from turnwise.dialogue import Row
from turnwise.engine.local import Judged
from turnwise.engine.state import allow
from turnwise.errors import TurnwiseError
from turnwise.io.read import describe, file_stem

# A file of millions of bad rows must not fill the memory with what is said of them.
MOST_LINES = 10_000
AS_ONE = "are counted as one system"
_stem = lru_cache(file_stem)


@allow
@dataclass(frozen=True, slots=True)
class Unmet:
    """What a metric lacks: in how many rows, and the first of them."""

    number: int
    place: str
    count: int


@allow
@dataclass(slots=True)
class Problems:
    """Collects what went wrong; in strict mode the first problem ends the run."""

    strict: bool = False
    bad: list[tuple[int, str]] = field(default_factory=list)
    unmet: dict[tuple[str, str], Unmet] = field(default_factory=dict)
    rows: int = 0
    more: int = 0
    # The first file of each system, and another one that is counted in because it bears the same name.
    files: dict[str, str] = field(default_factory=dict)
    joined: dict[str, str] = field(default_factory=dict)

    @property
    def bad_rows(self) -> list[str]:
        """What is said of rows that could not be read."""
        return [line for _, line in self.bad]

    def see_row(self, row: Row, number: int = 0) -> None:
        """Note a row that could not be read."""
        self.rows += 1
        if row.example is not None and row.system is not None and row.system not in self.joined:
            self._see_file(row.system, row.file)
        if row.error is not None:
            if self.strict:
                raise TurnwiseError(describe(row))
            if len(self.bad) < MOST_LINES:
                self.bad.append((number, describe(row)))
            else:
                self.more += 1

    def _see_file(self, system: str, file: str) -> None:
        if self.files.setdefault(system, file) != file and _stem(file) == system:
            self.joined[system] = file

    def see_scores(self, judged: Judged) -> None:
        """Note a metric whose needs a row does not meet."""
        for key, score in judged.scores.items():
            if score.value is None and score.note:
                place = f"{judged.row.file}:{judged.row.line}"
                first = self.unmet.get((key, score.note)) or Unmet(judged.number, place, 0)
                self.unmet[key, score.note] = replace(first, count=first.count + 1)
                if self.strict:
                    raise TurnwiseError(f"{place}: {score.note}: no score from {key}")

    def merge(self, other: Problems) -> None:
        """Add what went wrong in another part of the run."""
        self.rows += other.rows
        self.joined |= other.joined
        for system, file in other.files.items():
            if system not in self.joined:
                self._see_file(system, file)
        bad = sorted((*self.bad, *other.bad))
        self.bad, self.more = bad[:MOST_LINES], self.more + other.more + len(bad[MOST_LINES:])
        for what, unmet in other.unmet.items():
            first = min(unmet, self.unmet.get(what, unmet), key=lambda seen: seen.number)
            count = unmet.count + (self.unmet[what].count if what in self.unmet else 0)
            self.unmet[what] = replace(first, count=count)

    def lines(self) -> list[str]:
        """All problems: bad rows first, then one line per metric and reason."""
        by_place: dict[tuple[str, str, int], list[str]] = {}
        for (key, note), unmet in sorted(self.unmet.items(), key=lambda item: item[1].number):
            by_place.setdefault((note, unmet.place, unmet.count), []).append(key)
        unmet_lines = [
            f"{place}: {note}: no score from {', '.join(keys)} for {count} of {self.rows} rows "
            f"(first here); mend the rows or drop the metric"
            for (note, place, count), keys in by_place.items()
        ]
        joined = [
            f"{self.files[system]} and {file} {AS_ONE}, {system}, by their names; give rows a system"
            for system, file in self.joined.items()
            if system in self.files
        ]
        more = [f"{self.more:,} more rows could not be read"] if self.more else []
        return [*self.bad_rows, *more, *joined, *unmet_lines]
