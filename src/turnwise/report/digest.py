"""What the report needs of a result, as labels and arrays: charts, tables and sentences all read from here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from turnwise.analyses.ratings import Points, RatedTurns, rated_unit
from turnwise.dialogue import Example, Row, mean_rating
from turnwise.engine.aggregate import Basis, SystemValue, basis_of
from turnwise.engine.score import Judged, cluster_key
from turnwise.metrics.base import Score
from turnwise.report.labels import decimals, labels, one_line
from turnwise.stats.arrays import FloatArray
from turnwise.stats.bootstrap import Interval, correlation_interval
from turnwise.stats.correlation import Correlation, spearman

if TYPE_CHECKING:
    from turnwise.analyses.evaluate import Result

# Metrics of whole systems say nothing about a turn.
NO_SCORE = Score(None)


@dataclass(frozen=True)
class Turn:
    """A row that could be read, with its scores by metric label."""

    row: Row
    example: Example
    system: int
    scores: Mapping[str, Score]


@dataclass(frozen=True)
class Rated:
    """Mean ratings by quality: one entry per rated turn, or per rated dialogue."""

    ratings: dict[str, FloatArray]
    systems: NDArray[np.intp]
    clusters: NDArray[np.int64]
    turns: int
    dialogues: int

    @property
    def unit(self) -> str:
        """Return what one point is."""
        if self.turns and self.dialogues:
            return "item"
        return "dialogue" if self.dialogues else "turn"


@dataclass(frozen=True)
class Digest:
    """A result with every name made fit for display. Metrics, systems and qualities go by their labels."""

    metrics: tuple[str, ...]
    better: dict[str, bool | None]
    basis: dict[str, Basis]
    about: dict[str, tuple[str, str, str]]
    systems: tuple[str, ...]
    # Turns of every system, those included that were not kept.
    sizes: dict[str, int]
    values: dict[tuple[str, str], SystemValue]
    turns: list[Turn]
    unread: list[Row]
    files: tuple[str, ...]
    quality_labels: dict[str, str]
    # What metrics of groups say, by group and system.
    groups: dict[tuple[str, str], dict[str, float | None]] = field(default_factory=dict)
    # Rows of a run too large to be kept, and those of them that could not be read: an even sample stands for them
    # here, but not in the systems' values.
    left_out: int = 0
    left_out_bad: int = 0
    seed: int = 0
    # What `compare` says of a metric and two systems, the first against the second.
    verdicts: dict[tuple[str, str, str], str] = field(default_factory=dict)
    # The block that ends every run, line by line.
    verdict: tuple[str, ...] = ("",)

    @property
    def all_turns(self) -> int:
        """Return how many rows could be read, kept or not."""
        return len(self.turns) + self.left_out - self.left_out_bad

    @property
    def all_unread(self) -> int:
        """Return how many rows could not be read, kept or not."""
        return len(self.unread) + self.left_out_bad

    @property
    def is_sample(self) -> bool:
        """Return whether some turns were not kept."""
        return self.all_turns > len(self.turns)

    @property
    def qualities(self) -> tuple[str, ...]:
        """Return what people rated."""
        return tuple(self.quality_labels.values())

    @cached_property
    def scores(self) -> dict[str, FloatArray]:
        """Turn scores by metric, NaN where there is none."""
        return {key: _floats(turn.scores[key].value for turn in self.turns) for key in self.metrics}

    @cached_property
    def turn_metrics(self) -> tuple[str, ...]:
        """Return the metrics that gave at least one turn a score."""
        return tuple(key for key in self.metrics if bool(np.isfinite(self.scores[key]).any()))

    @property
    def judging_turns(self) -> tuple[str, ...]:
        """Return the metrics that may have a score for a turn."""
        return tuple(key for key in self.metrics if self.basis[key] in ("turns", "pooled turns"))

    def based_on(self, basis: Basis) -> list[str]:
        """Return the metrics whose values of systems are computed from this."""
        return [key for key in self.metrics if self.basis[key] == basis]

    @cached_property
    def system_of(self) -> NDArray[np.intp]:
        """Return the number of every turn's system."""
        return np.array([turn.system for turn in self.turns], dtype=np.intp)

    @cached_property
    def places(self) -> dict[str, int]:
        """Decimals to show, by metric."""
        found = {}
        for key in self.metrics:
            values = [value.value for (_, metric), value in self.values.items() if metric == key]
            found[key] = decimals([*_finite(self.scores[key]), *(v for v in values if v is not None)])
        return found

    @cached_property
    def turn_places(self) -> dict[str, int]:
        """Decimals of a single turn's score, by metric: none where all are whole numbers."""
        whole = {key: bool(np.nanmax(np.abs(np.mod(self.scores[key], 1))) == 0) for key in self.turn_metrics}
        return {key: 0 if whole.get(key) else places for key, places in self.places.items()}

    @cached_property
    def ratings(self) -> dict[str, FloatArray]:
        """Mean ratings of every turn by quality, NaN where there is none."""
        return {
            label: _floats(mean_rating(turn.example.ratings.get(name, ())) for turn in self.turns)
            for name, label in self.quality_labels.items()
        }

    @cached_property
    def clusters(self) -> NDArray[np.int64]:
        """Return what every turn is resampled with."""
        return np.array([cluster_key(turn.example) for turn in self.turns], dtype=np.int64)

    @cached_property
    def rated(self) -> Rated:
        """Return what people rated; a dialogue that was rated as a whole counts once."""
        numbers: dict[object, int] = {}
        first: list[int] = []
        group_of = np.full(len(self.turns), -1, dtype=np.intp)
        for position, turn in enumerate(self.turns):
            if not turn.example.ratings:
                continue
            group_of[position] = numbers.setdefault(self._unit(position), len(numbers))
            if group_of[position] == len(first):
                first.append(position)
        dialogues = sum(isinstance(unit, tuple) for unit in numbers)
        return Rated(
            ratings={name: _group_means(values, group_of, len(first)) for name, values in self.ratings.items()},
            systems=self.system_of[first],
            clusters=self.clusters[first],
            turns=len(first) - dialogues,
            dialogues=dialogues,
        )

    def _unit(self, position: int) -> object:
        """Return what a rating of a turn is of: the turn, or its whole dialogue."""
        return rated_unit(self.turns[position].example, position)

    @cached_property
    def points(self) -> dict[tuple[str, str], Points]:
        """Scores and ratings side by side by metric and quality, paired as `metaeval` pairs them."""
        turns = RatedTurns([Judged(turn.row, turn.scores) for turn in self.turns])
        return {
            # At this level a rated turn is a point, and so is a dialogue that was rated as a whole.
            (key, label): turns.align(key, quality, "system", whole=False)
            for key in self.turn_metrics
            for quality, label in self.quality_labels.items()
        }

    def names_of(self, points: Points) -> list[tuple[str, int]]:
        """Return the name of every point, and the number of its system."""
        first: dict[object, int] = {}
        for position in points.turns:
            first.setdefault(self._unit(position), position)
        return [
            (
                one_line(str(unit[0]) if isinstance(unit, tuple) else self.turns[position].row.id),
                self.turns[position].system,
            )
            for unit, position in first.items()
        ]

    @cached_property
    def metric_correlations(self) -> dict[tuple[str, str], Correlation]:
        """Spearman over turns, for every pair of metrics in their order."""
        return {
            (first, second): spearman(self.scores[first], self.scores[second])
            for position, first in enumerate(self.turn_metrics)
            for second in self.turn_metrics[position + 1 :]
        }

    @cached_property
    def human_correlations(self) -> dict[tuple[str, str], Correlation]:
        """Spearman of every metric with every quality."""
        return {pair: spearman(points.scores, points.ratings) for pair, points in self.points.items()}

    def human_interval(self, key: str, quality: str, level: float = 0.95) -> Interval | None:
        """Return the interval of such a correlation, with the seed of the run."""
        points = self.points[key, quality]
        return correlation_interval(points.scores, points.ratings, points.clusters, seed=self.seed, level=level)

    @property
    def main_quality(self) -> str | None:
        """Return the quality that is shown in most detail: the overall one where there is one."""
        overall = [quality for quality in self.qualities if "overall" in quality.lower()]
        return next(iter([*overall, *self.qualities]), None)


