"""From judged turns to dialogues, groups and systems, with an interval on every system's value."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from turnwise.engine.groups import GroupTotal, add_to_group, group_mean, merge_groups
from turnwise.engine.local import Judged, cluster_key
from turnwise.engine.totals import ClusterTotals, MeansByName
from turnwise.metrics.base import Metric
from turnwise.problems import Problem
from turnwise.stats.bootstrap import Interval
from turnwise.stats.subsets import draws_of, jackknife_interval, resampled_interval, units_of

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
    note: Problem | None = None

    @property
    def made_of(self) -> str:
        """What the value rests on and is made of, in words; nothing where it is a plain mean."""
        if not self.parts:
            return ""
        counts = {"responses": self.n, **({"references": int(r)} if (r := self.parts.get("references")) else {})}
        sizes = " and ".join(f"{count:,} {name}" for name, count in counts.items())
        # What is nothing but rounding is nothing.
        parts = {name: 0.0 if abs(part) < 1e-9 else part for name, part in self.parts.items() if name not in counts}
        return f"{sizes}: " + ", ".join(f"{name} {part:.4g}" for name, part in parts.items())


@dataclass(slots=True)
class Evidence:
    """What the turns of one system add to a value of the whole system, with each turn's place and cluster."""

    numbers: array[int] = field(default_factory=lambda: array("q"))
    clusters: array[int] = field(default_factory=lambda: array("q"))
    items: list[Any] = field(default_factory=list)

    def add(self, number: int, cluster: int, item: Any) -> None:
        """Count one turn in."""
        self.numbers.append(number)
        self.clusters.append(cluster)
        self.items.append(item)

    def merge(self, other: Evidence) -> None:
        """Add another part of the run."""
        self.numbers.extend(other.numbers)
        self.clusters.extend(other.clusters)
        self.items.extend(other.items)

    def in_order(self) -> Evidence:
        """The same, sorted once all parts are there: turns in the order of the run, whoever judged them."""
        order = np.argsort(np.array(self.numbers), kind="stable").tolist()
        if order != list(range(len(order))):
            self.numbers = array("q", (self.numbers[i] for i in order))
            self.clusters = array("q", (self.clusters[i] for i in order))
            self.items = [self.items[i] for i in order]
        return self


