"""How likelihoods stand to ratings, and where two of them part: the sums of `explain_mlm.py`, on numbers alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from turnwise.stats.arrays import FloatArray
from turnwise.stats.bootstrap import correlation_interval
from turnwise.stats.correlation import partial_correlation, spearman

PERSON = "New Human Generated"


@dataclass(frozen=True)
class Rated:
    """The responses of a corpus, one a row: how they were rated, who gave them, to what, how long they are.

    `common` says how common the words of a response are on average, `authors` what USR's authors found.
    """

    overall: FloatArray
    systems: Any
    contexts: Any
    length: FloatArray
    common: FloatArray
    authors: FloatArray | None = None


def within(values: FloatArray, groups: Any) -> FloatArray:
    """What is left of values when the mean of their group is taken off.

    >>> within(np.array([1.0, 3.0, 10.0]), np.array(["a", "a", "b"])).tolist()
    [-1.0, 1.0, 0.0]
    """
    left = values.copy()
    for group in np.unique(groups):
        left[groups == group] -= values[groups == group].mean()
    return left


def between_share(values: FloatArray, groups: Any) -> float:
    """The share of the variance that lies between groups.

    >>> between_share(np.array([1.0, 1.0, 3.0, 3.0]), np.array(["a", "a", "b", "b"]))
    1.0
    """
    return 1 - float(within(values, groups).var() / values.var())


def stands(values: FloatArray, rated: Rated) -> dict[str, Any]:
    """How one column stands to Overall, whole and within groups, to length, to common words, to the authors' own."""
    interval = correlation_interval(values, rated.overall, rated.contexts)
    found = {
        "Overall": spearman(values, rated.overall).value,
        "interval": [interval.low, interval.high] if interval else None,
        "within systems": spearman(within(values, rated.systems), within(rated.overall, rated.systems)).value,
        "within contexts": spearman(within(values, rated.contexts), within(rated.overall, rated.contexts)).value,
        "with length": spearman(values, rated.length).value,
        "length taken out": partial_correlation(values, rated.overall, rated.length).value,
        "with common words": spearman(values, rated.common).value,
        "common words taken out": partial_correlation(values, rated.overall, rated.common).value,
    }
    return found if rated.authors is None else found | {"with the authors'": spearman(values, rated.authors).value}


def subsets(rated: Rated) -> dict[str, Any]:
    """Places to look at: each system, all systems without the person, and thirds by length."""
    found = {name: rated.systems == name for name in np.unique(rated.systems).tolist()}
    found["all but the person"] = rated.systems != PERSON
    order = np.argsort(rated.length, kind="stable")
    for third in np.array_split(order, 3):
        low, high = (int(rated.length[third[place]]) for place in (0, -1))
        found[f"{low} to {high} words"] = np.isin(np.arange(len(order)), third)
    return found


def pairs_won(values: FloatArray, rated: Rated) -> dict[str, float]:
    """Of two responses to one context, how often does the better rated one score higher? By who gave them.

    >>> rated = Rated(np.array([2.0, 1.0]), np.array([PERSON, "bot"]), np.array([1, 1]), np.ones(2), np.ones(2))
    >>> pairs_won(np.array([0.0, 1.0]), rated)
    {'a person and a system': 0.0}
    """
    wins: dict[str, list[float]] = {}
    for context in np.unique(rated.contexts):
        places = np.flatnonzero(rated.contexts == context).tolist()
        for better, worse in ((a, b) for a in places for b in places if rated.overall[a] > rated.overall[b]):
            persons = PERSON in (rated.systems[better], rated.systems[worse])
            kind = "a person and a system" if persons else "two systems"
            wins.setdefault(kind, []).append((values[better] > values[worse]) + 0.5 * (values[better] == values[worse]))
    return {kind: float(np.mean(won)) for kind, won in wins.items()}


def located(columns: Mapping[str, FloatArray], rated: Rated) -> dict[str, Any]:
    """Where columns part: in which subset, between or within groups, in which pairs, and whom each puts where."""
    spread = {name: (values - values.mean()) / values.std() for name, values in columns.items()}
    return {
        "subsets": {
            place: {"n": int(chosen.sum())}
            | {name: spearman(values[chosen], rated.overall[chosen]).value for name, values in columns.items()}
            for place, chosen in subsets(rated).items()
        },
        "system means": {
            system: {name: float(values[rated.systems == system].mean()) for name, values in spread.items()}
            | {"Overall": float(rated.overall[rated.systems == system].mean())}
            for system in np.unique(rated.systems).tolist()
        },
        "pairs won": {name: pairs_won(values, rated) for name, values in columns.items()},
        "variance between": {
            name: {"systems": between_share(values, rated.systems), "contexts": between_share(values, rated.contexts)}
            for name, values in {**columns, "Overall": rated.overall}.items()
        },
    }
