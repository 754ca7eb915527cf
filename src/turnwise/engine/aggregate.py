"""From judged turns to dialogues, groups and systems: what turns add up to, and how two systems differ.

One `Aggregate` holds what the turns of one system add to its value on one metric. How they add up depends on what the
metric judges; `aggregate_for` is the only place that asks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from turnwise.dialogue import Example
from turnwise.engine.score import Judged, cluster_key, hash64
from turnwise.engine.totals import ClusterTotals, MeansByName
from turnwise.metrics.base import GroupMetric, Metric, PooledMetric, Score, SystemMetric
from turnwise.problems import Problem, counted
from turnwise.stats.arrays import FloatArray
from turnwise.stats.bootstrap import Interval
from turnwise.stats.decisions import (
    Evidence,
    mean_evidence,
    no_difference,
    paired_evidence,
    same_but_for_rounding,
    unpaired_evidence,
)
from turnwise.stats.subsets import draws_of, jackknife_evidence, resampled_evidence, units_of

# Pooled statistics are kept per block of clusters, so that leaving one block out gives an interval in one pass.
BLOCKS = 200
# Systems are compared in pairs when at least this share of what each one answered is common to both.
SHARED = 0.5
Key = Callable[[Example], Hashable]
Ends = tuple[float | None, float | None]


class TurnFacts(NamedTuple):
    """One response, what it is resampled with, and its place in the run."""

    example: Example
    cluster: int
    number: int = 0


class Estimate(NamedTuple):
    """The value of one system on one metric; `low` and `high` are None if too little is known for an interval."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    parts: Mapping[str, float] = {}
    curve: tuple[tuple[float, float], ...] = ()
    note: Problem | None = None


class Difference(NamedTuple):
    """System minus baseline, the evidence on it, and what both stand on; None if too little is known.

    `pairs` are the two systems' values of whatever both answered, with its cluster; none where they are not paired.
    """

    value: float | None = None
    evidence: Evidence | None = None
    n: int = 0
    basis: str = ""
    pairs: Pairs | None = None


class Pairs(NamedTuple):
    """Values of two systems side by side, by what they answered."""

    answered: list[Hashable]
    ours: FloatArray
    theirs: FloatArray
    clusters: NDArray[np.int64]


class Pairing(Protocol):
    """How the answers of two systems are paired: `unit` is None if they are not, `keys` name what each one answers."""

    @property
    def unit(self) -> str | None: ...

    @property
    def keys(self) -> tuple[Key, Key]: ...


Basis = Literal["turns", "pooled turns", "groups", "whole system"]


@dataclass(slots=True)
class Aggregate(ABC):
    """What the turns of one system add to its value on one metric. Parts of a run merge into exactly the whole."""

    # What the value is computed from, for words and tables that tell metrics apart.
    basis: ClassVar[Basis]
    metric: Any

    @abstractmethod
    def add(self, turn: TurnFacts, score: Score) -> None:
        """Count one judged turn in."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Add another part of the run."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Return the number of turns, or groups, that the value rests on."""

    @abstractmethod
    def value(self) -> float | None:
        """Return the value without its interval, which may take a hundred times as long."""

    @abstractmethod
    def estimate(self, seed: int) -> Estimate:
        """Return the value with its interval."""

    @abstractmethod
    def difference(self, other: Any, match: Pairing, seed: int) -> Difference:
        """Return by how much the value differs from that of another system."""

    def _bounds(self) -> tuple[float, float] | None:
        """Return the ends of the metric's scale, if it has both."""
        low, high = self.metric.range
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None

    def _ends(self, interval: Interval | None) -> Ends:
        """A normal interval does not end where a scale does."""
        low, high = self.metric.range
        return (None, None) if interval is None else (max(low, interval.low), min(high, interval.high))


# --- means of turns --------------------------------------------------------------------------------------


