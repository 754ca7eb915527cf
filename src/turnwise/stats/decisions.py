"""One rule for every claim about means and differences: an estimate, an interval and a p from the same test.

A value is tested three ways, and the most cautious p counts: Student's t (Welch's for two sides), the t corrected for
skew (Hall 1992), and exact randomisation while few clusters differ. The interval holds every value that this test
does not reject, so it excludes zero exactly when p is below alpha. Several comparisons share one simultaneous level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import ceil, comb
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.stats.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    Labels,
    cluster_codes,
    complete_rows,
    floats,
    sum_by_cluster,
)
from turnwise.stats.bootstrap import Interval

Verdict = Literal["better", "worse", "equivalent", "different", "not enough data"]

ALPHA = 0.05
POWER = 0.8
# Scores that differ by less than this share of their size are the same but for rounding of 32-bit model answers.
ROUNDING = 1e-7
# Randomisation is tried with this many arrangements, all of them where there are no more.
ARRANGEMENTS = 10_000
# With more clusters that differ than this, t and randomisation agree.
MOST_RANDOMISED = 200
# Draws of the largest statistic of a family of comparisons, and blocks of clusters that their correlation is taken on.
FAMILY_DRAWS = 20_000
MOST_BLOCKS = 2_000


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the data say about one value: a mean, or the difference of two.

    `skew` is the third cumulant of the estimate over the cube of its error. `typical` holds, in order, the values at
    which randomisation changes its count, and `arrangements` how many there are in all, 0 where they are a sample.
    `reach` bounds the value where nothing varied. `influence` is each cluster's share in the error, by `labels`.
    """

    value: float
    error: float
    freedom: float
    n: int
    skew: float = 0.0
    typical: FloatArray | None = None
    arrangements: int = 0
    reach: tuple[float, float] | None = None
    influence: FloatArray | None = None
    labels: NDArray[np.int64] | None = None

    @property
    def constant(self) -> bool:
        """Return whether nothing varied, so that no error can be estimated."""
        return self.error == 0

    def least_p(self) -> float:
        """Return the smallest p that so few clusters can give."""
        return 2 / self.arrangements if self.arrangements else 0.0

    def p(self, at: float = 0.0) -> float:
        """Return the two-sided p of the value being `at`."""
        if self.constant:
            return self._p_unvaried(at)
        from scipy.special import stdtr

        t = (self.value - at) / self.error
        each = [2 * float(stdtr(self.freedom, -abs(one))) for one in (t, _unskewed(t, self.skew))]
        return max(*each, self._p_randomised(at), self.least_p())

    def interval(self, alpha: float = ALPHA) -> Interval | None:
        """Return all values with p of at least alpha; None where nothing varied and no bounds are known.

        So few clusters that no p can be below alpha do not settle on which side of zero a value lies: the interval
        by t then reaches to zero.
        """
        if self.constant:
            return self._unvaried_interval(alpha)
        from scipy.special import stdtrit

        reach = float(stdtrit(self.freedom, 1 - alpha / 2))
        ends = [-reach, reach, _skewed(-reach, self.skew), _skewed(reach, self.skew)]
        low, high = self.value - max(ends) * self.error, self.value - min(ends) * self.error
        if not self.settles(alpha):
            return Interval(min(low, 0.0), max(high, 0.0))
        least, most = self._randomised_ends(alpha)
        return Interval(min(low, least), max(high, most))

    def settles(self, alpha: float = ALPHA) -> bool:
        """Return whether there are enough clusters for any verdict at this level."""
        return self.least_p() < alpha

    def detectable(self, alpha: float = ALPHA, power: float = POWER) -> float | None:
        """Return about the smallest true difference that is found with this power."""
        if self.constant:
            return None if self.reach is None else _unseen_share(alpha, self.n) * max(map(abs, self.reach))
        return _quantiles(self.freedom, alpha, power) * self.error

    def clusters_needed(
        self, alpha: float = ALPHA, margin: float | None = None, power: float = POWER, most: float = 1e7
    ) -> int | None:
        """Return about how many clusters would settle it, if the true value were the one found; None if too many.

        It is settled by a difference from zero, or by staying within the margin, whichever comes first.
        """
        distances = [abs(self.value)]
        if margin is not None and abs(self.value) < margin:
            distances.append(margin - abs(self.value))
        if self.constant or max(distances) <= 0:
            return None
        needed = float(self.n)
        for _ in range(8):
            # More clusters also bring more degrees of freedom.
            freedom = max(self.freedom * needed / self.n, 1.0)
            needed = self.n * (_quantiles(freedom, alpha, power) * self.error / max(distances)) ** 2
        least = 1 + next(n for n in range(1, 99) if 2 / 2**n < alpha) if self.arrangements else 2
        return max(ceil(needed), least) if needed <= most else None

    def _p_randomised(self, at: float) -> float:
        if self.typical is None:
            return 0.0
        low = int(np.searchsorted(self.typical, at, side="right"))
        high = len(self.typical) - int(np.searchsorted(self.typical, at, side="left"))
        if self.arrangements:
            return min(1.0, 2 * (1 + min(low, high)) / self.arrangements)
        return min(1.0, 2 * min(low, high) / len(self.typical))

    def _randomised_ends(self, alpha: float) -> tuple[float, float]:
        """Return the ends of randomisation's own interval."""
        if self.typical is None:
            return self.value, self.value
        if self.arrangements:
            place = max(1, ceil(alpha * self.arrangements / 2 - 1 - 1e-9))
        else:
            place = max(1, ceil(alpha * len(self.typical) / 2 - 1e-9))
        if 2 * place > len(self.typical):
            return self.value, self.value
        return float(self.typical[place - 1]), float(self.typical[-place])

    def _p_unvaried(self, at: float) -> float:
        """Return p where all clusters are alike: the chance to see no other value, were the mean `at`."""
        if at == self.value:
            return 1.0
        if self.reach is None:
            return 1.0
        end = self.reach[0] if at < self.value else self.reach[1]
        if end == self.value:
            return 0.0
        share = max(0.0, (at - end) / (self.value - end))
        return min(1.0, 2 * float(share**self.n))

    def _unvaried_interval(self, alpha: float) -> Interval | None:
        if self.reach is None:
            return None
        unseen = _unseen_share(alpha, self.n)
        low, high = self.reach
        return Interval(self.value - unseen * (self.value - low), self.value + unseen * (high - self.value))


