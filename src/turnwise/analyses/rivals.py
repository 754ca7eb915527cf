"""Does one metric agree with people better than another, or could it be chance? On the turns that both have scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from turnwise.analyses.points import Points
from turnwise.stats.bootstrap import RESAMPLES, bootstrap, percentile_interval
from turnwise.stats.correlation import spearman, spearman_of_weights
from turnwise.stats.significance import metric_permutation_p, williams_test


@dataclass(frozen=True, slots=True)
class RivalRow:
    """A metric's Spearman correlation with people beside that of another on the same turns.

    `p` is that of swapping the two metrics' ranks at random, context by context; `p_williams` is Williams' test, which
    takes turns for independent of each other.
    """

    corpus: str
    quality: str
    metric: str
    against: str
    n: int
    spearman: float
    spearman_against: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_williams: float | None


def rivals(corpus: str, points: Mapping[tuple[str, str], Points], against: str, seed: int) -> Iterator[RivalRow]:
    """Every other metric against the one named, quality by quality; without those whose correlation is undefined."""
    for (metric, quality), ours in points.items():
        theirs = points.get((against, quality))
        if metric != against and theirs is not None:
            row = _row(corpus, quality, metric, against, ours, theirs, seed)
            if row is not None:
                yield row


def _row(
    corpus: str, quality: str, metric: str, against: str, ours: Points, theirs: Points, seed: int
) -> RivalRow | None:
    shared = set(ours.turns) & set(theirs.turns)
    mine, its = (np.array([turn in shared for turn in side.turns], dtype=np.bool_) for side in (ours, theirs))
    a, b, people = ours.scores[mine], theirs.scores[its], ours.ratings[mine]
    first, second, between = spearman(a, people), spearman(b, people), spearman(a, b)
    if first.value is None or second.value is None or between.value is None:
        return None
    clusters = ours.clusters[mine]
    # The same seed draws the same contexts for both.
    drawn = [bootstrap(spearman_of_weights(x, people), clusters, len(x), RESAMPLES, seed) for x in (a, b)]
    interval = percentile_interval(drawn[0] - drawn[1], 0.95) if len(set(clusters.tolist())) > 1 else None
    williams = williams_test(first.value, second.value, between.value, first.n)
    return RivalRow(
        corpus, quality, metric, against, first.n, first.value, second.value, first.value - second.value,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        p=metric_permutation_p(a, b, people, clusters, seed=seed),
        p_williams=None if williams is None else williams.p,
    )  # fmt: skip