@dataclass(slots=True)
class TurnMean(Aggregate):
    """The mean of turn scores. A comparison also needs the turns themselves: `kept` holds them if it is a list."""

    basis: ClassVar[Basis] = "turns"
    totals: ClusterTotals = field(default_factory=ClusterTotals)
    kept: list[tuple[TurnFacts, float]] | None = None

    def add(self, turn: TurnFacts, score: Score) -> None:
        if score.value is not None:
            self.totals.add(turn.cluster, score.value)
            if self.kept is not None:
                self.kept.append((turn, score.value))

    def merge(self, other: TurnMean) -> None:
        self.totals.merge(other.totals)

    @property
    def n(self) -> int:
        return self.totals.n

    def value(self) -> float | None:
        return self.totals.mean if self.n else None

    def estimate(self, seed: int) -> Estimate:
        if not self.n:
            return Estimate()
        evidence = self.totals.evidence(self._bounds())
        return Estimate(self.totals.mean, *self._ends(evidence.interval() if evidence else None), self.n)

    def difference(self, other: TurnMean, match: Pairing, seed: int) -> Difference:
        sides = [_side(side.kept or (), key) for side, key in zip((self, other), match.keys, strict=True)]
        found = _of_sides(*sides, unit=match.unit, bounds=self._bounds(), seed=seed)
        if found.evidence is not None and found.pairs is not None and found.evidence.constant and found.value == 0:
            replies = [
                Counter((key(t.example), t.example.response) for t, _ in side.kept or ())
                for side, key in zip((self, other), match.keys, strict=True)
            ]
            if replies[0] == replies[1]:
                return found._replace(evidence=no_difference(found.evidence.n))
        return found


