"""What people would say of all rows, from ratings of some and a metric's scores of all (prediction-powered inference).

The estimate is the mean rating of the rated rows, moved by how far the metric's mean over all rows lies from its mean
over the rated ones (PPI++ with the weight that the data give; Angelopoulos et al. 2023). It is valid however bad the
metric is: a useless one gets a weight near zero. Errors come from leaving out one cluster after another, which also
pays for the estimated weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.stats.arrays import BoolArray, FloatArray, IntArray, Labels, cluster_codes, floats, sum_by_cluster
from turnwise.stats.bootstrap import Interval
from turnwise.stats.decisions import ALPHA, Evidence

# With fewer rated contexts the intervals are not to be relied on.
FEWEST_LABELLED = 20
FOLDS = 5
# "rows": the mean rating of these very rows; "population": of all rows such as these.
Target = Literal["rows", "population"]
# From the rows to train on (true) to scores of all rows.
Fit = Callable[[BoolArray], FloatArray]


@dataclass(frozen=True, slots=True)
class Anchored:
    """A mean rating over all rows, or the difference of two such means.

    `weight` is what the metric's scores count for, `labels_only` what the ratings say without the metric, and `worth`
    how many ratings without the metric would give the same error.
    """

    value: float
    low: float
    high: float
    n: int
    contexts: int
    rows: int
    weight: float
    labels_only: Interval
    worth: int
    evidence: Evidence


def anchored_mean(
    scores: ArrayLike,
    ratings: ArrayLike,
    clusters: Labels | None = None,
    weights: ArrayLike | None = None,
    target: Target = "population",
    alpha: float = ALPHA,
    weight: float | None = None,
) -> Anchored | None:
    """Return the mean rating over all rows; None with fewer than FEWEST_LABELLED rated clusters.

    Ratings are NaN where nobody rated. `weights` are one over each rated row's chance to be picked, and all alike when
    rows were picked at random. `weight` fixes what the scores count for; 0 is the ratings alone.
    """
    table = _Table.of(scores, ratings, clusters, weights)
    if table is None:
        return None
    found = _estimate(table, target, weight)
    alone = _estimate(table, target, 0.0)
    return _anchored(table, found, alone, alpha)


def anchored_difference(
    first: tuple[ArrayLike, ArrayLike],
    second: tuple[ArrayLike, ArrayLike],
    clusters: tuple[Labels, Labels],
    weights: tuple[ArrayLike | None, ArrayLike | None] = (None, None),
    target: Target = "population",
    alpha: float = ALPHA,
) -> Anchored | None:
    """Return mean rating of the first system minus that of the second, each given as scores and ratings.

    Clusters of equal names, contexts that both answered, count together. None where either side has too few.
    """
    joined, count = cluster_codes([*clusters[0], *clusters[1]], len(clusters[0]) + len(clusters[1]))
    codes = joined[: len(clusters[0])], joined[len(clusters[0]) :]
    tables = [
        _Table.of(*side, code, weight) for side, code, weight in zip((first, second), codes, weights, strict=True)
    ]
    one, two = tables
    if one is None or two is None:
        return None
    pairs = [[_estimate(table, target, fixed) for table in (one, two)] for fixed in (None, 0.0)]
    found, alone = (_minus(a, b, (one, two), codes, count) for a, b in pairs)
    contexts = min(one.contexts, two.contexts)
    both = replace(one, labelled=np.concatenate([one.labelled, two.labelled]), contexts=contexts)
    return _anchored(both, found, alone, alpha)


def cross_fitted(
    fit: Fit, ratings: ArrayLike, clusters: Labels | None = None, folds: int = FOLDS, seed: int = 0
) -> FloatArray:
    """Return scores of all rows by a metric that is fitted to the same ratings: rated rows by a fit without their fold.

    Rows without a rating get the mean of all fits. Whole clusters fall into one fold.
    """
    labelled = ~np.isnan(floats(ratings))
    codes, count = cluster_codes(clusters, len(labelled))
    # Dealt in turn among the rated clusters, so that folds are alike in size.
    rated = np.random.default_rng(seed).permutation(np.unique(codes[labelled]))
    place = np.zeros(count, dtype=np.intp)
    place[rated] = np.arange(len(rated)) % folds
    fold = place[codes]
    fits = [floats(fit(labelled & (fold != one))) for one in range(folds)]
    scores = np.mean(fits, axis=0)
    for one, fitted in enumerate(fits):
        scores = np.where(labelled & (fold == one), fitted, scores)
    return np.asarray(scores)


@dataclass(frozen=True, slots=True)
class RowSample:
    """Rows that were picked to be rated, each with one over its chance to be picked."""

    rows: IntArray
    weights: FloatArray
    strata: IntArray


def sample_rows(scores: ArrayLike, count: int, strata: int = 5, seed: int = 0) -> RowSample:
    """Return rows to rate: as many random ones from every fifth of the metric's scores.

    Rows without a score are not picked.
    """
    values = floats(scores)
    usable = np.flatnonzero(~np.isnan(values))
    rng = np.random.default_rng(seed)
    count = min(count, len(usable))
    strata = max(1, min(strata, count // 2))
    # Equal scores fall into strata at random.
    order = np.lexsort((rng.random(len(usable)), values[usable]))
    stratum = np.empty(len(usable), dtype=np.intp)
    stratum[order] = np.arange(len(usable)) * strata // max(len(usable), 1)
    rows: list[int] = []
    weights: dict[int, float] = {}
    for one in range(strata):
        members = usable[stratum == one]
        taken = min(ceil((count - len(rows)) / (strata - one)), len(members))
        picked = rng.choice(members, size=taken, replace=False).tolist()
        rows += picked
        weights |= dict.fromkeys(picked, len(members) / max(taken, 1))
    rows.sort()
    chosen = np.array(rows, dtype=np.intp)
    return RowSample(chosen, np.array([weights[row] for row in rows]), stratum[np.searchsorted(usable, chosen)])


# --- the estimate ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Table:
    """Complete rows: scores, ratings with zero where there are none, and which are rated, with their weights."""

    scores: FloatArray
    ratings: FloatArray
    labelled: BoolArray
    weights: FloatArray
    codes: IntArray
    count: int
    contexts: int

    @classmethod
    def of(
        cls, scores: ArrayLike, ratings: ArrayLike, clusters: Labels | None, weights: ArrayLike | None
    ) -> _Table | None:
        values, given = floats(scores), floats(ratings)
        codes, count = cluster_codes(clusters, len(values))
        labelled = ~np.isnan(given)
        if np.isnan(values).any():
            # A rated row without a score still says what people think; it gets the mean score, which says nothing.
            values = np.where(np.isnan(values), np.nanmean(values) if (~np.isnan(values)).any() else 0.0, values)
        contexts = len(np.unique(codes[labelled]))
        if contexts < FEWEST_LABELLED:
            return None
        counted = np.ones(len(values)) if weights is None else floats(weights)
        return cls(
            values, np.where(labelled, given, 0.0), labelled, np.where(labelled, counted, 0.0), codes, count, contexts
        )


@dataclass(frozen=True, slots=True)
class _Estimate:
    value: float
    weight: float
    # How far each cluster moves the estimate.
    pulls: FloatArray


def _estimate(table: _Table, target: Target, fixed: float | None) -> _Estimate:
    """Return the estimate and what leaving out each cluster does to it."""
    w, f, y = table.weights, table.scores, table.ratings
    columns = np.column_stack([np.ones_like(f), f, w, w * f, w * y, w * f * f, w * f * y])
    by_cluster = sum_by_cluster(columns, table.codes, table.count)
    total = by_cluster.sum(axis=0)
    value, weight = _regression(total[None, :], fixed)
    left_out = total - by_cluster
    if target == "rows":
        # The rows are given; only which of them were rated is chance.
        left_out[:, :2] = total[:2]
    without, _ = _regression(left_out, fixed)
    rated = np.bincount(table.codes, table.labelled, table.count) > 0
    clusters = int(rated.sum())
    pulls = np.where(rated, (value[0] - without) * np.sqrt((clusters - 1) / clusters), value[0] - without)
    if target == "rows":
        pulls = np.where(rated, pulls, 0.0) * np.sqrt(max(0.0, 1 - table.labelled.sum() / len(f)))
    return _Estimate(float(value[0]), float(weight[0]), np.asarray(pulls))


def _regression(sums: FloatArray, fixed: float | None) -> tuple[FloatArray, FloatArray]:
    """Return the mean rating at the mean score of all rows, and the slope, from rows of seven sums."""
    n, f_all, w, wf, wy, wff, wfy = sums.T
    slope = np.full(len(sums), fixed)
    if fixed is None:
        spread = wff - wf * wf / w
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(spread > 1e-12 * np.abs(wff), (wfy - wf * wy / w) / spread, 0.0)
    return np.asarray(wy / w + slope * (f_all / n - wf / w)), slope


def _minus(
    first: _Estimate,
    second: _Estimate,
    tables: tuple[_Table, _Table],
    codes: tuple[NDArray[np.intp], NDArray[np.intp]],
    count: int,
) -> _Estimate:
    """Return the difference; clusters that both sides have pull both ways at once."""
    pulls = np.zeros(count)
    for sign, one, table, joined in zip((1, -1), (first, second), tables, codes, strict=True):
        name = np.zeros(table.count, dtype=np.intp)
        name[table.codes] = joined
        np.add.at(pulls, name, sign * one.pulls)
    return _Estimate(first.value - second.value, first.weight, pulls)


def _evidence(found: _Estimate, freedom: int, n: int) -> Evidence:
    variance = float(found.pulls @ found.pulls)
    if variance <= 0:
        return Evidence(found.value, 0.0, freedom, n, reach=(found.value, found.value))
    error = float(np.sqrt(variance))
    return Evidence(found.value, error, freedom, n, float((found.pulls**3).sum()) / error**3)


def _anchored(table: _Table, found: _Estimate, alone: _Estimate, alpha: float) -> Anchored:
    evidence = _evidence(found, table.contexts - (2 if found.weight else 1), table.contexts)
    plain = _evidence(alone, table.contexts - 1, table.contexts)
    if plain.error < evidence.error:
        # A metric that makes it no surer counts for nothing.
        found, evidence = alone, plain
    interval, only = evidence.interval(alpha), plain.interval(alpha)
    interval = interval or Interval(found.value, found.value)
    only = only or Interval(alone.value, alone.value)
    n = int(table.labelled.sum())
    worth = n if evidence.error == 0 else round(n * (plain.error / evidence.error) ** 2)
    rows = len(table.labelled)
    return Anchored(
        found.value, interval.low, interval.high, n, table.contexts, rows, found.weight, only, worth, evidence
    )
