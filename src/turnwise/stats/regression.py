"""Fit ratings by least squares on z-scored qualities or metrics, by rater and pooled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.stats.arrays import FloatArray, IntArray, Labels, cluster_codes, floats, is_constant
from turnwise.stats.bootstrap import RESAMPLES, Interval, bootstrap, percentile_interval
from turnwise.stats.correlation import spearman


@dataclass(frozen=True, slots=True)
class QualityFit:
    """Hold a least-squares fit: one weight per standardised feature, and its agreement with the target."""

    weights: tuple[float, ...]
    intercept: float
    r2: float | None
    spearman: float | None
    n: int

    @property
    def shares(self) -> tuple[float, ...]:
        """Return the softmax of the weights, as in the papers' figures."""
        return tuple(float(share) for share in softmax(self.weights))


def standardise(values: ArrayLike) -> FloatArray:
    """Scale each column to mean 0 and population standard deviation 1; a constant column becomes 0.

    >>> standardise([1, 2, 3]).round(4)
    array([-1.2247,  0.    ,  1.2247])
    """
    table = floats(values)
    constant = table.max(axis=0) == table.min(axis=0)
    spread = np.where(constant, 1.0, table.std(axis=0))
    return np.where(constant, 0.0, (table - table.mean(axis=0)) / spread)


def softmax(values: ArrayLike) -> FloatArray:
    """Return positive shares that add up to one.

    >>> softmax([0.0, 0.0])
    array([0.5, 0.5])
    """
    numbers = floats(values)
    powers: FloatArray = np.exp(numbers - numbers.max())
    powers /= powers.sum()
    return powers


def regress(qualities: ArrayLike, overall: ArrayLike) -> QualityFit | None:
    """Fit overall ratings (n) to z-scored qualities (n, k). Rows with a missing value are left out.

    Return None if the rows leave no degree of freedom.
    """
    features, target = floats(qualities), floats(overall)
    complete = ~(np.isnan(features).any(axis=1) | np.isnan(target))
    features, target = features[complete], target[complete]
    n, k = features.shape
    if n < k + 2:
        return None
    features = standardise(features)
    # Standardised features are centred, so the intercept is the mean and needs no column of its own.
    intercept = float(target.mean())
    weights = np.linalg.lstsq(features, target - intercept, rcond=None)[0]
    fitted = intercept + features @ weights
    spread = float(((target - intercept) ** 2).sum())
    r2 = None if is_constant(target) else 1 - float(((target - fitted) ** 2).sum()) / spread
    return QualityFit(tuple(float(weight) for weight in weights), intercept, r2, spearman(fitted, target).value, n)


def regress_by_rater(
    qualities: ArrayLike, overall: ArrayLike, raters: NDArray[np.object_]
) -> dict[str, QualityFit | None]:
    """Return one fit per rater, from qualities (items, slots, k), overall and raters (items, slots).

    A slot is not a person: the third rating of two items may come from two people.
    """
    features, target = floats(qualities), floats(overall)
    names = sorted({str(name) for name in raters.ravel() if name is not None})
    return {name: regress(features[raters == name], target[raters == name]) for name in names}


# A smaller share of the variance than this is rounding error: of a constant, or of a sum of other metrics.
_ROUNDING = 1e-10


@dataclass(frozen=True, slots=True)
class LinearFit:
    """Hold one weight per z-scored metric: `intercept + weights · (scores - mean) / deviation`."""

    mean: FloatArray
    deviation: FloatArray
    weights: FloatArray
    intercept: float

    def predict(self, scores: ArrayLike) -> FloatArray:
        """Return the predictions for scores (n, metrics)."""
        predicted: FloatArray = self.intercept + ((floats(scores) - self.mean) / self.deviation) @ self.weights
        return predicted


@dataclass(frozen=True, slots=True)
class Method:
    """Select how weights are found. `ridge` is the penalty per squared weight, as scikit-learn's alpha."""

    ridge: float = 0.0
    non_negative: bool = False