def same_but_for_rounding(first: ArrayLike, second: ArrayLike) -> BoolArray:
    """Return which pairs of numbers are the same as far as they can be trusted.

    >>> same_but_for_rounding([0.3, 0.3, 0.0], [0.1 + 0.2, 0.30001, 0.0]).tolist()
    [True, False, True]
    """
    a, b = floats(first), floats(second)
    same: BoolArray = np.abs(a - b) <= ROUNDING * np.maximum(np.abs(a), np.abs(b))
    return same


# --- what the data say -------------------------------------------------------------------------------------


def mean_evidence(
    values: ArrayLike, clusters: Labels | None = None, bounds: tuple[float, float] | None = None
) -> Evidence | None:
    """Return the evidence on a mean; None with fewer than two clusters. NaN values are left out.

    >>> found = mean_evidence([0.2, 0.4, 0.9])
    >>> round(found.value, 2), round(found.interval().high, 2)
    (0.5, 2.61)
    """
    sums, sizes, labels = _totals(floats(values), clusters)
    return evidence_of_totals(sums, sizes, labels, bounds)


def evidence_of_totals(
    sums: FloatArray,
    sizes: FloatArray,
    labels: NDArray[np.int64] | None = None,
    bounds: tuple[float, float] | None = None,
) -> Evidence | None:
    """Return the evidence on a mean, given what the values of each cluster add up to and how many they are."""
    there = sizes > 0
    sums, sizes = sums[there], sizes[there]
    if len(sums) < 2:
        return None
    value, spread, freedom = _spread(sums, sizes)
    if bounds is not None:
        bounds = (min(bounds[0], value), max(bounds[1], value))
    labels = None if labels is None else labels[there]
    return _evidence(value, [spread], freedom, len(sums), reach=bounds, labels=labels)


