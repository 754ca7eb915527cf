"""Which qualities make up an overall rating: least squares on z-scored qualities, by rater and pooled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.stats.arrays import FloatArray, floats
from turnwise.stats.correlation import spearman


@dataclass(frozen=True, slots=True)
class Regression:
    """A least-squares fit: one weight per standardised feature, and how well the fit follows its target."""

    weights: tuple[float, ...]
    intercept: float
    r2: float | None
    spearman: float | None
    n: int

    @property
    def shares(self) -> tuple[float, ...]:
        """The weights through a softmax, as the papers draw them."""
        return tuple(float(share) for share in softmax(self.weights))


def standardise(values: ArrayLike) -> FloatArray:
    """Mean 0 and population standard deviation 1 down each column; a constant column becomes 0.

    >>> standardise([1, 2, 3]).round(4)
    array([-1.2247,  0.    ,  1.2247])
    """
    table = floats(values)
    constant = table.max(axis=0) == table.min(axis=0)
    spread = np.where(constant, 1.0, table.std(axis=0))
    return np.where(constant, 0.0, (table - table.mean(axis=0)) / spread)


def softmax(values: ArrayLike) -> FloatArray:
    """Positive shares that add up to one.

    >>> softmax([0.0, 0.0])
    array([0.5, 0.5])
    """
    numbers = floats(values)
    powers: FloatArray = np.exp(numbers - numbers.max())
    powers /= powers.sum()
    return powers


def regress(qualities: ArrayLike, overall: ArrayLike) -> Regression | None:
    """Fit overall ratings (n) to z-scored qualities (n, k). Rows with a missing value are left out.

    None where there are too few rows to leave a single degree of freedom.
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
    r2 = None if target.min() == target.max() else 1 - float(((target - fitted) ** 2).sum()) / spread
    return Regression(tuple(float(weight) for weight in weights), intercept, r2, spearman(fitted, target).value, n)


def regress_by_rater(
    qualities: ArrayLike, overall: ArrayLike, raters: NDArray[np.object_]
) -> dict[str, Regression | None]:
    """One fit per rater identity, from qualities (items, slots, k), overall and raters (items, slots).

    A slot is not a person: the third rating of two items may come from two people.
    """
    features, target = floats(qualities), floats(overall)
    names = sorted({str(name) for name in raters.ravel() if name is not None})
    return {name: regress(features[raters == name], target[raters == name]) for name in names}
