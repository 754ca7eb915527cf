"""Measure agreement between raters, in every form that the papers report.

Ratings are a matrix of items by slots (or by raters) with NaN where nobody rated. Each form is a function of
that matrix and of how often every item occurs, so that its bootstrap interval comes from the same formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.stats.arrays import FloatArray, Labels, cluster_codes, complete_rows, floats
from turnwise.stats.bootstrap import bootstrap, percentile_interval
from turnwise.stats.correlation import WeightedMethod, weighted_correlation

Scale = Literal["nominal", "ordinal", "interval"]
Measure = Callable[[FloatArray, FloatArray], FloatArray]
Each = Callable[[FloatArray, FloatArray], list[FloatArray]]


@dataclass(frozen=True, slots=True)
class AgreementValue:
    """Hold agreement in one form, over items with at least two ratings; `value` is None if undefined.

    `averaged` counts the pairs or raters that it is the mean of; `undefined` counts those without a value.
    """

    value: float | None
    n_items: int
    n_raters: int
    low: float | None = None
    high: float | None = None
    averaged: int = 1
    undefined: int = 0


@dataclass(frozen=True, slots=True)
class AgreementForm:
    """Define a measure of agreement, and whether its columns are slots or raters.

    `each` gives the values of single pairs or raters, if the measure is taken over them.
    """

    columns: Literal["slots", "raters"]
    measure: Measure
    each: Each | None = None


def agreement(
    form: str,
    ratings: ArrayLike,
    raters: NDArray[np.object_] | None = None,
    clusters: Labels | None = None,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> AgreementValue:
    """Return agreement in one of FORMS, with a bootstrap interval over items (none with 0 resamples or one cluster).

    Without `raters` each slot counts as one person, as in corpora where the same people rated everything.
    """
    chosen = FORMS[form]
    matrix = floats(ratings)
    if chosen.columns == "raters" and raters is not None:
        matrix, _ = by_rater(matrix, raters)
    rated = ~np.isnan(matrix)
    items = rated.sum(axis=1) >= 2
    n_items, n_raters = int(items.sum()), int(rated[items].any(axis=0).sum())
    if chosen.each is None and raters is not None:
        # Alpha does not ask who gave a rating, but it is one of all the people.
        n_raters = len({str(name) for name in raters[rated & items[:, None]]})
    once = np.ones((len(matrix), 1))
    value = float(chosen.measure(matrix, once)[0]) if n_items else np.nan
    if not np.isfinite(value):
        return AgreementValue(None, n_items, n_raters)
    each = chosen.each(matrix, once) if chosen.each else []
    taken_over = (len(each) or 1, sum(bool(np.isnan(found[0])) for found in each))
    if resamples == 0 or cluster_codes(clusters, len(matrix))[1] < 2:
        return AgreementValue(value, n_items, n_raters, None, None, *taken_over)
    drawn = bootstrap(partial(chosen.measure, matrix), clusters, len(matrix), resamples, seed)
    interval = percentile_interval(drawn, level)
    low, high = (interval.low, interval.high) if interval else (None, None)
    return AgreementValue(value, n_items, n_raters, low, high, *taken_over)


def by_rater(ratings: ArrayLike, raters: NDArray[np.object_]) -> tuple[FloatArray, list[str]]:
    """Turn items by slots into items by raters; also return the raters' names, in the order of the columns.

    A rating without a name is left out.
    """
    matrix = floats(ratings)
    names = sorted({str(name) for name in raters.ravel() if name is not None})
    column = {name: place for place, name in enumerate(names)}
    by_name = np.full((len(matrix), len(names)), np.nan)
    for item, slot in zip(*np.nonzero(~np.isnan(matrix)), strict=True):
        name = raters[item, slot]
        if name is None:
            continue
        if not np.isnan(by_name[item, column[str(name)]]):
            raise ValueError(f"rater '{name}' rated item {item} twice")
        by_name[item, column[str(name)]] = matrix[item, slot]
    return by_name, names


def _pair_correlations(matrix: FloatArray, weights: FloatArray, method: WeightedMethod) -> list[FloatArray]:
    """Return the correlation of every pair of columns on the items that both rated (USR, by slot)."""
    return [weighted_correlation(a, b, weights[rows], method) for a, b, rows in _column_pairs(matrix, least=3)]


def _pair_kappas(matrix: FloatArray, weights: FloatArray, power: int) -> list[FloatArray]:
    """Return Cohen's kappa of every pair of columns with at least two common items (USL-H)."""
    return [weighted_kappa(a, b, weights[rows], power) for a, b, rows in _column_pairs(matrix, least=2)]


def _each_left_out(matrix: FloatArray, weights: FloatArray, method: WeightedMethod) -> list[FloatArray]:
    """Return the correlation of each rater with the mean of all others (Holistic)."""
    values = []
    given = ~np.isnan(matrix)
    filled = np.where(given, matrix, 0.0)
    for rater in range(matrix.shape[1]):
        others = given.sum(axis=1) - given[:, rater]
        rows = given[:, rater] & (others > 0)
        if rows.sum() < 3:
            continue
        mean = (filled.sum(axis=1) - filled[:, rater])[rows] / others[rows]
        # The subtraction leaves rounding errors that would break the ties of the means.
        values.append(weighted_correlation(matrix[rows, rater], mean.round(12), weights[rows], method))
    return values