@dataclass(frozen=True, slots=True)
class Side:
    """The values of one system by what they answer, a context or a group, each with what it is resampled with."""

    values: dict[Hashable, list[tuple[float, int]]] = field(default_factory=dict)

    def add(self, answered: Hashable, value: float, cluster: int) -> None:
        """Count one value in."""
        self.values.setdefault(answered, []).append((value, cluster))

    def all(self) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return every value, and the cluster of each."""
        values, clusters = zip(*(pair for pairs in self.values.values() for pair in pairs), strict=True)
        return np.array(values, dtype=np.float64), np.array(clusters, dtype=np.int64)


def _side(kept: Iterable[tuple[TurnFacts, float]], key: Key) -> Side:
    side = Side()
    for turn, value in kept:
        side.add(key(turn.example), value, turn.cluster)
    return side


def _of_sides(
    ours: Side, theirs: Side, *, unit: str | None, bounds: tuple[float, float] | None, seed: int
) -> Difference:
    """Compare by pairs of what both answered, or else any answers of the one with any of the other.

    A context that was answered several times counts as often, as it does in the systems' means.
    """
    if not ours.values or not theirs.values:
        return Difference()
    shared = [answered for answered in ours.values if answered in theirs.values]
    if unit is not None and len(shared) > 1:
        sides = [[side.values[answered] for answered in shared] for side in (ours, theirs)]
        a, b = (np.array([np.mean([value for value, _ in pairs]) for pairs in side]) for side in sides)
        weights = np.array([(len(mine) + len(its)) / 2 for mine, its in zip(*sides, strict=True)])
        clusters = np.array([pairs[0][1] for pairs in sides[0]], dtype=np.int64)
        evidence = paired_evidence(a, b, clusters, weights, bounds, seed=seed)
        value = float(np.average(a - b, weights=weights)) if evidence is None else evidence.value
        return Difference(value, evidence, len(shared), counted(len(shared), unit), Pairs(shared, a, b, clusters))
    (a, clusters_a), (b, clusters_b) = ours.all(), theirs.all()
    evidence = unpaired_evidence(a, b, clusters_a, clusters_b, seed=seed)
    value = float(a.mean() - b.mean()) if evidence is None else evidence.value
    sizes = len(ours.values), len(theirs.values)
    return Difference(value, evidence, sum(sizes), f"{sizes[0]:,} and {sizes[1]:,} {unit or 'context'}s, unpaired")


def in_pairs(ours: Collection[Hashable], theirs: Collection[Hashable]) -> bool:
    """Return whether two systems answered enough of the same to be compared answer by answer.

    >>> in_pairs("abc", "bcd"), in_pairs("abc", "cde")
    (True, False)
    """
    shared = len(set(ours) & set(theirs))
    return shared >= 2 and shared >= SHARED * max(len(ours), len(theirs))


def _turns(ours: int, theirs: int) -> tuple[int, str]:
    """Return how many replies a difference of whole systems stands on, and that in words."""
    return ours + theirs, f"{ours:,} and {theirs:,} replies"


def _minus(ours: float, others: float) -> float:
    return 0.0 if same_but_for_rounding(ours, others) else ours - others


# --- pooled statistics -----------------------------------------------------------------------------------


@dataclass(slots=True)
class PooledStatistics(Aggregate):
    """A value of statistics that are added up over turns, by block of clusters."""

    basis: ClassVar[Basis] = "pooled turns"
    turns: int = 0
    blocks: dict[int, Any] = field(default_factory=dict)

    def add(self, turn: TurnFacts, score: Score) -> None:
        if score.value is not None:
            self.turns += 1
            self._add(turn.cluster % BLOCKS, self.metric.statistic(turn.example))

    def _add(self, block: int, statistic: Any) -> None:
        self.blocks[block] = self.blocks[block] + statistic if block in self.blocks else statistic

    def merge(self, other: PooledStatistics) -> None:
        self.turns += other.turns
        for block, statistic in other.blocks.items():
            self._add(block, statistic)

    @property
    def n(self) -> int:
        return self.turns

    def _total(self) -> Any:
        # In an order that does not depend on which turn came first.
        first, *others = (self.blocks[block] for block in sorted(self.blocks))
        for statistic in others:
            first = first + statistic
        return first

    def value(self) -> float | None:
        found: float | None = self.metric.value(self._total()) if self.n else None
        return found

    def estimate(self, seed: int) -> Estimate:
        value = self.value()
        known = (
            None if value is None else jackknife_evidence(list(self._leave_one_out().values()), value, difference=False)
        )
        interval = known.interval() if known else None
        return Estimate(value, *self._ends(interval), self.n)

    def _leave_one_out(self) -> dict[int, float]:
        """Return the value without each block in turn."""
        if len(self.blocks) < 2:
            return {}
        total = self._total()
        values = {block: self.metric.value(total - self.blocks[block]) for block in sorted(self.blocks)}
        return {block: value for block, value in values.items() if value is not None}

    def difference(self, other: PooledStatistics, match: Pairing, seed: int) -> Difference:
        """Pooled values have no turn to pair: the same blocks of contexts are left out on both sides."""
        ours, theirs = self.value(), other.value()
        if ours is None or theirs is None:
            return Difference()
        mine, its = self._leave_one_out(), other._leave_one_out()
        blocks = sorted(mine.keys() | its.keys())
        differences = np.array([mine.get(b, ours) - its.get(b, theirs) for b in blocks])
        value = _minus(ours, theirs)
        return Difference(value, jackknife_evidence(differences, value), *_turns(self.n, other.n))


# --- groups ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class GroupTotal:
    """What the responses of one group add up to, what the group is resampled with, and where in the run it begins."""

    cluster: int
    first: int
    total: Any = None

    def add(self, evidence: Any) -> None:
        """Count one response in, or several."""
        if evidence is not None:
            self.total = evidence if self.total is None else self.total + evidence


@dataclass(slots=True)
class GroupMean(Aggregate):
    """The mean over groups of responses, each of which is judged as a whole."""

    basis: ClassVar[Basis] = "groups"
    groups: dict[str, GroupTotal] = field(default_factory=dict)

    def add(self, turn: TurnFacts, score: Score) -> None:
        example = turn.example
        if example.group is not None:
            # Groups made from one dialogue are no more independent than its turns.
            cluster = hash64("d", example.dialogue_id) if example.dialogue_id else hash64("g", example.group)
            self.groups.setdefault(example.group, GroupTotal(cluster, turn.number)).add(score.evidence)

    def merge(self, other: GroupMean) -> None:
        for name, theirs in other.groups.items():
            ours = self.groups.setdefault(name, GroupTotal(theirs.cluster, theirs.first))
            ours.add(theirs.total)
            if theirs.first < ours.first:
                ours.first, ours.cluster = theirs.first, theirs.cluster

    def values(self) -> dict[str, float | None]:
        """Return the value of each group, in the order of the run, whoever judged them."""
        ordered = sorted(self.groups.items(), key=lambda item: item[1].first)
        return {name: None if of.total is None else self.metric.value(of.total) for name, of in ordered}

    def _known(self) -> Side:
        side = Side()
        for name, value in self.values().items():
            if value is not None:
                side.add(name, value, self.groups[name].cluster)
        return side

    @property
    def n(self) -> int:
        return len(self._known().values)

    def value(self) -> float | None:
        known = self._known()
        return float(known.all()[0].mean()) if known.values else None

    def estimate(self, seed: int) -> Estimate:
        known = self._known()
        if not known.values:
            return Estimate(note=Problem.of("value.single_replies"))
        values, clusters = known.all()
        evidence = mean_evidence(values, clusters, self._bounds())
        return Estimate(float(values.mean()), *self._ends(evidence.interval() if evidence else None), len(values))

    def difference(self, other: GroupMean, match: Pairing, seed: int) -> Difference:
        ours, theirs = self._known(), other._known()
        paired = in_pairs(ours.values, theirs.values)
        return _of_sides(ours, theirs, unit="group" if paired else None, bounds=self._bounds(), seed=seed)


# --- whole systems ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class WholeSystem(Aggregate):
    """A value of all turns together: their evidence, with each turn's place in the run and its cluster."""

    basis: ClassVar[Basis] = "whole system"
    numbers: array[int] = field(default_factory=lambda: array("q"))
    clusters: array[int] = field(default_factory=lambda: array("q"))
    evidence: list[Any] = field(default_factory=list)

    def add(self, turn: TurnFacts, score: Score) -> None:
        if score.evidence is not None:
            self.numbers.append(turn.number)
            self.clusters.append(turn.cluster)
            self.evidence.append(score.evidence)

    def merge(self, other: WholeSystem) -> None:
        self.numbers.extend(other.numbers)
        self.clusters.extend(other.clusters)
        self.evidence.extend(other.evidence)

    @property
    def n(self) -> int:
        return len(self.evidence)

    def in_order(self) -> list[Any]:
        """Return the evidence in the order of the run, whoever judged it, and keep it so."""
        order = np.argsort(np.array(self.numbers), kind="stable").tolist()
        if order != list(range(len(order))):
            self.numbers = array("q", (self.numbers[i] for i in order))
            self.clusters = array("q", (self.clusters[i] for i in order))
            self.evidence = [self.evidence[i] for i in order]
        return self.evidence

    def value(self) -> float | None:
        if not self.n:
            return None
        found: float | None = self.metric.value(
            self.in_order(), np.zeros(self.n, dtype=np.intp), np.empty((0, 1))
        ).value
        return found

    def estimate(self, seed: int) -> Estimate:
        if not self.n:
            return Estimate()
        evidence = self.in_order()
        units, count = units_of(np.array(self.clusters))
        found = self.metric.value(evidence, units, draws_of(count, seed=seed))
        known = (
            None
            if found.value is None
            else resampled_evidence(np.array(found.resampled), found.value, count, difference=False)
        )
        interval = known.interval() if known else None
        return Estimate(found.value, *self._ends(interval), self.n, found.parts, found.curve, found.note)

    def difference(self, other: WholeSystem, match: Pairing, seed: int) -> Difference:
        """Both values are computed anew on the same resamples of contexts."""
        if not self.n or not other.n:
            return Difference()
        evidence = self.in_order(), other.in_order()
        units, count = units_of(np.array([*self.clusters, *other.clusters], dtype=np.int64))
        draws = draws_of(count, seed=seed)
        each = zip(evidence, (units[: self.n], units[self.n :]), strict=True)
        ours, theirs = (self.metric.value(items, at, draws) for items, at in each)
        if ours.value is None or theirs.value is None:
            return Difference()
        value = _minus(ours.value, theirs.value)
        apart = np.array(ours.resampled) - np.array(theirs.resampled)
        return Difference(value, resampled_evidence(apart, value, count), *_turns(self.n, other.n))