LEAST_SQUARES = Method()


def fit_linear(scores: ArrayLike, ratings: ArrayLike, method: Method = LEAST_SQUARES) -> LinearFit:
    """Fit ratings to z-scored scores (n, metrics). A constant metric gets weight 0.

    Ratings are one column, or one per rater with NaN where a rater gave none. Every rater is then fitted alone, on
    z-scores over all rows, and the weights are averaged, so each rater counts the same.

    >>> fit_linear([[1], [2], [3]], [10, 20, 30]).predict([[4]]).round(6)
    array([40.])
    """
    sums = _sums_of(scores, ratings)
    return sums.fit(sums.totals(np.zeros(sums.rows, dtype=np.intp), 1), method)


def folds_by_cluster(clusters: Labels, folds: int, seed: int) -> IntArray:
    """Return the fold of every row, from 0. Clusters are shuffled and assigned in turn; none is in two folds."""
    codes, count = cluster_codes(clusters, len(clusters))
    places = np.random.default_rng(seed).permutation(count)
    dealt: IntArray = (places % min(folds, count))[codes]
    return dealt


def held_out_predictions(
    scores: ArrayLike, ratings: ArrayLike, folds: IntArray, method: Method = LEAST_SQUARES
) -> FloatArray:
    """Return the prediction of every row by a fit to the other folds, with their means and deviations."""
    table = floats(scores)
    sums = _sums_of(table, ratings)
    totals = sums.totals(folds, int(folds.max()) + 1)
    predicted = np.empty(len(table))
    for fold in range(len(totals)):
        inside = folds == fold
        others = totals.sum(axis=0, keepdims=True) - totals[fold]
        predicted[inside] = sums.fit(others, method).predict(table[inside])
    return predicted


