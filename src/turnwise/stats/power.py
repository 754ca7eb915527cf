"""How large an experiment must be: contexts and raters that find a difference, from what a pilot varies by."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import FloatArray, Labels, cluster_codes, complete_rows, floats
from turnwise.stats.bootstrap import cluster_totals
from turnwise.stats.decisions import ALPHA, POWER, paired_evidence

MOST_CONTEXTS = 10_000_000


@dataclass(frozen=True, slots=True)
class Variance:
    """What one context's value, or difference, varies by: the context itself, and each rating of it.

    `between` is the variance of contexts, `within` that of single ratings around them, and `n` the contexts of the
    pilot that they come from.
    """

    between: float
    within: float
    n: int

    def of_context(self, raters: float) -> float:
        """Return the variance of a context that so many people rate."""
        return self.between + self.within / raters


@dataclass(frozen=True, slots=True)
class Plan:
    """How many contexts find a difference with so many raters each, and with which power."""

    raters: int
    contexts: int
    power: float


def variance_components(ratings: ArrayLike) -> Variance | None:
    """Return the components of contexts by raters (NaN where nobody rated); None where they cannot be told apart.

    One-way analysis of variance with unequal group sizes; a component below zero is zero.

    >>> variance_components([[1, 1], [3, 3], [5, 5]])
    Variance(between=4.0, within=0.0, n=3)
    """
    table = floats(ratings)
    sizes = (~np.isnan(table)).sum(axis=1)
    table, sizes = table[sizes > 0], sizes[sizes > 0]
    contexts, total = len(sizes), int(sizes.sum())
    if contexts < 2:
        return None
    means = np.nanmean(table, axis=1)
    grand = float(np.nansum(table)) / total
    among = float((sizes * (means - grand) ** 2).sum()) / (contexts - 1)
    if total == contexts:
        return Variance(among, 0.0, contexts)
    within = float(np.nansum((table - means[:, None]) ** 2)) / (total - contexts)
    per_context = (total - float((sizes**2).sum()) / total) / (contexts - 1)
    return Variance(max(0.0, (among - within) / per_context), within, contexts)


def difference_variance(first: Variance, second: Variance, correlation: float) -> Variance:
    """Return the components of the difference of two systems whose contexts correlate so."""
    shared = correlation * np.sqrt(first.between * second.between)
    between = max(0.0, first.between + second.between - 2 * float(shared))
    return Variance(between, first.within + second.within, min(first.n, second.n))


def paired_variance(first: ArrayLike, second: ArrayLike, clusters: Labels | None = None) -> Variance | None:
    """Return what the differences of a pilot vary by, context by context."""
    found = paired_evidence(first, second, clusters)
    return None if found is None or found.constant else Variance(found.error**2 * found.n, 0.0, found.n)


def unpaired_variance(values: ArrayLike, clusters: Labels | None = None) -> Variance | None:
    """Return what the difference of two systems like this one varies by, each answering contexts of its own."""
    table = floats(values)
    there = complete_rows(table)
    codes, _ = cluster_codes(clusters, len(table))
    _, codes = np.unique(codes[there], return_inverse=True)
    count = int(codes.max()) + 1 if len(codes) else 0
    if count < 2:
        return None
    sums, sizes = cluster_totals(table[there][:, None], codes.astype(np.intp), count)
    means: FloatArray = sums[:, 0] / sizes[:, 0]
    return Variance(2 * float(means.var(ddof=1)), 0.0, count)


def power_of(difference: float, variance: float, contexts: int, alpha: float = ALPHA) -> float:
    """Return the chance that a t test on so many contexts finds a difference.

    >>> round(power_of(0.5, 1.0, 34), 2)
    0.81
    """
    from scipy.stats import nct, t

    if variance <= 0:
        return 1.0
    freedom, shift = contexts - 1, abs(difference) * np.sqrt(contexts / variance)
    reach = float(t.isf(alpha / 2, freedom))
    return float(nct.sf(reach, freedom, shift) + nct.cdf(-reach, freedom, shift))


def contexts_for(difference: float, variance: float, alpha: float = ALPHA, power: float = POWER) -> int | None:
    """Return the fewest contexts that find a difference with this power; None beyond ten million.

    At least six, with which randomisation can find any difference at all.
    """
    if difference == 0:
        return None
    fewest = 1
    while 2 / 2**fewest >= alpha:
        fewest += 1
    most = fewest
    while power_of(difference, variance, most, alpha) < power:
        most *= 2
        if most > MOST_CONTEXTS:
            return None
    least = max(fewest, most // 2)
    while least < most:
        middle = (least + most) // 2
        if power_of(difference, variance, middle, alpha) >= power:
            most = middle
        else:
            least = middle + 1
    return most


def plan_sizes(
    difference: float,
    variance: Variance,
    raters: tuple[int, ...] = (1, 2, 3, 5, 10),
    pairs: int = 1,
    power: float = POWER,
) -> list[Plan]:
    """Return how many contexts each number of raters needs; one line where ratings within a context do not vary.

    With several pairs of systems the level of each is Šidák's, a little stricter than what `compare` uses.
    """
    alpha = 1 - (1 - ALPHA) ** (1 / max(pairs, 1))
    plans = []
    for people in raters if variance.within > 0 else (1,):
        each = variance.of_context(people)
        contexts = contexts_for(difference, each, alpha, power)
        if contexts is not None:
            plans.append(Plan(people, contexts, power_of(difference, each, contexts, alpha)))
    return plans


def rounded_up(count: float) -> int:
    """Return a number of contexts as people plan them: two digits, rounded up.

    >>> rounded_up(1234), rounded_up(36)
    (1300, 36)
    """
    unit = int(10 ** max(0, len(str(ceil(count))) - 2))
    return ceil(count / unit) * unit
