"""A run, or a part of one: what it found, in a form that merges with the other parts into exactly the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from turnwise.analyses.problems import Problems
from turnwise.analyses.result import Result
from turnwise.dialogue import Row
from turnwise.engine.aggregate import Summary
from turnwise.engine.score import Judged, cluster_key
from turnwise.engine.session import calibration_mismatches
from turnwise.engine.shown import Shown
from turnwise.engine.spool import Spool
from turnwise.errors import TurnwiseError
from turnwise.io.unique import InputIdentity
from turnwise.metrics.base import Metric
from turnwise.problems import Problem


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
        self.shown = Shown(list(self.metrics), self.most)
        self.rows = self.bad = 0

    def keep_all(self) -> None:
        """Keep every row, however many they are."""
        self.most, self.shown = None, Shown(list(self.metrics))

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
        self.judged, self.shown = [], Shown(list(self.metrics), self.most)
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
