"""What people would say of all replies, from ratings of some and a metric's scores of all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.analyses.verdict import choose_metric, main_quality
from turnwise.dialogue import mean_rating
from turnwise.engine.score import Judged, cluster_key
from turnwise.metrics.base import Metric
from turnwise.stats.anchored import FEWEST_LABELLED, Anchored, anchored_difference, anchored_mean
from turnwise.stats.decisions import Verdict, decide

Floats = NDArray[np.float64]
# The field of a sampled row that says how many rows it stands for.
WEIGHT = "weight"


@dataclass(frozen=True, slots=True)
class PeopleRow:
    """The mean rating of a system's replies, rated or not, and how many ratings the metric saved.

    `n` of `rows` replies are rated. `worth` is how many ratings without the metric would say as much.
    """

    system: str
    value: float
    low: float
    high: float
    n: int
    rows: int
    worth: int


@dataclass(frozen=True, slots=True)
class PeopleDifference:
    """One system against another, by the ratings that people would give."""

    system: str
    baseline: str
    difference: float
    low: float | None
    high: float | None
    p: float
    verdict: Verdict


@dataclass(frozen=True)
class People:
    """Anchored estimates of one quality. The target is the population that the replies were drawn from."""

    quality: str
    metric: str
    systems: list[PeopleRow] = field(default_factory=list)
    differences: list[PeopleDifference] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    target: str = "population"

    def to_dict(self) -> dict[str, Any]:
        """Return the block of a JSON document."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Side:
    scores: Floats
    ratings: Floats
    clusters: NDArray[np.int64]
    weights: Floats | None


def people_of(judged: Sequence[Judged], metrics: Mapping[str, Metric]) -> People | None:
    """Return what people would say of every system, if they rated some of its replies and not all; else None."""
    rated = [item for item in judged if item.row.example and item.row.example.rated == "turn"]
    quality = main_quality({name: None for item in rated if item.row.example for name in item.row.example.ratings})
    key = choose_metric(judged, {key: metric for key, metric in metrics.items() if metric.per_turn}).metric
    if quality is None or key is None:
        return None
    sides: dict[str, _Side] = {}
    for system in dict.fromkeys(item.row.example.system for item in rated if item.row.example):
        mine = [item for item in rated if item.row.example and item.row.example.system == system]
        sides[system] = _side(mine, key, quality)
    partly = [side for side in sides.values() if 0 < np.isfinite(side.ratings).sum() < len(side.ratings)]
    if not partly:
        return None
    found = People(quality, key)
    for system, side in sides.items():
        one = anchored_mean(side.scores, side.ratings, side.clusters, side.weights)
        if one is None:
            contexts = len(set(side.clusters[np.isfinite(side.ratings)].tolist()))
            found.refused.append(f"{system}: {contexts} rated contexts are too few; rate at least {FEWEST_LABELLED}")
        else:
            found.systems.append(PeopleRow(system, one.value, one.low, one.high, one.n, one.rows, one.worth))
    known = [row.system for row in found.systems]
    pairs = [(later, earlier) for earlier, later in combinations(known, 2)]
    differences = [_difference(sides[ours], sides[theirs]) for ours, theirs in pairs]
    decisions = decide([None if one is None else one.evidence for one in differences])
    for (ours, theirs), of in zip(pairs, decisions, strict=True):
        if of is not None:
            found.differences.append(PeopleDifference(ours, theirs, of.value, of.low, of.high, of.p, of.verdict))
    return found


def _side(items: Sequence[Judged], key: str, quality: str) -> _Side:
    examples = [item.row.example for item in items if item.row.example]
    scores = [math.nan if (value := item.scores[key].value) is None else value for item in items]
    ratings = [mean_rating(example.ratings.get(quality, ())) for example in examples]
    given = [(item.row.more or {}).get(WEIGHT) for item in items]
    weights = [float(one) if isinstance(one, int | float) and one > 0 else math.nan for one in given]
    rated = np.array([math.nan if rating is None else rating for rating in ratings], dtype=np.float64)
    known = np.array(weights, dtype=np.float64)
    # Only if every rated row says how it was picked can that be undone.
    weighted = bool(np.isfinite(rated).any()) and bool(np.isfinite(known[np.isfinite(rated)]).all())
    return _Side(
        np.array(scores, dtype=np.float64),
        rated,
        np.array([cluster_key(example) for example in examples], dtype=np.int64),
        np.where(np.isfinite(known), known, 1.0) if weighted else None,
    )


def _difference(ours: _Side, theirs: _Side) -> Anchored | None:
    return anchored_difference(
        (ours.scores, ours.ratings),
        (theirs.scores, theirs.ratings),
        (ours.clusters, theirs.clusters),
        (ours.weights, theirs.weights),
    )