def paired_evidence(
    first: ArrayLike,
    second: ArrayLike,
    clusters: Labels | None = None,
    weights: ArrayLike | None = None,
    bounds: tuple[float, float] | None = None,
    arrangements: int = ARRANGEMENTS,
    seed: int = 0,
) -> Evidence | None:
    """Return the evidence on the mean of first minus second, row by row; None with fewer than two clusters.

    Pairs with a missing side are left out. `weights` says how often each row counts, and `bounds` are the ends of the
    scale of both sides.
    """
    a, b = floats(first), floats(second)
    there = complete_rows(a, b)
    differences = np.where(same_but_for_rounding(a, b), 0.0, a - b)
    sums, sizes, labels = _totals(differences, clusters, weights)
    if len(sums) < 2:
        return None
    value, spread, freedom = _spread(sums, sizes)
    seen = np.concatenate([a[there], b[there], bounds or ()])
    # Differences that are all alike leave room for what their signs do not rule out; ties, for all that was seen.
    widest = 2 * abs(value) or float(np.ptp(seen))
    typical, exact = _flipped(sums, sizes, arrangements, seed)
    return _evidence(value, [spread], freedom, len(sums), typical, exact, (value - widest, value + widest), labels)


def unpaired_evidence(
    first: ArrayLike,
    second: ArrayLike,
    first_clusters: Labels | None = None,
    second_clusters: Labels | None = None,
    arrangements: int = ARRANGEMENTS,
    seed: int = 0,
) -> Evidence | None:
    """Return the evidence on mean of first minus mean of second; None with fewer than two clusters on a side."""
    sides = [_totals(floats(first), first_clusters), _totals(floats(second), second_clusters)]
    if min(len(sums) for sums, _, _ in sides) < 2:
        return None
    seen = np.concatenate([floats(first), floats(second)])
    widest = float(np.nanmax(seen) - np.nanmin(seen))
    if widest <= ROUNDING * float(np.nanmax(np.abs(seen))):
        return no_difference(min(len(sums) for sums, _, _ in sides))
    values, spreads, freedoms = [], [], []
    for sums, sizes, _ in sides:
        value, spread, freedom = _spread(sums, sizes)
        if not spread.any():
            # A side that did not vary is taken as if one more cluster had lain at the far end of what was seen.
            spread = np.full(len(sums), widest / np.sqrt(len(sums) + 1))
            spread[::2] *= -1
        values.append(value)
        spreads.append(spread)
        freedoms.append(freedom)
    typical, exact = _dealt(sides[0][:2], sides[1][:2], arrangements, seed)
    errors = [float(spread @ spread) / len(spread) / (len(spread) - 1) for spread in spreads]
    freedom = sum(errors) ** 2 / sum(error**2 / one for error, one in zip(errors, freedoms, strict=True))
    labels = np.concatenate([side[2] for side in sides])
    few = min(map(len, spreads))
    return _evidence(values[0] - values[1], spreads, freedom, few, typical, exact, (-widest, widest), labels)


def no_difference(n: int) -> Evidence:
    """Return the evidence of two systems that are one and the same."""
    return Evidence(0.0, 0.0, 1.0, n, reach=(0.0, 0.0))


def whole_evidence(value: float, error: float, freedom: float, n: int, *, difference: bool = True) -> Evidence | None:
    """Return the evidence on a value of a whole set, whose error was found by leaving out units; None without one.

    As with flipped signs, too few units settle no difference.
    """
    if not (np.isfinite(error) and error > 0):
        return no_difference(n) if value == 0 else None
    return Evidence(value, error, freedom, n, arrangements=2**n if difference and n < 60 else 0)


def jackknifed(value: float, left_out: ArrayLike, labels: NDArray[np.int64]) -> Evidence | None:
    """Return the evidence on any smooth statistic, from what it is without each cluster; None with fewer than two."""
    without = floats(left_out)
    count = len(without)
    if count < 2 or not np.isfinite(without).all() or not np.isfinite(value):
        return None
    spread = (count - 1) * (without.mean() - without)
    exact = 2**count if count < 60 else 0
    return _evidence(value, [spread], count - 1, count, None, exact, (value, value), labels)


