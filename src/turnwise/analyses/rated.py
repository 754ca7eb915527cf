"""Rated items: scores and ratings side by side, and which items must be held out or resampled together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from turnwise.analyses.evaluate import check_qualities
from turnwise.dialogue import Example, Row, mean_rating
from turnwise.engine.score import Judged, context_key
from turnwise.errors import TurnwiseError
from turnwise.wording import counted


@dataclass(frozen=True, slots=True)
class Item:
    """One rated thing: a turn, or a whole dialogue with the mean scores of its turns."""

    scores: tuple[float, ...]
    ratings: Mapping[str, float]
    ties: tuple[object, ...]


def rated_items(judged: list[Judged], keys: list[str], target: str, excluded: set[str]) -> tuple[list[Item], int]:
    """The rated items with all their scores, and how many rated rows lack one."""
    rated = [item for item in judged if item.row.example and item.row.example.system not in excluded]
    qualities = {quality: None for item in rated if item.row.example for quality in item.row.example.ratings}
    if not qualities:
        raise TurnwiseError('no row has ratings; add a field such as "ratings": {"Overall": [4, 5, 3]}')
    check_qualities(list(qualities), [target])
    turns: dict[object, list[Item]] = {}
    missing = 0
    for position, item in enumerate(rated):
        example = item.row.example
        if example is None or mean_rating(example.ratings.get(target, ())) is None:
            continue
        scores = [item.scores[key].value for key in keys]
        known = tuple(score for score in scores if score is not None)
        if len(known) < len(keys):
            missing += 1
            continue
        whole = example.rated == "dialogue" and example.dialogue_id is not None
        key = (example.dialogue_id, example.system) if whole else position
        turns.setdefault(key, []).append(Item(known, _by_rater(example, target), _ties(example, whole)))
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


def _ties(example: Example, whole: bool) -> tuple[object, ...]:
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