def _column_pairs(matrix: FloatArray, least: int) -> Iterator[tuple[FloatArray, FloatArray, NDArray[np.bool_]]]:
    """Yield pairs of columns on their complete rows, if there are at least `least`."""
    for left, right in combinations(range(matrix.shape[1]), 2):
        rows = complete_rows(matrix[:, left], matrix[:, right])
        if rows.sum() >= least:
            yield matrix[rows, left], matrix[rows, right], rows


def _mean_of_defined(values: list[FloatArray], weights: FloatArray) -> FloatArray:
    """Return the mean of the defined values for every resample."""
    table = np.array(values).reshape(len(values), weights.shape[1])
    defined = ~np.isnan(table)
    with np.errstate(invalid="ignore"):
        mean: FloatArray = np.where(defined, table, 0.0).sum(axis=0) / defined.sum(axis=0)
    return mean


def _best_of_defined(values: list[FloatArray], weights: FloatArray) -> FloatArray:
    """Return the largest defined value for every resample."""
    best: FloatArray = np.fmax.reduce(values) if values else np.full(weights.shape[1], np.nan)
    return best


def _over(
    columns: Literal["slots", "raters"],
    each: Each,
    fold: Callable[[list[FloatArray], FloatArray], FloatArray] = _mean_of_defined,
) -> AgreementForm:
    """Return a form that folds the values of pairs or raters into one."""
    return AgreementForm(columns, lambda matrix, weights: fold(each(matrix, weights), weights), each)


def weighted_alpha(matrix: FloatArray, weights: FloatArray, scale: Scale) -> FloatArray:
    """Return alpha of items by raters under each column of item weights; NaN if all ratings are the same.

    One minus the disagreement within items over the disagreement among all ratings. Only items with at
    least two ratings count.
    """
    pairable = (~np.isnan(matrix)).sum(axis=1) >= 2
    matrix, weights = matrix[pairable], weights[pairable]
    values = np.unique(matrix[~np.isnan(matrix)])
    counts = (matrix[:, :, None] == values).sum(axis=1).astype(np.float64)
    pooled = weights.T @ counts
    size, total = counts.sum(axis=1), pooled.sum(axis=1)
    if scale == "nominal":
        within = (size * size - (counts * counts).sum(axis=1)) / (size - 1)
        observed = weights.T @ within
        expected = total * total - (pooled * pooled).sum(axis=1)
    else:
        # Ordinal distance is the difference of mid-ranks in the pooled ratings, so it is an interval scale
        # whose values change from resample to resample.
        place = np.broadcast_to(values - values.mean(), pooled.shape)
        if scale == "ordinal":
            place = np.cumsum(pooled, axis=1) - pooled / 2 - total[:, None] / 2
        squares, sums = counts @ (place * place).T, counts @ place.T
        within_each = 2 * (size[:, None] * squares - sums * sums) / (size[:, None] - 1)
        observed = (weights * within_each).sum(axis=0)
        expected = 2 * (total * (pooled * place * place).sum(axis=1) - (pooled * place).sum(axis=1) ** 2)
    varied = (pooled > 0).sum(axis=1) > 1
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(varied, 1 - (total - 1) * observed / expected, np.nan)


def weighted_kappa(first: FloatArray, second: FloatArray, weights: FloatArray, power: int) -> FloatArray:
    """Return kappa under each column of item weights; NaN if the expected disagreement is 0.

    Disagreement is |difference| to `power`: 0 is plain kappa (any difference counts as one), 1 linear and
    2 quadratic. Distances are those of the ratings themselves, so an unused step of the scale still counts.
    """
    values, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    distance = np.abs(values[:, None] - values[None, :])
    distance = (distance > 0).astype(np.float64) if power == 0 else distance**power
    a, b = codes[: len(first)], codes[len(first) :]
    categories = np.arange(len(values))
    counts_a = weights.T @ (a[:, None] == categories)
    counts_b = weights.T @ (b[:, None] == categories)
    total = weights.sum(axis=0)
    observed = weights.T @ distance[a, b]
    expected = ((counts_a @ distance) * counts_b).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > 0, 1 - observed * total / expected, np.nan)


_FOLDS = {"mean": _mean_of_defined, "max": _best_of_defined}
_CORRELATIONS: tuple[WeightedMethod, ...] = ("pearson", "spearman")

FORMS: dict[str, AgreementForm] = {
    **{f"slot-pairs-{m}": _over("slots", partial(_pair_correlations, method=m)) for m in _CORRELATIONS},
    **{f"rater-pairs-{m}": _over("raters", partial(_pair_correlations, method=m)) for m in _CORRELATIONS},
    **{
        f"leave-one-out-{name}-{m}": _over("raters", partial(_each_left_out, method=m), fold)
        for name, fold in _FOLDS.items()
        for m in _CORRELATIONS
    },
    **{
        name: _over("raters", partial(_pair_kappas, power=power))
        for name, power in {"kappa": 0, "kappa-linear": 1, "kappa-quadratic": 2}.items()
    },
    **{
        f"alpha-{scale}": AgreementForm("slots", partial(weighted_alpha, scale=scale))
        for scale in ("nominal", "ordinal", "interval")
    },
}