# --- what follows from it ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decision:
    """A difference with its simultaneous interval and p, and what they allow to say.

    `detectable` is the smallest difference that could well have been found, `needed` about how many clusters would
    settle the matter.
    """

    value: float
    low: float | None
    high: float | None
    p: float
    verdict: Verdict
    n: int
    detectable: float | None
    needed: int | None


def decide(
    family: Sequence[Evidence | None],
    higher_is_better: bool | Sequence[bool | None] | None = True,
    margin: float | Sequence[float | None] | None = None,
    alpha: float = ALPHA,
    seed: int = 0,
) -> list[Decision | None]:
    """Return the decisions on a family of differences, with a simultaneous p and interval for each.

    The p of one is the chance that the smallest p of the family is as small where nothing differs (single step, with
    the correlations found), and each interval has the level that belongs to it. Directions and margins may differ.
    """
    known = [evidence for evidence in family if evidence is not None]
    smallest = _smallest_p(known, seed) if len(known) > 1 else None
    level = alpha if smallest is None else _single_level(smallest, alpha)
    better = [higher_is_better] * len(family) if not isinstance(higher_is_better, Sequence) else higher_is_better
    margins = [margin] * len(family) if not isinstance(margin, Sequence) else margin
    return [
        None if one is None else _decision(one, smallest, level, up, room)
        for one, up, room in zip(family, better, margins, strict=True)
    ]


def _decision(
    evidence: Evidence,
    smallest: FloatArray | None,
    level: float,
    higher_is_better: bool | None,
    margin: float | None,
) -> Decision:
    p, interval = evidence.p(), evidence.interval(level)
    significant = p < level
    if smallest is not None:
        p = max(p, (int(np.searchsorted(smallest, p, side="right")) + 1) / (len(smallest) + 1))
    low, high = (interval.low, interval.high) if interval else (None, None)
    if low is not None and high is not None and not significant:
        # Rounding alone may put an end on the other side of zero.
        low, high = min(low, 0.0), max(high, 0.0)
    verdict: Verdict = "not enough data"
    inside = low == high == 0 or (margin and low is not None and high is not None and -margin < low and high < margin)
    if evidence.settles(level) and inside:
        verdict = "equivalent"
    elif significant and higher_is_better is None:
        verdict = "different"
    elif significant:
        verdict = "better" if (evidence.value > 0) == higher_is_better else "worse"
    needed = evidence.clusters_needed(level, margin) if verdict == "not enough data" else None
    return Decision(evidence.value, low, high, p, verdict, evidence.n, evidence.detectable(level), needed)


