"""From judged turns to dialogues, groups and systems, with an interval on every system's value."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from turnwise.engine.local import Judged, cluster_key
from turnwise.metrics.base import Metric, Score
from turnwise.stats.bootstrap import mean_interval
from turnwise.stats.interval import Interval, jackknife_interval

# Pooled statistics are kept per block of clusters, so that leaving one block out gives an interval in one pass.
BLOCKS = 200


@dataclass(frozen=True, slots=True)
class SystemValue:
    """A system's value on one metric. `low` and `high` are None where too little is known for an interval."""

    system: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    higher_is_better: bool | None


@dataclass(slots=True)
class Turns:
    """The turn scores of one system on one metric: numbers only, so that millions of rows stay small."""

    values: array[float] = field(default_factory=lambda: array("d"))
    clusters: array[int] = field(default_factory=lambda: array("q"))


@dataclass(slots=True)
class RunningMean:
    """A mean that needs no list."""

    total: float = 0.0
    n: int = 0

    def add(self, value: float) -> None:
        self.total += value
        self.n += 1

    @property
    def value(self) -> float:
        return self.total / self.n


class Summary:
    """Takes judged turns one by one and gives the values of everything above a turn."""

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        self.metrics = metrics
        self.systems: dict[str, dict[str, Turns]] = {}
        self.pooled: dict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
        self.dialogues: dict[tuple[str, str], dict[str, RunningMean]] = {}
        self.groups: dict[tuple[str, str], dict[str, RunningMean]] = {}

    def add(self, judged: Judged) -> None:
        """Count one judged turn in; rows without an example only make their absence known elsewhere."""
        example = judged.row.example
        if example is None:
            return
        cluster = cluster_key(example)
        turns = self.systems.setdefault(example.system, {key: Turns() for key in self.metrics})
        for key, score in judged.scores.items():
            if score.value is None:
                continue
            turns[key].values.append(score.value)
            turns[key].clusters.append(cluster)
            if self.metrics[key].pooled:
                blocks = self.pooled[example.system, key]
                statistic = self.metrics[key].statistic(example)
                block = cluster % BLOCKS
                blocks[block] = blocks[block] + statistic if block in blocks else statistic
        if example.dialogue_id is not None:
            _add_means(self.dialogues, (example.dialogue_id, example.system), judged.scores)
        if example.group is not None:
            _add_means(self.groups, (example.group, example.system), judged.scores)

    def system_values(self, *, seed: int) -> list[SystemValue]:
        """Every system on every metric, systems in order of appearance."""
        return [
            self._system_value(system, key, turns, seed)
            for system, by_metric in self.systems.items()
            for key, turns in by_metric.items()
        ]

    def _system_value(self, system: str, key: str, turns: Turns, seed: int) -> SystemValue:
        metric = self.metrics[key]
        n = len(turns.values)
        interval: Interval | None = None
        if n == 0:
            value = None
        elif metric.pooled:
            blocks = self.pooled[system, key]
            value = metric.pool(sum_statistics(list(blocks.values())))
            left_out = leave_one_out(metric, blocks)
            if value is not None and len(left_out) > 1:
                interval = jackknife_interval(np.array(list(left_out.values())), value)
        else:
            values = np.frombuffer(turns.values, dtype=np.float64)
            value = float(values.mean())
            interval = mean_interval(values, np.frombuffer(turns.clusters, dtype=np.int64), seed=seed)
        low, high = (None, None) if interval is None else _within(metric.range, interval)
        return SystemValue(system, key, value, low, high, n, metric.higher_is_better)


def _within(bounds: tuple[float, float], interval: Interval) -> tuple[float, float]:
    """A normal interval knows nothing of the ends of a scale."""
    return max(bounds[0], interval.low), min(bounds[1], interval.high)


def sum_statistics(statistics: list[Any]) -> Any:
    """Statistics of any metric, added up."""
    total = statistics[0]
    for statistic in statistics[1:]:
        total = total + statistic
    return total


def leave_one_out(metric: Metric, blocks: Mapping[int, Any]) -> dict[int, float]:
    """The pooled value without each block in turn."""
    if len(blocks) < 2:
        return {}
    total = sum_statistics(list(blocks.values()))
    values = {block: metric.pool(total - statistic) for block, statistic in blocks.items()}
    return {block: value for block, value in values.items() if value is not None}


def _add_means(
    table: dict[tuple[str, str], dict[str, RunningMean]], key: tuple[str, str], scores: Mapping[str, Score]
) -> None:
    means = table.setdefault(key, {})
    for metric, score in scores.items():
        mean = means.setdefault(metric, RunningMean())
        if score.value is not None:
            mean.add(score.value)
