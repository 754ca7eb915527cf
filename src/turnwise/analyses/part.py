"""A run, or a part of one: what it found and what went wrong, in a form that merges into exactly the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from turnwise.analyses.result import Result
from turnwise.dialogue import Row
from turnwise.engine.aggregate import Summary
from turnwise.engine.sample import TurnSample
from turnwise.engine.score import Judged, cluster_key
from turnwise.engine.session import calibration_mismatches
from turnwise.engine.spool import Spool
from turnwise.engine.state import allow
from turnwise.errors import TurnwiseError
from turnwise.io.read import describe, file_stem
from turnwise.io.unique import InputIdentity
from turnwise.metrics.base import Metric
from turnwise.problems import Problem, counted

# A file of millions of bad rows must not fill the memory with what is said of them.
MOST_LINES = 10_000
_stem = lru_cache(file_stem)


@allow
@dataclass(frozen=True, slots=True)
class Unmet:
    """What a metric lacks, or what else is found: in how many rows, and the first of them."""

    number: int
    place: str
    count: int


@allow
@dataclass(slots=True)
class Problems:
    """Collects what went wrong; in strict mode the first problem ends the run."""

    strict: bool = False
    bad: list[tuple[int, Problem]] = field(default_factory=list)
    unmet: dict[tuple[str, Problem], Unmet] = field(default_factory=dict)
    rows: int = 0
    more: int = 0
    # The first file of each system, and another one that is counted in because it bears the same name.
    files: dict[str, str] = field(default_factory=dict)
    joined: dict[str, str] = field(default_factory=dict)
    # The first row of a dialogue that began in an earlier file, and how many such rows there are.
    going_on: Unmet | None = None

    @property
    def bad_rows(self) -> list[Problem]:
        """Return the problems of the rows that could not be read."""
        return [problem for _, problem in self.bad]

    def first(self) -> str:
        """The first row that could not be read, as the end of a line that says what cannot be done."""
        return f"; the first problem: {self.bad[0][1]}" if self.bad else ""

    def see_row(self, row: Row, number: int = 0) -> None:
        """Note a row that could not be read."""
        self.rows += 1
        if row.example is not None and row.system is not None and row.system not in self.joined:
            self._see_file(row.system, row.file)
        if row.goes_on:
            self.going_on = _added(self.going_on, Unmet(number, f"{row.file}:{row.line}", 1))
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
        if other.going_on is not None:
            self.going_on = _added(self.going_on, other.going_on)
        bad = sorted((*self.bad, *other.bad), key=lambda item: item[0])
        self.bad, self.more = bad[:MOST_LINES], self.more + other.more + len(bad[MOST_LINES:])
        for what, unmet in other.unmet.items():
            self.unmet[what] = _added(self.unmet.get(what), unmet)

    def all(self) -> list[Problem]:
        """Return all problems: bad rows first, then one per metric and reason."""
        by_place: dict[tuple[Problem, str, int], list[str]] = {}
        for (key, note), one in sorted(self.unmet.items(), key=lambda item: item[1].number):
            by_place.setdefault((note, one.place, one.count), []).append(key)
        unmet = [
            Problem.of("score.missing", place, note=str(note), metrics=", ".join(keys), count=count, rows=self.rows)
            for (note, place, count), keys in by_place.items()
        ]
        joined = [
            Problem.of("system.joined", first=self.files[system], second=file, system=system)
            for system, file in self.joined.items()
            if system in self.files
        ]
        more = [Problem.of("row.more", count=self.more)] if self.more else []
        return [*self.bad_rows, *more, *joined, *self._going_on(), *unmet]

    def _going_on(self) -> list[Problem]:
        if self.going_on is None:
            return []
        return [Problem.of("dialogue.joined", self.going_on.place, rows=counted(self.going_on.count, "row"))]


def _added(one: Unmet | None, other: Unmet) -> Unmet:
    """Two counts of the same thing together."""
    if one is None:
        return other
    return replace(min(one, other, key=lambda seen: seen.number), count=one.count + other.count)


@dataclass(frozen=True, slots=True)
class Shard:
    """Which part of a run: number `index` of `count`, counted from 1. Dialogues and contexts stay together."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard that `2/8` stands for."""
        index, slash, count = text.partition("/")
        if slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count):
            return cls(int(index), int(count))
        raise TurnwiseError(f"`shard`: '{text}' is not I/N with I from 1 to N; write for example 2/8")

    def has(self, row: Row, number: int) -> bool:
        """Whether a row belongs to this shard."""
        key = cluster_key(row.example) if row.example else number
        return key % self.count == self.index - 1

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


