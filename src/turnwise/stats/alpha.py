"""Krippendorff's alpha: agreement of any number of raters with any ratings missing."""

from __future__ import annotations

from typing import Literal

import numpy as np

from turnwise.stats.arrays import FloatArray

Scale = Literal["nominal", "ordinal", "interval"]


def weighted_alpha(matrix: FloatArray, weights: FloatArray, scale: Scale) -> FloatArray:
    """Alpha of items by raters under each column of item weights; NaN where all ratings are the same.

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
