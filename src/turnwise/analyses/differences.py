"""One system against another on one metric: by how much do they differ, and how sure is that?"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.analyses.pairs import Key, Match, in_pairs
from turnwise.engine.groups import GroupTotal, add_to_group
from turnwise.engine.local import Judged, cluster_key
from turnwise.engine.summarise import Summary, leave_one_out
from turnwise.metrics.base import Metric, Score
from turnwise.stats import significance
from turnwise.stats.subsets import draws_of, jackknife_comparison, resampled_comparison, units_of


class Difference(NamedTuple):
    """System minus baseline, the ends of its 95 % interval, and p; None where too little is known."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """The values of one system by what they answer, a context or a group, and what each of those belongs to."""

    values: dict[Hashable, list[float]] = field(default_factory=dict)
    clusters: dict[Hashable, int | str] = field(default_factory=dict)

    def add(self, answered: Hashable, value: float, cluster: int | str) -> None:
        """One more value."""
        self.values.setdefault(answered, []).append(value)
        self.clusters[answered] = cluster

    def all(self) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Every value, and the cluster of each."""
        pairs = [(value, self.clusters[answered]) for answered, values in self.values.items() for value in values]
        values, clusters = zip(*pairs, strict=True)
        return np.array(values, dtype=np.float64), np.array(clusters)


def difference(
    judged: list[Judged], key: str, metric: Metric, system: str, baseline: str, matched: Match, *, seed: int
) -> Difference:
    """System minus baseline, as the metric's level asks for."""
    if metric.level == "group":
        groups = [_groups_of(judged, key, metric, name) for name in (system, baseline)]
        return _of_sides(*groups, paired=in_pairs(groups[0].values, groups[1].values), seed=seed)
    mine, theirs = (
        [
            item
            for item in judged
            if item.row.example and item.row.example.system == name and _has_share(item.scores[key], metric)
        ]
        for name in (system, baseline)
    )
    if not mine or not theirs:
        return Difference()
    if metric.level == "system":
        return _of_whole_systems(key, metric, mine, theirs, seed=seed)
    if metric.pooled:
        return _of_pooled(key, metric, mine, theirs, system, baseline)
    sides = [_turns_of(items, key, unit) for items, unit in zip((mine, theirs), matched.keys, strict=True)]
    return _of_sides(*sides, paired=matched.unit is not None, seed=seed)


def _has_share(score: Score, metric: Metric) -> bool:
    """Whether a turn takes part in a comparison."""
    return score.counts if metric.level == "system" else score.value is not None


def _turns_of(judged: list[Judged], key: str, unit: Key) -> Side:
    side = Side()
    for item in judged:
        value = item.scores[key].value
        if item.row.example and value is not None:
            side.add(unit(item.row.example), value, cluster_key(item.row.example))
    return side


def _groups_of(judged: list[Judged], key: str, metric: Metric, system: str) -> Side:
    """The groups of one system that have a value."""
    found: dict[str, dict[str, GroupTotal]] = {}
    for item in judged:
        example = item.row.example
        if example and example.system == system and example.group is not None:
            totals = found.setdefault(example.group, {})
            add_to_group(totals, example, {key: metric}, {key: item.scores[key]})
    side = Side()
    for group, totals in found.items():
        if key in totals and (value := totals[key].value) is not None:
            side.add(group, value, totals[key].cluster)
    return side


def _of_sides(ours: Side, theirs: Side, *, paired: bool, seed: int) -> Difference:
    """By pairs of what both answered, or else of any answers of the one with any of the other."""
    if not ours.values or not theirs.values:
        return Difference()
    shared = [answered for answered in ours.values if answered in theirs.values]
    if paired and len(shared) > 1:
        a, b = (np.array([np.mean(side.values[answered]) for answered in shared]) for side in (ours, theirs))
        clusters = np.array([ours.clusters[answered] for answered in shared])
        found = significance.paired_bootstrap(a, b, clusters, seed=seed)
        p = significance.sign_flip_test(a, b, clusters, seed=seed)
    else:
        (a, clusters_a), (b, clusters_b) = ours.all(), theirs.all()
        found = significance.unpaired_bootstrap(a, b, clusters_a, clusters_b, seed=seed)
        p = significance.label_permutation_test(a, b, clusters_a, clusters_b, seed=seed)
    if found is None:
        return Difference(float(a.mean() - b.mean()))
    return Difference(found.difference, found.low, found.high, p)


def _of_pooled(
    key: str, metric: Metric, mine: list[Judged], theirs: list[Judged], system: str, baseline: str
) -> Difference:
    """Pooled values have no turn to pair: the same blocks of contexts are left out on both sides."""
    summary = Summary({key: metric})
    for item in (*mine, *theirs):
        summary.add(Judged(item.row, {key: item.scores[key]}))
    values = {value.system: value.value for value in summary.system_values(seed=0)}
    ours, others = values[system], values[baseline]
    if ours is None or others is None:
        return Difference()
    left_out = [leave_one_out(metric, summary.pooled[name, key]) for name in (system, baseline)]
    blocks = sorted(left_out[0].keys() | left_out[1].keys())
    differences = np.array([left_out[0].get(b, ours) - left_out[1].get(b, others) for b in blocks])
    value = _minus(ours, others)
    found = jackknife_comparison(differences, value)
    return Difference(value) if found is None else Difference(found.difference, found.low, found.high, found.p)


def _of_whole_systems(key: str, metric: Metric, mine: list[Judged], theirs: list[Judged], *, seed: int) -> Difference:
    """Values of whole systems: both are computed anew on the same resamples of contexts."""
    clusters = [cluster_key(item.row.example) for item in (*mine, *theirs) if item.row.example]
    units, count = units_of(np.array(clusters, dtype=np.int64))
    draws = draws_of(count, seed=seed)
    ours, others = (
        metric.measure([item.scores[key].evidence for item in items], at, draws)
        for items, at in ((mine, units[: len(mine)]), (theirs, units[len(mine) :]))
    )
    if ours.value is None or others.value is None:
        return Difference()
    value = _minus(ours.value, others.value)
    found = resampled_comparison(np.array(ours.resampled) - np.array(others.resampled), value, count)
    return Difference(value) if found is None else Difference(value, found.low, found.high, found.p)


def _minus(ours: float, others: float) -> float:
    return 0.0 if significance.same_but_for_rounding(ours, others) else ours - others
