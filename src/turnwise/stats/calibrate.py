"""Estimate the quality of systems without the bias of their raters.

Harsh raters lower the mean ratings of the systems they rated.

A rating is the quality of the system, plus the bias of the rater, plus chance. Qualities, biases and chance are normal
with variance 1, biases around 0 and each system's quality around a mean of its own that may lie anywhere on the scale
(Kulikov et al. 2019; See et al. 2019 and Sinha et al. 2020 use its means). Where the scale has no ends, all of this is
normal and the answer is exact; ends are brought in by weighting draws from it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import FloatArray, floats

DRAWS = 20_000


@dataclass(frozen=True, slots=True)
class CalibratedMean:
    """Hold the posterior mean and deviation of one system's quality, and its number of ratings."""

    mean: float
    std: float
    n: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """Hold systems and raters in order of appearance. A positive bias means ratings above those of others."""

    systems: Mapping[Hashable, CalibratedMean]
    biases: Mapping[Hashable, float]


def calibrate(
    ratings: ArrayLike,
    systems: Sequence[Hashable],
    raters: Sequence[Hashable],
    *,
    scale: tuple[float, float] | None = None,
    bias_variance: float = 1.0,
    noise_variance: float = 1.0,
    seed: int = 0,
) -> Calibration:
    """Return the quality of each system and the bias of each rater; missing ratings are left out.

    `scale` gives the ends of the scale, between which a system's mean lies; without it they are infinitely far.
    Here the plain means are 4, 3 and 2, all of which the two raters explain.

    >>> found = calibrate([4, 5, 1, 2], ["a", "b", "b", "c"], ["kind", "kind", "stern", "stern"])
    >>> {system: round(quality.mean, 6) for system, quality in found.systems.items()}
    {'a': 3.0, 'b': 3.0, 'c': 3.0}
    """
    values = floats(ratings)
    if values.ndim != 1 or not len(values) == len(systems) == len(raters):
        raise ValueError(f"{values.size} ratings, {len(systems)} systems, {len(raters)} raters: give one of each a row")
    if np.isinf(values).any():
        raise ValueError("a rating is infinite. Fix: give numbers, or nan for a missing one")
    if scale is not None and not scale[0] < scale[1]:
        raise ValueError(f"scale {scale[0]:g} to {scale[1]:g}: its lower end must come first")
    if scale is not None and ((values < scale[0]) | (values > scale[1])).any():
        raise ValueError(f"a rating lies outside the scale {scale[0]:g} to {scale[1]:g}. Fix: widen the scale")
    if not bias_variance > 0 < noise_variance:
        raise ValueError("bias_variance and noise_variance take numbers above 0")
    given = [row for row in zip(systems, raters, values.tolist(), strict=True) if not np.isnan(row[2])]
    places = {system: i for i, system in enumerate(dict.fromkeys(system for system, _, _ in given))}
    people = {rater: i for i, rater in enumerate(dict.fromkeys(rater for _, rater, _ in given))}
    # How often each rater rated each system, and the sum of those ratings.
    counts, sums = np.zeros((2, len(places), len(people)))
    for system, rater, rating in given:
        counts[places[system], people[rater]] += 1
        sums[places[system], people[rater]] += rating
    # The biases are normal given the qualities, so they can be integrated out by hand.
    trust = 1 / (counts.sum(axis=0) + noise_variance / bias_variance)
    precision = np.diag(counts.sum(axis=1)) - (counts * trust) @ counts.T
    mean = np.linalg.solve(precision, sums.sum(axis=1) - counts @ (trust * sums.sum(axis=0)))
    covariance = noise_variance * np.linalg.inv(precision)
    std = np.sqrt(np.diag(covariance))
    if scale is not None:
        mean, std = _within(scale, mean, covariance, seed)
    biases = trust * (sums.sum(axis=0) - mean @ counts)
    n = counts.sum(axis=1)
    return Calibration(
        {system: CalibratedMean(float(mean[i]), float(std[i]), int(n[i])) for system, i in places.items()},
        dict(zip(people, map(float, biases), strict=True)),
    )


def _within(
    scale: tuple[float, float], mean: FloatArray, covariance: FloatArray, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Return means and deviations if each quality is normal, with variance 1, around a point on the scale."""
    from scipy.special import ndtr

    low, high = scale
    draws = np.random.default_rng(seed).standard_normal((DRAWS // 2, len(mean))) @ np.linalg.cholesky(covariance).T
    # In mirrored pairs the draws have the right mean to begin with, and only the weights' effect is estimated.
    draws = np.concatenate([draws, -draws])
    chances = np.log(ndtr(high - mean - draws) - ndtr(low - mean - draws) + np.finfo(np.float64).tiny).sum(axis=1)
    weights = np.exp(chances - chances.max())
    weights /= weights.sum()
    shift = weights @ draws
    return mean + shift, np.sqrt(weights @ (draws - shift) ** 2)