def aggregate_for(metric: Metric, *, comparing: bool = False) -> Aggregate:
    """Return an empty aggregate of one system on this metric; for a comparison it keeps what is paired."""
    if isinstance(metric, GroupMetric):
        return GroupMean(metric)
    if isinstance(metric, SystemMetric):
        return WholeSystem(metric)
    if isinstance(metric, PooledMetric) and metric.pools:
        return PooledStatistics(metric)
    return TurnMean(metric, kept=[] if comparing else None)


def basis_of(metric: Metric) -> Basis:
    """Return what a system's value on this metric is computed from."""
    return aggregate_for(metric).basis


# --- everything above a turn -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SystemValue:
    """A system's value on one metric. `low` and `high` are None if too little is known for an interval."""

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
        """Return what the value rests on and is made of, in words; nothing for a plain mean."""
        if not self.parts:
            return ""
        counts = {"responses": self.n, **({"references": int(r)} if (r := self.parts.get("references")) else {})}
        sizes = " and ".join(f"{count:,} {name}" for name, count in counts.items())
        # What is nothing but rounding is nothing.
        parts = {name: 0.0 if abs(part) < 1e-9 else part for name, part in self.parts.items() if name not in counts}
        return f"{sizes}: " + ", ".join(f"{name} {part:.4g}" for name, part in parts.items())


