"""From judged turns to dialogues, groups and systems, with an interval on every system's value."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from turnwise.engine.groups import GroupTotal, add_to_group, group_mean
from turnwise.engine.local import Judged, cluster_key
from turnwise.metrics.base import Metric, Score
from turnwise.stats.bootstrap import mean_interval
from turnwise.stats.interval import Interval, jackknife_interval
from turnwise.stats.subsets import draws_of, resampled_interval, units_of

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
    parts: Mapping[str, float] = field(default_factory=dict)
    curve: tuple[tuple[float, float], ...] = ()
    note: str | None = None

    @property
    def made_of(self) -> str:
        """What the value rests on and is made of, in words; nothing where it is a plain mean."""
        if not self.parts:
            return ""
        counts = {"responses": self.n, **({"references": int(r)} if (r := self.parts.get("references")) else {})}
        sizes = " and ".join(f"{count:,} {name}" for name, count in counts.items())
        return f"{sizes}: " + ", ".join(f"{name} {part:.4g}" for name, part in self.parts.items() if name not in counts)


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
        self.evidence: dict[tuple[str, str], list[Any]] = defaultdict(list)
        self.dialogues: dict[tuple[str, str], dict[str, RunningMean]] = {}
        self.groups: dict[tuple[str, str], dict[str, RunningMean | GroupTotal]] = {}

    def add(self, judged: Judged) -> None:
        """Count one judged turn in; rows without an example only make their absence known elsewhere."""
        example = judged.row.example
        if example is None:
            return
        cluster = cluster_key(example)
        turns = self.systems.setdefault(example.system, {key: Turns() for key in self.metrics})
        for key, score in judged.scores.items():
            if self.metrics[key].level == "group":
                continue
            if score.evidence is not None:
                self.evidence[example.system, key].append(score.evidence)
                turns[key].clusters.append(cluster)
            if score.value is None:
                continue
            turns[key].values.append(score.value)
            turns[key].clusters.append(cluster)
            if self.metrics[key].pooled:
                blocks = self.pooled[example.system, key]
                statistic = self.metrics[key].statistic(example)
                block = cluster % BLOCKS
                blocks[block] = blocks[block] + statistic if block in blocks else statistic
        turn_scores = {key: score for key, score in judged.scores.items() if self.metrics[key].level == "turn"}
        if example.dialogue_id is not None:
            _add_means(self.dialogues, (example.dialogue_id, example.system), turn_scores)
        if example.group is not None:
            _add_means(self.groups, (example.group, example.system), turn_scores)
            add_to_group(self.groups[example.group, example.system], example, self.metrics, judged.scores)

    def system_values(self, *, seed: int) -> list[SystemValue]:
        """Every system on every metric, systems in order of appearance."""
        return [
            self._system_value(system, key, turns, seed)
            for system, by_metric in self.systems.items()
            for key, turns in by_metric.items()
        ]

    def point(self, system: str, key: str) -> float | None:
        """A system's value without its interval, which may take a hundred times as long."""
        metric, turns = self.metrics[key], self.systems[system][key]
        if metric.level == "group":
            return self._group_value(system, key, seed=0).value
        if not turns.clusters:
            return None
        if metric.level == "system":
            alone = np.zeros(len(turns.clusters), dtype=np.intp)
            return metric.measure(self.evidence[system, key], alone, np.empty((0, 1))).value
        if metric.pooled:
            return metric.pool(sum_statistics(list(self.pooled[system, key].values())))
        return float(np.mean(turns.values))

    def _system_value(self, system: str, key: str, turns: Turns, seed: int) -> SystemValue:
        metric = self.metrics[key]
        if metric.level == "group":
            return self._group_value(system, key, seed)
        n = len(turns.clusters)
        interval: Interval | None = None
        if n == 0:
            value = None
        elif metric.level == "system":
            return self._whole_value(system, key, turns, seed)
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

    def _group_value(self, system: str, key: str, seed: int) -> SystemValue:
        metric = self.metrics[key]
        totals = (of[key] for (_, name), of in self.groups.items() if name == system and key in of)
        value, interval, n = group_mean((total for total in totals if isinstance(total, GroupTotal)), seed=seed)
        low, high = (None, None) if interval is None else _within(metric.range, interval)
        note = "no group has two replies" if value is None else None
        return SystemValue(system, key, value, low, high, n, metric.higher_is_better, note=note)

    def _whole_value(self, system: str, key: str, turns: Turns, seed: int) -> SystemValue:
        metric = self.metrics[key]
        units, count = units_of(np.frombuffer(turns.clusters, dtype=np.int64))
        found = metric.measure(self.evidence[system, key], units, draws_of(count, seed=seed))
        interval = None if found.value is None else resampled_interval(np.array(found.resampled), found.value, count)
        low, high = (None, None) if interval is None else _within(metric.range, interval)
        facts = (found.parts, found.curve, found.note)
        return SystemValue(system, key, found.value, low, high, len(units), metric.higher_is_better, *facts)


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


def _add_means(table: dict[tuple[str, str], dict[str, Any]], key: tuple[str, str], scores: Mapping[str, Score]) -> None:
    means = table.setdefault(key, {})
    for metric, score in scores.items():
        mean = means.setdefault(metric, RunningMean())
        if score.value is not None:
            mean.add(score.value)