@dataclass
class Part:
    """Everything that adds up over the rows of a run."""

    metrics: dict[str, Metric]
    models: dict[str, str] = field(default_factory=dict)
    strict: bool = False
    most: int | None = None
    spool: Spool | None = None
    interrupted: bool = False
    judged: list[Judged] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    identity: InputIdentity | None = None

    def __post_init__(self) -> None:
        self.summary = Summary(self.metrics)
        self.problems = Problems(self.strict)
        self.shown = TurnSample(list(self.metrics), self.most)
        self.rows = self.bad = 0

    def keep_all(self) -> None:
        """Keep every row, however many they are."""
        self.most, self.shown = None, TurnSample(list(self.metrics))

    def add(self, item: Judged) -> None:
        """Count one judged row in."""
        self.rows += 1
        self.bad += item.row.example is None
        self.problems.see_row(item.row, item.number)
        self.problems.see_scores(item)
        self.summary.add(item)
        if self.spool is not None:
            self.spool.add(item)
        self._keep(item)

    def _keep(self, item: Judged) -> None:
        self.judged.append(item)
        self.shown.see(self.judged)

    def merge(self, others: Iterable[Part]) -> None:
        """Add the other parts of the same run, one after another. Spools are not merged: they are read together."""
        for other in others:
            self.rows, self.bad = self.rows + other.rows, self.bad + other.bad
            self.interrupted = self.interrupted or other.interrupted
            self.summary.merge(other.summary)
            self.problems.merge(other.problems)
            self.judged += other.judged
            self.notes = list(dict.fromkeys([*self.notes, *other.notes]))
            # Now and then and not for every part, so that the time grows with the parts and the memory does not.
            if self.most is not None and len(self.judged) > 2 * self.most:
                self._choose_again()
        self._choose_again()

    def _choose_again(self) -> None:
        together = sorted(self.judged, key=lambda item: item.number)
        self.judged, self.shown = [], TurnSample(list(self.metrics), self.most)
        for item in together:
            self._keep(item)

    def result(self, *, seed: int, intervals: bool = True) -> Result:
        """The result of the rows so far."""
        values = self.summary.system_values(seed=seed, intervals=intervals)
        problems = self.problems.all()
        problems += [Problem.of("value.missing", v.system, note=str(v.note), metric=v.metric) for v in values if v.note]
        problems += [Problem.of("other", text=text) for text in calibration_mismatches(self.metrics, self.models)]
        left_out = self.rows - len(self.judged)
        left_out_bad = self.bad - sum(item.row.example is None for item in self.judged)
        return Result(
            self.metrics,
            self.judged,
            values,
            self.summary,
            problems,
            self.interrupted,
            self.models,
            left_out,
            left_out_bad,
            self.spool,
            self.notes,
            seed,
        )


def check_usable(name: str, part: Part) -> None:
    """Say in one line why there is nothing to show."""
    if not part.rows:
        raise TurnwiseError(f"{name}: there is nothing to score; the input holds no rows")
    if not part.summary.systems:
        first: Sequence[Problem] = part.problems.bad_rows
        if part.rows == 1:
            raise TurnwiseError(f"the only row cannot be used: {first[0]}")
        raise TurnwiseError(f"none of the {part.rows:,} rows can be used; the first: {first[0]}")
