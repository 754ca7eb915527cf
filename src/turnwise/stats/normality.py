"""How far vectors are from normal, dimension by dimension: what a Fréchet distance takes for granted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import FloatArray, floats

SIGNIFICANT = 0.05
FEWEST = 3


@dataclass(frozen=True, slots=True, eq=False)
class Normality:
    """Shapiro and Wilk's W and its p for every dimension that varies, and the number of vectors.

    W near 1 is near normal; p is the chance of a W so low among normal samples of this size.
    """

    w: FloatArray
    p: FloatArray
    n: int

    @property
    def rejected(self) -> float:
        """The share of dimensions that are not normal at the 5 % level."""
        return float((self.p < SIGNIFICANT).mean())


def shapiro_wilk(rows: ArrayLike) -> Normality:
    """Test every dimension of a table of vectors.

    >>> found = shapiro_wilk([[0.0], [1.0], [2.0], [3.0], [4.0]])
    >>> round(float(found.w[0]), 4), found.rejected
    (0.9868, 0.0)
    """
    from scipy.stats import shapiro

    table = floats(rows)
    if len(table) < FEWEST:
        raise ValueError(f"{len(table)} vectors are too few for a test of normality; it takes {FEWEST}")
    varying = table[:, np.ptp(table, axis=0) > 0]
    if not varying.shape[1]:
        raise ValueError("the vectors are all the same")
    tested = [shapiro(column) for column in varying.T]
    return Normality(np.array([t.statistic for t in tested]), np.array([t.pvalue for t in tested]), len(table))