def digest(result: Result) -> Digest:
    """Read a result."""
    metric_labels = labels(result.metrics)
    read = [item for item in result.judged if item.row.example is not None]
    examples = [item.row.example for item in read if item.row.example is not None]
    # A system may have no turn at all in the sample that was kept of a large run.
    system_labels = labels(result.summary.systems)
    numbers = {name: place for place, name in enumerate(system_labels)}
    turns = [
        Turn(
            item.row,
            example,
            numbers[example.system],
            {label: item.scores.get(key, NO_SCORE) for key, label in metric_labels.items()},
        )
        for item, example in zip(read, examples, strict=True)
    ]
    rated = dict.fromkeys(quality for example in examples for quality in example.ratings)
    return Digest(
        metrics=tuple(metric_labels.values()),
        better={metric_labels[key]: metric.higher_is_better for key, metric in result.metrics.items()},
        basis={metric_labels[key]: basis_of(metric) for key, metric in result.metrics.items()},
        about={
            metric_labels[key]: (metric.summary, metric.cite, result.signatures[key])
            for key, metric in result.metrics.items()
        },
        systems=tuple(system_labels.values()),
        sizes={label: result.summary.sizes[system] for system, label in system_labels.items()},
        values={(system_labels[value.system], metric_labels[value.metric]): value for value in result.system_values},
        turns=turns,
        unread=[item.row for item in result.judged if item.row.example is None],
        files=tuple(dict.fromkeys(file_name(item.row.file) for item in result.judged)),
        quality_labels=labels(rated),
        left_out=result.left_out,
        left_out_bad=result.left_out_bad,
        seed=result.seed,
        groups={
            (group, system_labels[system]): {metric_labels[key]: value for key, value in values.items()}
            for (group, system), values in result.summary.group_values().items()
        },
        verdicts=_verdicts(result, metric_labels, system_labels),
        verdict=tuple(map(one_line, result.verdict.lines)),
    )


