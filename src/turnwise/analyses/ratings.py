"""Scores beside ratings: rated turns, dialogues and systems, and which of them belong together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from turnwise.analyses.evaluate import check_qualities
from turnwise.dialogue import Example, Row, mean_rating
from turnwise.engine.score import Judged, cluster_key, context_key
from turnwise.errors import TurnwiseError
from turnwise.problems import counted
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


class RatedTurns:
    """Judged turns and, computed once, what each is resampled with: the only place where scores meet ratings."""

    def __init__(self, judged: Sequence[Judged]) -> None:
        self.judged = [item for item in judged if item.row.example]

    @cached_property
    def _clusters(self) -> list[int]:
        return [cluster_key(item.row.example) for item in self.judged if item.row.example]

    @cached_property
    def qualities(self) -> list[str]:
        """The rated qualities, in the order in which they first occur."""
        return list({quality: None for item in self.judged if item.row.example for quality in item.row.example.ratings})

    def rated(self, quality: str) -> Iterator[tuple[int, Example, Judged, float]]:
        """Yield every turn with a rating of a quality: its place, example, scores and mean rating."""
        for position, item in enumerate(self.judged):
            example = item.row.example
            if example is not None and (rating := mean_rating(example.ratings.get(quality, ()))) is not None:
                yield position, example, item, rating

    def align(self, key: str, quality: str, level: Level, *, whole: bool) -> Points:
        """Return rated turns with a score; where whole dialogues count, the means of a dialogue's turns and its rating.

        A metric of groups or whole systems has no scores here: what counts is which turns have a share in its values.
        """
        scores: dict[object, list[float]] = {}
        ratings: dict[object, list[float]] = {}
        first: dict[object, int] = {}
        counted: list[int] = []
        for position, example, item, rating in self.rated(quality):
            score = item.scores[key]
            if not (score.counts if whole else score.value is not None):
                continue
            together = level == "dialogue" or (level == "system" and example.rated == "dialogue")
            if (together and example.dialogue_id is None) or (level == "turn" and example.rated == "dialogue"):
                continue
            point = (example.dialogue_id, example.system) if together else position
            counted.append(position)
            scores.setdefault(point, []).append(math.nan if score.value is None else score.value)
            ratings.setdefault(point, []).append(rating)
            first.setdefault(point, position)
        systems = [item.row.example.system for p in first.values() if (item := self.judged[p]).row.example]
        return Points(
            np.array([_mean(values) for values in scores.values()], dtype=np.float64),
            np.array([_mean(values) for values in ratings.values()], dtype=np.float64),
            np.array([self._clusters[position] for position in first.values()], dtype=np.int64),
            np.array(systems, dtype=object),
            tuple(counted),
        )


def rated_unit(example: Example, position: int) -> object:
    """Return what a row's ratings are of: the row, by its place, or its whole dialogue, which many rows share."""
    whole = example.rated == "dialogue" and example.dialogue_id is not None
    return (example.dialogue_id, example.system) if whole else position


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


@dataclass(frozen=True, slots=True)
class Item:
    """One rated thing: a turn, or a whole dialogue with the mean scores of its turns."""

    scores: tuple[float, ...]
    ratings: Mapping[str, float]
    ties: tuple[object, ...]


def rated_items(judged: list[Judged], keys: list[str], target: str, excluded: set[str]) -> tuple[list[Item], int]:
    """Return the rated items with all their scores, and how many rated rows lack one."""
    rated = RatedTurns([item for item in judged if item.row.example and item.row.example.system not in excluded])
    if not rated.qualities:
        raise TurnwiseError('no row has ratings; add a field such as "ratings": {"Overall": [4, 5, 3]}')
    check_qualities(rated.qualities, [target])
    turns: dict[object, list[Item]] = {}
    missing = 0
    for position, example, item, _ in rated.rated(target):
        scores = [item.scores[key].value for key in keys]
        known = tuple(score for score in scores if score is not None)
        if len(known) < len(keys):
            missing += 1
            continue
        unit = rated_unit(example, position)
        ties = _ties(example, whole=unit != position)
        turns.setdefault(unit, []).append(Item(known, _by_rater(example, target), ties))
    return [
        replace(rows[0], scores=tuple(np.mean([r.scores for r in rows], axis=0))) for rows in turns.values()
    ], missing


def _by_rater(example: Example, target: str) -> dict[str, float]:
    """Ratings by rater; without names a slot stands for a rater."""
    given = example.ratings[target]
    return {
        name: rating
        for name, rating in zip(rater_names(example, len(given)), given, strict=False)
        if rating is not None
    }


def rater_names(example: Example, slots: int) -> list[str]:
    """Who gave each rating of an item; without names a slot stands for a rater.

    Of a rater who is named twice, the later rating counts as another's: neither may be lost.
    """
    names = example.raters or [f"#{slot + 1}" for slot in range(slots)]
    return [name if name not in names[:slot] else f"{name} ({slot + 1})" for slot, name in enumerate(names)]


def named_twice(rows: Iterable[Row]) -> Iterator[str]:
    """A remark where rows name a rater twice: how many, and the first of them."""
    found = [row for row in rows if row.example and len(set(row.example.raters)) < len(row.example.raters)]
    if not found or found[0].example is None:
        return
    raters = found[0].example.raters
    twice = next(name for slot, name in enumerate(raters) if name in raters[:slot])
    renamed = next(name for name in rater_names(found[0].example, 0) if name not in raters)
    place = f"{found[0].file}:{found[0].line}"
    yield (
        f"{counted(len(found), 'row')} with a rater named twice, first {place} ({twice}): "
        f"the later rating counts as one of {renamed}; name each rater once"
    )


def _ties(example: Example, *, whole: bool) -> tuple[object, ...]:
    """What an item shares with others that must be held out together: its context, its dialogue."""
    dialogue = () if example.dialogue_id is None else (("dialogue", example.dialogue_id),)
    named = example.context_id is not None
    # A first greeting opens many dialogues and ties none of them together.
    if whole or (dialogue and not named and len(example.context) < 2):
        return dialogue
    return (*dialogue, ("context", context_key(example)))


def clusters_of(items: list[Item]) -> NDArray[np.int64]:
    """Items that share a context or a dialogue, directly or by way of others, get the same number."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    numbers: dict[object, int] = {}
    pairs = [(row, numbers.setdefault(tie, len(numbers))) for row, item in enumerate(items) for tie in item.ties]
    if not pairs:
        return np.empty(0, dtype=np.int64)
    size = len(items) + len(numbers)
    rows, ties = np.array(pairs).T
    graph = coo_array((np.ones(len(pairs)), (rows, len(items) + ties)), shape=(size, size))
    labels = connected_components(graph, directed=False)[1]
    return np.asarray(labels[: len(items)], dtype=np.int64)