def _smallest_p(family: Sequence[Evidence], seed: int) -> FloatArray:
    """Return draws of the smallest p of a family where nothing differs, in order."""
    from scipy.special import ndtr

    rng = np.random.default_rng(seed)
    shares = _influences(family)
    if shares is None:
        factor = np.eye(len(family))
    else:
        # Few clusters give correlations that are too far from zero by chance; without any, tests are counted in full.
        blocks = shares.shape[0]
        correlation = shares.T @ shares * (1 - 1 / max(blocks, 2))
        np.fill_diagonal(correlation, 1.0)
        roots, vectors = np.linalg.eigh(correlation)
        kept = roots > 1e-10 * roots[-1]
        factor = (vectors[:, kept] * np.sqrt(roots[kept])).T
    largest = np.empty(FAMILY_DRAWS)
    at_once = max(1, 2**22 // len(family))
    for start in range(0, FAMILY_DRAWS, at_once):
        stop = min(start + at_once, FAMILY_DRAWS)
        drawn = rng.standard_normal((stop - start, len(factor))) @ factor
        largest[start:stop] = np.abs(drawn).max(axis=1)
    return np.asarray(np.sort(2 * ndtr(-largest)))


def _single_level(smallest: FloatArray, alpha: float) -> float:
    """Return the level of a single test that gives the family its own; p at or above it is not significant."""
    place = min(max(1, ceil(alpha * (len(smallest) + 1) - 1 - 1e-9)), len(smallest))
    return float(smallest[place - 1])


def _influences(family: Sequence[Evidence]) -> FloatArray | None:
    """Return each cluster's share in the error of each comparison, columns of length one; None where it is unknown."""
    if any(one.influence is None or one.labels is None or one.constant for one in family):
        return None
    labels, codes = np.unique(
        np.concatenate([one.labels for one in family if one.labels is not None]), return_inverse=True
    )
    codes %= min(len(labels), MOST_BLOCKS)
    table = np.zeros((int(codes.max()) + 1, len(family)))
    start = 0
    for column, one in enumerate(family):
        if one.influence is not None:
            np.add.at(table[:, column], codes[start : start + len(one.influence)], one.influence)
            start += len(one.influence)
    lengths = np.sqrt((table * table).sum(axis=0))
    return np.asarray(table / np.where(lengths > 0, lengths, 1.0))


# --- parts of the test -------------------------------------------------------------------------------------


def _unskewed(t: float, skew: float) -> float:
    """Return t without the skew of its distribution (Hall's transformation, which never turns back)."""
    return t + skew * (t * t / 3 + 1 / 6) + skew * skew * t**3 / 27


def _skewed(value: float, skew: float) -> float:
    """Return the t that `_unskewed` takes to a value."""
    if abs(skew) < 1e-9:
        return value - skew * (value * value / 3 + 1 / 6)
    return float(3 * (np.cbrt(1 + skew * (value - skew / 6)) - 1) / skew)


def _quantiles(freedom: float, alpha: float, power: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - alpha / 2) + stdtrit(freedom, power))


def _unseen_share(alpha: float, n: int) -> float:
    """Return the largest share of other values that n alike ones leave room for."""
    return float(1 - (alpha / 2) ** (1 / n))


def _totals(
    values: FloatArray, clusters: Labels | None, weights: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """Return sum and number of the values in each cluster that has any, and the cluster's label.

    Labels of other kinds than whole numbers are numbered as they come, the same for the same rows.
    """
    codes, count = cluster_codes(clusters, len(values))
    counts = np.where(np.isnan(values), 0.0, 1.0 if weights is None else floats(weights))
    table = sum_by_cluster(np.column_stack([np.where(counts > 0, values, 0.0) * counts, counts]), codes, count)
    sums, sizes = table[:, :1], table[:, 1:]
    there = sizes[:, 0] > 0
    names = np.arange(count, dtype=np.int64)
    if isinstance(clusters, np.ndarray) and clusters.dtype.kind in "iu":
        names[codes] = clusters
    return sums[there, 0], sizes[there, 0], names[there]


def _spread(sums: FloatArray, sizes: FloatArray) -> tuple[float, FloatArray, float]:
    """Return a mean over clusters, how far each pulls it (times their number), and the degrees of freedom.

    Large clusters pull harder than they seem to, as the mean follows them: the jackknife corrects for that.
    """
    total, count = sizes.sum(), len(sums)
    value = float(sums.sum() / total)
    away = sums - value * sizes
    away[np.abs(away) <= ROUNDING * np.abs(sums)] = 0.0
    spread = away * (count - 1) / (total - sizes)
    effective = float(total**2 / (sizes @ sizes))
    return value, np.asarray(spread), max(effective - 1, 1.0)


def _evidence(
    value: float,
    spreads: Sequence[FloatArray],
    freedom: float,
    n: int,
    typical: FloatArray | None = None,
    exact: int = 0,
    reach: tuple[float, float] | None = None,
    labels: NDArray[np.int64] | None = None,
) -> Evidence:
    variance = third = 0.0
    shares = []
    for sign, spread in zip((1, -1), spreads, strict=False):
        count = len(spread)
        variance += float(spread @ spread) / count / (count - 1)
        if count > 2:
            third += sign * float((spread**3).sum()) / count / (count - 1) / (count - 2)
        shares.append(sign * spread / count)
    error = float(np.sqrt(variance))
    if error == 0:
        return Evidence(value, 0.0, freedom, n, reach=reach)
    skew = third / error**3
    if typical is not None:
        # What is zero but for rounding ties with zero.
        typical = np.sort(np.where(np.abs(typical) <= 1e-9 * error, 0.0, typical))
    return Evidence(value, error, freedom, n, skew, typical, exact, reach, np.concatenate(shares), labels)


def _flipped(sums: FloatArray, sizes: FloatArray, arrangements: int, seed: int) -> tuple[FloatArray | None, int]:
    """Return the values at which flipping the signs of clusters changes its count: the means of sets of them.

    Beyond many clusters only those that differ are dealt, and half of the others goes with each set.
    """
    rest = 0.0
    if len(sums) > MOST_RANDOMISED:
        differ = sums != 0
        if np.count_nonzero(differ) > MOST_RANDOMISED:
            return None, 0
        rest = float(sizes[~differ].sum()) / 2
        sums, sizes = sums[differ], sizes[differ]
    if not len(sums):
        return None, 0
    chosen, exact = _sets(len(sums), arrangements, seed)
    return (chosen @ sums) / (chosen @ sizes + rest), exact


@lru_cache(maxsize=4)
def _sets(count: int, arrangements: int, seed: int) -> tuple[FloatArray, int]:
    """Return sets of clusters as rows of ones and zeros, none empty, and the number of all if these are all."""
    if 2**count <= arrangements:
        rows = (np.arange(1, 2**count)[:, None] >> np.arange(count)) & 1
        return rows.astype(np.float64), 2**count
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2, size=(arrangements, count), dtype=np.int8)
    return rows[rows.any(axis=1)].astype(np.float64), 0


