"""Values of groups of responses: a group is judged as a whole, and a system by the mean over its groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from turnwise.dialogue import Example
from turnwise.metrics.base import Metric, Score
from turnwise.stats.bootstrap import Interval, mean_interval


@dataclass(slots=True)
class GroupTotal:
    """What the responses of one group add up to on one metric. `cluster` is what the group is resampled with.

    `first` is the place in the run of the first of them.
    """

    metric: Metric
    cluster: str
    total: Any = None
    first: int = 0

    def add(self, evidence: Any) -> None:
        """Count one response in."""
        self.total = evidence if self.total is None else self.total + evidence

    @property
    def value(self) -> float | None:
        """The group's value."""
        return None if self.total is None else self.metric.pool(self.total)

    @property
    def n(self) -> int:
        """1 where the group has a value."""
        return int(self.value is not None)


def add_to_group(
    totals: dict[str, GroupTotal],
    example: Example,
    metrics: Mapping[str, Metric],
    scores: Mapping[str, Score],
    number: int = 0,
) -> None:
    """Count one judged response into its group, for every metric that judges groups."""
    for key, score in scores.items():
        if metrics[key].level == "group":
            # Groups made from one dialogue are no more independent than its turns.
            cluster = example.dialogue_id or f"group {example.group}"
            total = totals.setdefault(key, GroupTotal(metrics[key], cluster, first=number))
            if score.evidence is not None:
                total.add(score.evidence)


def merge_groups(totals: dict[str, GroupTotal], others: Mapping[str, GroupTotal]) -> None:
    """Add what another part of the run knows of the same group."""
    for key, other in others.items():
        total = totals.setdefault(key, GroupTotal(other.metric, other.cluster, first=other.first))
        if other.total is not None:
            total.add(other.total)
        if other.first < total.first:
            total.first, total.cluster = other.first, other.cluster


def group_mean(totals: Iterable[GroupTotal], *, seed: int) -> tuple[float | None, Interval | None, int]:
    """The mean over the groups that have a value, its interval, and how many they are."""
    known = [(value, total.cluster) for total in totals if (value := total.value) is not None]
    if not known:
        return None, None, 0
    values = np.array([value for value, _ in known], dtype=np.float64)
    clusters = np.array([cluster for _, cluster in known])
    return float(values.mean()), mean_interval(values, clusters, seed=seed), len(known)