# Values of whole systems are computed anew for every pair, so of more systems than this they are not compared.
MOST_WHOLE = 4
_OTHER_SIDE = {"better": "worse", "worse": "better"}


def _verdicts(
    result: Result, metrics: Mapping[str, str], systems: Mapping[str, str]
) -> dict[tuple[str, str, str], str]:
    """Return the verdicts of `compare` on every pair of systems, both ways."""
    from turnwise.analyses.compare import compare

    whole = {key: metric for key, metric in result.metrics.items() if basis_of(metric) == "whole system"}
    rows = list(result.comparison.rows) if result.comparison is not None else []
    if rows and whole and len(systems) <= MOST_WHOLE:
        rows += compare(replace(result, metrics=whole)).rows
    found = {}
    for row in rows:
        key, ours, theirs = metrics[row.metric], systems.get(row.system, ""), systems.get(row.baseline, "")
        found[key, ours, theirs] = str(row.verdict)
        found[key, theirs, ours] = _OTHER_SIDE.get(row.verdict, str(row.verdict))
    return found


def file_name(path: str) -> str:
    """Return a file without its folders: a report may travel further than a path should.

    >>> file_name("/home/me/chats.jsonl"), file_name("C:\\\\data\\\\chats.jsonl")
    ('chats.jsonl', 'chats.jsonl')
    """
    return one_line(PurePath(path.replace("\\", "/")).name)


def _floats(values: Iterable[float | None]) -> FloatArray:
    """Numbers, with NaN for those that are missing or infinite."""
    finite = [np.nan if value is None or not math.isfinite(value) else value for value in values]
    return np.array(finite, dtype=np.float64)


def _finite(values: FloatArray) -> list[float]:
    present = values[np.isfinite(values)]
    return [float(present.min()), float(present.max())] if present.size else []


def _group_means(values: FloatArray, group_of: NDArray[np.intp], count: int) -> FloatArray:
    """Return the mean of the values that each group has, NaN where it has none. Group -1 is nobody's."""
    present = ~np.isnan(values) & (group_of >= 0)
    sums = np.bincount(group_of[present], weights=values[present], minlength=count)
    sizes = np.bincount(group_of[present], minlength=count)
    means: FloatArray = np.divide(sums, sizes, out=np.full(count, np.nan), where=sizes > 0)
    return means