def weight_intervals(
    scores: ArrayLike,
    ratings: ArrayLike,
    clusters: Labels,
    method: Method = LEAST_SQUARES,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> list[Interval | None]:
    """Return the clustered percentile interval of every weight; z-scores are recomputed in each resample."""
    sums = _sums_of(scores, ratings)
    codes, count = cluster_codes(clusters, sums.rows)
    if count < 2:
        return [None] * sums.metrics
    totals = sums.totals(codes, count)
    drawn = bootstrap(lambda counts: sums.solve(counts.T @ totals, method)[2], None, count, resamples, seed)
    return [percentile_interval(column, level) for column in drawn.T]


@dataclass(frozen=True, slots=True)
class _Sums:
    """Hold scores, standardised once so that sums of squares stay exact, and ratings (n, raters)."""

    centre: FloatArray
    scale: FloatArray
    scores: FloatArray
    ratings: FloatArray

    @property
    def rows(self) -> int:
        return len(self.scores)

    @property
    def metrics(self) -> int:
        return len(self.centre)

    def totals(self, codes: IntArray, count: int) -> FloatArray:
        """Return all sums that a fit needs, one row per cluster."""
        columns = [np.ones(self.rows), *self.scores.T, *(self.scores**2).T]
        sums = [np.bincount(codes, column, count) for column in columns]
        for rater in self.ratings.T:
            given = ~np.isnan(rater)
            rating = np.where(given, rater, 0.0)
            for left in (given.astype(np.float64), *(self.scores * given[:, None]).T):
                # One column at a time: products of all pairs of metrics would not fit into memory for long files.
                sums += [np.bincount(codes, left * right, count) for right in (np.ones(self.rows), *self.scores.T)]
                sums.append(np.bincount(codes, left * rating, count))
        return np.column_stack(sums)

    def fit(self, totals: FloatArray, method: Method) -> LinearFit:
        """Return the fit of one row of sums, on the original scale of the scores."""
        mean, deviation, weights, intercept = (found[0] for found in self.solve(totals, method))
        return LinearFit(self.centre + self.scale * mean, self.scale * deviation, weights, float(intercept))

    def solve(self, totals: FloatArray, method: Method) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return means, deviations, weights and intercept for every row of sums, averaged over the raters."""
        k = self.metrics
        n, total, squares = totals[:, :1], totals[:, 1 : k + 1], totals[:, k + 1 : 2 * k + 1]
        mean = total / n
        variance = squares / n - mean**2
        constant = variance <= _ROUNDING
        deviation = np.where(constant, 1.0, np.sqrt(np.where(constant, 1.0, variance)))
        blocks = totals[:, 2 * k + 1 :].reshape(len(totals), self.ratings.shape[1], k + 1, k + 2)
        found = [self._solve_rater(block, mean, deviation, constant, method) for block in np.moveaxis(blocks, 1, 0)]
        with np.errstate(invalid="ignore"):
            known = np.sum([~np.isnan(intercept) for _, intercept in found], axis=0)
            weights = np.nansum([weights for weights, _ in found], axis=0) / np.where(known, known, np.nan)[:, None]
            intercept = np.nansum([intercept for _, intercept in found], axis=0) / np.where(known, known, np.nan)
        return mean, deviation, weights, intercept

    def _solve_rater(
        self, block: FloatArray, mean: FloatArray, deviation: FloatArray, constant: NDArray[np.bool_], method: Method
    ) -> tuple[FloatArray, FloatArray]:
        """Return weights and intercept of one rater; NaN if a resample has fewer ratings than unknowns."""
        n = block[:, 0, 0]
        enough = n >= self.metrics + 2
        n = np.where(enough, n, 1.0)
        means = block[:, 0, :] / n[:, None]
        centre, rating = means[:, 1:-1], means[:, -1]
        second = block[:, 1:, 1:] / n[:, None, None]
        second -= centre[:, :, None] * means[:, None, 1:]
        second /= deviation[:, :, None]
        second[:, :, :-1] /= deviation[:, None, :]
        second[constant] = 0.0
        gram, target = second[:, :, :-1], second[:, :, -1]
        gram = gram + (method.ridge / n)[:, None, None] * np.eye(self.metrics)
        weights = _non_negative(gram, target) if method.non_negative else _least_squares(gram, target)
        intercept = rating - np.einsum("ij,ij->i", weights, (centre - mean) / deviation)
        return np.where(enough[:, None], weights, np.nan), np.where(enough, intercept, np.nan)


def _sums_of(scores: ArrayLike, ratings: ArrayLike) -> _Sums:
    table, rated = floats(scores), floats(ratings)
    if table.ndim != 2 or len(table) != len(rated):
        raise ValueError(f"cannot fit ratings of shape {rated.shape} to scores of shape {table.shape}")
    centre, scale = table.mean(axis=0), table.std(axis=0)
    scale = np.where(table.max(axis=0) == table.min(axis=0), 1.0, scale)
    return _Sums(centre, scale, (table - centre) / scale, rated.reshape(len(table), -1))


def _least_squares(gram: FloatArray, target: FloatArray) -> FloatArray:
    """Solve least squares from sums of products; equal metrics share their weight."""
    inverse = np.linalg.pinv(gram, rcond=_ROUNDING, hermitian=True)
    weights: FloatArray = np.einsum("ijk,ik->ij", inverse, target)
    return weights


def _non_negative(gram: FloatArray, target: FloatArray) -> FloatArray:
    """Solve least squares without negative weights, from the square root of the sums of products."""
    from scipy.optimize import nnls

    values, vectors = np.linalg.eigh(gram)
    kept = values > _ROUNDING * values[:, -1:]
    roots = np.sqrt(np.where(kept, values, 0.0))
    rows = roots[:, :, None] * np.swapaxes(vectors, 1, 2)
    rotated = np.einsum("ikj,ik->ij", vectors, target)
    goals = np.where(kept, rotated / np.where(kept, roots, 1.0), 0.0)
    return np.array([nnls(matrix, goal)[0] for matrix, goal in zip(rows, goals, strict=True)])