class Summary:
    """Takes judged turns one by one and gives the values of everything above a turn.

    Summaries of parts of a run merge into exactly the summary of the whole.
    """

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        self.metrics = metrics
        self.first: dict[str, int] = {}
        self.sizes: Counter[str] = Counter()
        self.turns: dict[tuple[str, str], ClusterTotals] = defaultdict(ClusterTotals)
        self.pooled: dict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
        self.evidence: dict[tuple[str, str], Evidence] = defaultdict(Evidence)
        self.dialogues, self.group_means = MeansByName(), MeansByName()
        self.groups: dict[tuple[str, str], dict[str, GroupTotal]] = {}

    @property
    def systems(self) -> list[str]:
        """The systems in the order in which they first occur."""
        return sorted(self.first, key=self.first.__getitem__)

    def add(self, judged: Judged) -> None:
        """Count one judged turn in; rows without an example only make their absence known elsewhere."""
        example = judged.row.example
        if example is None:
            return
        cluster, system, number = cluster_key(example), example.system, judged.number
        self.first[system] = min(self.first.get(system, number), number)
        self.sizes[system] += 1
        for key, score in judged.scores.items():
            metric = self.metrics[key]
            if metric.level == "group":
                continue
            if score.evidence is not None:
                self.evidence[system, key].add(number, cluster, score.evidence)
            if score.value is None:
                continue
            self.turns[system, key].add(cluster, score.value)
            if metric.pooled:
                add_to_block(self.pooled[system, key], cluster % BLOCKS, metric.statistic(example))
        if example.dialogue_id is None and example.group is None:
            return
        turn_scores = {k: score.value for k, score in judged.scores.items() if self.metrics[k].level == "turn"}
        if example.dialogue_id is not None:
            self.dialogues.add(example.dialogue_id, system, number, turn_scores)
        if example.group is not None:
            self.group_means.add(example.group, system, number, turn_scores)
            totals = self.groups.setdefault((example.group, system), {})
            add_to_group(totals, example, self.metrics, judged.scores, number)

    def merge(self, other: Summary) -> None:
        """Add the turns of another part of the run."""
        for system, number in other.first.items():
            self.first[system] = min(self.first.get(system, number), number)
        self.sizes.update(other.sizes)
        for key, turns in other.turns.items():
            self.turns[key].merge(turns)
        for key, blocks in other.pooled.items():
            for block, statistic in blocks.items():
                add_to_block(self.pooled[key], block, statistic)
        for key, evidence in other.evidence.items():
            self.evidence[key].merge(evidence)
        self.dialogues.merge(other.dialogues)
        self.group_means.merge(other.group_means)
        for group, totals in other.groups.items():
            merge_groups(self.groups.setdefault(group, {}), totals)

    def state(self) -> dict[str, Any]:
        """All that has been added up, for `restored`."""
        return {name: value for name, value in vars(self).items() if name != "metrics"}

    @classmethod
    def restored(cls, metrics: Mapping[str, Metric], state: Mapping[str, Any]) -> Summary:
        """The summary whose state this is."""
        summary = cls(metrics)
        for name, value in state.items():
            current = getattr(summary, name)
            # What fills itself with new totals has to stay what it is.
            current.update(value) if isinstance(current, defaultdict) else setattr(summary, name, value)
        return summary

    def groups_in_order(self) -> list[tuple[tuple[str, str], dict[str, GroupTotal]]]:
        """Every group and system with its totals, in the order of the run, whoever judged them."""
        return sorted(self.groups.items(), key=lambda item: min((of.first for of in item[1].values()), default=0))

    def group_table(self) -> Iterator[tuple[tuple[str, str], dict[str, float | None]]]:
        """Every group and system with its values: means of turn scores, and what metrics of groups say."""
        for group, means in self.group_means.items():
            yield group, {**means, **{key: total.value for key, total in self.groups.get(group, {}).items()}}

    def system_values(self, *, seed: int, intervals: bool = True) -> list[SystemValue]:
        """Every system on every metric, systems in order of appearance."""
        return [
            self._system_value(system, key, seed) if intervals else self._bare_value(system, key)
            for system in self.systems
            for key in self.metrics
        ]

    def point(self, system: str, key: str) -> float | None:
        """A system's value without its interval, which may take a hundred times as long."""
        metric = self.metrics[key]
        if metric.level == "group":
            return self._group_value(system, key, seed=0).value
        if metric.level == "system":
            found = self.evidence[system, key].in_order().items
            alone = np.zeros(len(found), dtype=np.intp)
            return metric.measure(found, alone, np.empty((0, 1))).value if found else None
        if not self.turns[system, key].n:
            return None
        if metric.pooled:
            return metric.pool(sum_statistics(in_order(self.pooled[system, key])))
        return self.turns[system, key].mean

    def _bare_value(self, system: str, key: str) -> SystemValue:
        value, n = self.point(system, key), self.turns[system, key].n
        return SystemValue(system, key, value, None, None, n, self.metrics[key].higher_is_better)

    def _system_value(self, system: str, key: str, seed: int) -> SystemValue:
        metric, turns = self.metrics[key], self.turns[system, key]
        if metric.level == "group":
            return self._group_value(system, key, seed)
        if metric.level == "system" and self.evidence[system, key].items:
            return self._whole_value(system, key, seed)
        interval: Interval | None = None
        if turns.n == 0:
            value = None
        elif metric.pooled:
            blocks = self.pooled[system, key]
            total = sum_statistics(in_order(blocks))
            value, left_out = metric.pool(total), leave_one_out(metric, blocks, total)
            if value is not None and len(left_out) > 1:
                interval = jackknife_interval(np.array(list(left_out.values())), value)
        else:
            value, interval = turns.mean, turns.interval(seed=seed)
        low, high = (None, None) if interval is None else _within(metric.range, interval)
        return SystemValue(system, key, value, low, high, turns.n, metric.higher_is_better)

    def _group_value(self, system: str, key: str, seed: int) -> SystemValue:
        metric = self.metrics[key]
        totals = (of[key] for (_, name), of in self.groups_in_order() if name == system and key in of)
        value, interval, n = group_mean(totals, seed=seed)
        low, high = (None, None) if interval is None else _within(metric.range, interval)
        note = Problem.of("value.single_replies") if value is None else None
        return SystemValue(system, key, value, low, high, n, metric.higher_is_better, note=note)

    def _whole_value(self, system: str, key: str, seed: int) -> SystemValue:
        metric, evidence = self.metrics[key], self.evidence[system, key].in_order()
        units, count = units_of(np.array(evidence.clusters))
        found = metric.measure(evidence.items, units, draws_of(count, seed=seed))
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


def in_order(blocks: Mapping[int, Any]) -> list[Any]:
    """Statistics by block, in an order that does not depend on which turn came first."""
    return [blocks[block] for block in sorted(blocks)]


def add_to_block(blocks: dict[int, Any], block: int, statistic: Any) -> None:
    """Count a statistic into its block."""
    blocks[block] = blocks[block] + statistic if block in blocks else statistic


def leave_one_out(metric: Metric, blocks: Mapping[int, Any], total: Any = None) -> dict[int, float]:
    """The pooled value without each block in turn; `total` is all of them added up, where that is known already."""
    if len(blocks) < 2:
        return {}
    total = sum_statistics(in_order(blocks)) if total is None else total
    values = {block: metric.pool(total - blocks[block]) for block in sorted(blocks)}
    return {block: value for block, value in values.items() if value is not None}