class Summary:
    """Takes judged turns one by one and gives the values of everything above a turn.

    Summaries of parts of a run merge into exactly the summary of the whole.
    """

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        self.metrics = metrics
        self.first: dict[str, int] = {}
        self.sizes: Counter[str] = Counter()
        self.aggregates: dict[tuple[str, str], Aggregate] = {}
        self.dialogues, self.group_means = MeansByName(), MeansByName()

    @property
    def systems(self) -> list[str]:
        """The systems in the order in which they first occur."""
        return sorted(self.first, key=self.first.__getitem__)

    def add(self, judged: Judged) -> None:
        """Count one judged turn in; rows without an example only make their absence known elsewhere."""
        example = judged.row.example
        if example is None:
            return
        system, number = example.system, judged.number
        turn = TurnFacts(example, cluster_key(example), number)
        self.first[system] = min(self.first.get(system, number), number)
        self.sizes[system] += 1
        for key, score in judged.scores.items():
            self.of(system, key).add(turn, score)
        if example.dialogue_id is None and example.group is None:
            return
        turn_scores = {k: score.value for k, score in judged.scores.items() if self.metrics[k].per_turn}
        if example.dialogue_id is not None:
            self.dialogues.add(example.dialogue_id, system, number, turn_scores)
        if example.group is not None:
            self.group_means.add(example.group, system, number, turn_scores)

    def of(self, system: str, key: str) -> Aggregate:
        """Return what the turns of one system add up to on one metric."""
        return self.aggregates.setdefault((system, key), aggregate_for(self.metrics[key]))

    def merge(self, other: Summary) -> None:
        """Add the turns of another part of the run."""
        for system, number in other.first.items():
            self.first[system] = min(self.first.get(system, number), number)
        self.sizes.update(other.sizes)
        for (system, key), aggregate in other.aggregates.items():
            self.of(system, key).merge(aggregate)
        self.dialogues.merge(other.dialogues)
        self.group_means.merge(other.group_means)

    def state(self) -> dict[str, Any]:
        """Return all that has been added up, for `restored`."""
        return {name: value for name, value in vars(self).items() if name != "metrics"}

    @classmethod
    def restored(cls, metrics: Mapping[str, Metric], state: Mapping[str, Any]) -> Summary:
        """Return the summary whose state this is."""
        summary = cls(metrics)
        vars(summary).update(state)
        return summary

    def group_values(self) -> dict[tuple[str, str], dict[str, float | None]]:
        """Return what metrics of groups say of every group and system, in the order of the run."""
        found: dict[tuple[str, str], dict[str, float | None]] = defaultdict(dict)
        for (system, key), aggregate in self.aggregates.items():
            if isinstance(aggregate, GroupMean):
                for group, value in aggregate.values().items():
                    found[group, system][key] = value
        places = {name: place for place, (name, _) in enumerate(self.group_means.items())}
        return dict(sorted(found.items(), key=lambda item: places[item[0]]))

    def group_table(self) -> Iterator[tuple[tuple[str, str], dict[str, float | None]]]:
        """Every group and system with its values: means of turn scores, and what metrics of groups say."""
        judged = self.group_values()
        for group, means in self.group_means.items():
            yield group, {**means, **judged.get(group, {})}

    def system_values(self, *, seed: int, intervals: bool = True) -> list[SystemValue]:
        """Return every system on every metric, systems in order of appearance."""
        return [
            self._system_value(system, key, seed if intervals else None)
            for system in self.systems
            for key in self.metrics
        ]

    def _system_value(self, system: str, key: str, seed: int | None) -> SystemValue:
        aggregate = self.of(system, key)
        found = Estimate(aggregate.value(), n=aggregate.n) if seed is None else aggregate.estimate(seed)
        facts = found._asdict()
        return SystemValue(system, key, higher_is_better=self.metrics[key].higher_is_better, **facts)

    def point(self, system: str, key: str) -> float | None:
        """Return a system's value without its interval."""
        return self.of(system, key).value()
