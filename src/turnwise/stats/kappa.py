"""Cohen's kappa of two raters, plain and weighted by distance."""

from __future__ import annotations

import numpy as np

from turnwise.stats.arrays import FloatArray


def weighted_kappa(first: FloatArray, second: FloatArray, weights: FloatArray, power: int) -> FloatArray:
    """Kappa under each column of item weights; NaN where chance alone leaves nothing to disagree about.

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
