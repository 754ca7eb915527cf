"""Comparing systems on metrics of groups: each group of replies is one value, paired by the group's name."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from turnwise.engine.groups import GroupTotal, add_to_group
from turnwise.engine.local import Judged
from turnwise.metrics.base import Metric
from turnwise.stats import significance

# Difference, the ends of its interval, and p; None where too little is known.
Difference = tuple[float | None, float | None, float | None, float | None]


def groups_of(judged: Iterable[Judged], key: str, metric: Metric, system: str) -> dict[str, GroupTotal]:
    """The groups of one system that have a value, by name."""
    found: dict[str, dict[str, GroupTotal]] = {}
    for item in judged:
        example = item.row.example
        if example and example.system == system and example.group is not None:
            totals = found.setdefault(example.group, {})
            add_to_group(totals, example, {key: metric}, {key: item.scores[key]})
    return {group: totals[key] for group, totals in found.items() if key in totals and totals[key].n}


def group_difference(
    judged: list[Judged], key: str, metric: Metric, system: str, baseline: str, *, shared: float, seed: int
) -> Difference:
    """System minus baseline over groups; paired when at least this share of each one's groups is common to both."""
    ours, others = (groups_of(judged, key, metric, name) for name in (system, baseline))
    if not ours or not others:
        return None, None, None, None
    common = [group for group in ours if group in others]
    paired = len(common) >= 2 and len(common) >= shared * max(len(ours), len(others))
    names = (common, common) if paired else (list(ours), list(others))
    sides = [[side[name] for name in wanted] for side, wanted in zip((ours, others), names, strict=True)]
    a, b = (np.array([total.value for total in side], dtype=np.float64) for side in sides)
    first, second = (np.array([total.cluster for total in side]) for side in sides)
    if paired:
        found = significance.paired_bootstrap(a, b, first, seed=seed)
        p = significance.sign_flip_test(a, b, first, seed=seed)
    else:
        found = significance.unpaired_bootstrap(a, b, first, second, seed=seed)
        p = significance.label_permutation_test(a, b, first, second, seed=seed)
    if found is None:
        return float(a.mean() - b.mean()), None, None, None
    return found.difference, found.low, found.high, p
