"""Scores and ratings side by side, as correlations need them: by turn, by dialogue, by system."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from turnwise.dialogue import Example, mean_rating
from turnwise.engine.score import Judged, cluster_key
from turnwise.stats.bootstrap import Interval, spearman_intervals

Level = Literal["turn", "dialogue", "system"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Points:
    """Scores and ratings side by side, each point with the system and the cluster that it belongs to.

    `turns` are the places of the turns that they come from.
    """

    scores: Floats
    ratings: Floats
    clusters: NDArray[np.int64]
    systems: NDArray[np.object_]
    turns: tuple[int, ...] = ()


def points_of(judged: Iterable[Judged], key: str, quality: str, level: Level, *, whole: bool) -> Points:
    """Rated turns with a score; where whole dialogues count, the mean score of a dialogue's turns and its rating.

    A metric of groups or whole systems has no scores here: what counts is which turns have a share in its values.
    """
    scores: dict[object, list[float]] = {}
    ratings: dict[object, list[float]] = {}
    examples: dict[object, Example] = {}
    counted: list[int] = []
    for position, item in enumerate(judged):
        example = item.row.example
        if example is None:
            continue
        score = item.scores[key]
        rating = mean_rating(example.ratings.get(quality, ()))
        if rating is None or not (score.counts if whole else score.value is not None):
            continue
        together = level == "dialogue" or (level == "system" and example.rated == "dialogue")
        if (together and example.dialogue_id is None) or (level == "turn" and example.rated == "dialogue"):
            continue
        point = (example.dialogue_id, example.system) if together else position
        counted.append(position)
        scores.setdefault(point, []).append(math.nan if score.value is None else score.value)
        ratings.setdefault(point, []).append(rating)
        examples.setdefault(point, example)
    return Points(
        np.array([_mean(values) for values in scores.values()], dtype=np.float64),
        np.array([_mean(values) for values in ratings.values()], dtype=np.float64),
        np.array([cluster_key(example) for example in examples.values()], dtype=np.int64),
        np.array([example.system for example in examples.values()], dtype=object),
        tuple(counted),
    )


def _mean(values: list[float]) -> float:
    return values[0] if len(values) == 1 else float(np.mean(values))


def system_means(turns: Points) -> Points:
    """One point for each system."""
    names = np.array(sorted(set(turns.systems)), dtype=object)
    members = [turns.systems == name for name in names]
    return Points(
        np.array([turns.scores[mask].mean() for mask in members]),
        np.array([turns.ratings[mask].mean() for mask in members]),
        np.arange(len(names), dtype=np.int64),
        names,
    )


def intervals_of(points: Mapping[tuple[str, str], Points], seed: int) -> dict[tuple[str, str], Interval | None]:
    """Of the points of every metric and quality, the interval of Spearman's correlation.

    Metrics and qualities that have the same turns share the resamples, and what is ranked in them.
    """
    alike: dict[tuple[int, ...], list[tuple[str, str]]] = {}
    for pair, of_pair in points.items():
        alike.setdefault(of_pair.turns, []).append(pair)
    found: dict[tuple[str, str], Interval | None] = {}
    for pairs in alike.values():
        scores = {metric: points[metric, quality].scores for metric, quality in pairs}
        ratings = {quality: points[metric, quality].ratings for metric, quality in pairs}
        clusters = points[pairs[0]].clusters
        table = spearman_intervals(list(scores.values()), list(ratings.values()), clusters, seed=seed)
        known = dict(zip(scores, (dict(zip(ratings, row, strict=True)) for row in table), strict=True))
        found |= {(metric, quality): known[metric][quality] for metric, quality in pairs}
    return found