def _dealt(
    first: tuple[FloatArray, FloatArray], second: tuple[FloatArray, FloatArray], arrangements: int, seed: int
) -> tuple[FloatArray | None, int]:
    """Return the differences at which dealing the clusters out anew changes its count.

    Dealt clusters of the first side carry the difference that is tested, so each arrangement turns at one of them.
    """
    counts = len(first[0]), len(second[0])
    if min(counts) > MOST_RANDOMISED // 4 and sum(counts) > 2 * MOST_RANDOMISED:
        return None, 0
    small, large = (first, second) if counts[0] <= counts[1] else (second, first)
    sums, sizes = np.concatenate([small[0], large[0]]), np.concatenate([small[1], large[1]])
    chosen, exact = _choices(min(counts), sum(counts), arrangements, seed)
    mine, size = sums[chosen].sum(axis=1), sizes[chosen].sum(axis=1)
    # Sizes of what belongs to the small side, where it went.
    own = np.where(chosen < min(counts), sizes[chosen], 0.0).sum(axis=1)
    total, sized, all_own = sums.sum(), sizes.sum(), small[1].sum()
    dealt = mine / size - (total - mine) / (sized - size)
    moved = own / size - (all_own - own) / (sized - size)
    seen = small[0].sum() / all_own - large[0].sum() / large[1].sum()
    typical = (seen - dealt)[moved < 1 - 1e-12] / (1 - moved[moved < 1 - 1e-12])
    return (typical if small is first else -typical), exact


@lru_cache(maxsize=4)
def _choices(chosen: int, count: int, arrangements: int, seed: int) -> tuple[IntArray, int]:
    """Return choices of so many places, one in a row, and the number of all if these are all."""
    if comb(count, chosen) <= arrangements:
        return np.array(list(combinations(range(count), chosen)), dtype=np.intp), comb(count, chosen)
    rng = np.random.default_rng(seed)
    if chosen > np.sqrt(count):
        keys = rng.random((arrangements, count), dtype=np.float32)
        return np.argpartition(keys, chosen - 1, axis=1)[:, :chosen].astype(np.intp), 0
    rows = rng.integers(0, count, size=(arrangements, chosen))
    while True:
        rows.sort(axis=1)
        twice = np.zeros(rows.shape, dtype=np.bool_)
        twice[:, 1:] = rows[:, 1:] == rows[:, :-1]
        if not twice.any():
            return rows.astype(np.intp), 0
        rows[twice] = rng.integers(0, count, size=np.count_nonzero(twice))
