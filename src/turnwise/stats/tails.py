"""Failures and tails: how often a system gives nothing, and how often it is clearly worse, where means hide both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from turnwise.stats.arrays import FloatArray, IntArray, Labels, cluster_codes, complete_rows, floats, sum_by_cluster
from turnwise.stats.bootstrap import Interval, mean_and_error
from turnwise.stats.decisions import ALPHA, same_but_for_rounding

# A p that counts half of the ties may be a little too small, which this makes up for.
TAIL_ALPHA = 0.045

# Sums of net losses are whole numbers, so their distribution over all flips is found by adding one cluster at a time.
MOST_DIFFERING = 2_000


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of rows, such as of replies that failed, with its interval."""

    value: float
    low: float
    high: float
    count: int
    n: int


def rate(events: ArrayLike, clusters: Labels | None = None, alpha: float = ALPHA) -> Rate | None:
    """Return the share of true rows with an exact interval; None without rows.

    Rows of one cluster are worth fewer independent ones (Korn and Graubard 1998).

    >>> found = rate([True] * 3 + [False] * 33)
    >>> round(found.low, 3), round(found.high, 3)
    (0.018, 0.225)
    """
    values = floats(events)
    codes, clusters_found = cluster_codes(clusters, len(values))
    n, count = len(values), int(values.sum())
    if n == 0:
        return None
    worth = float(n)
    if clusters_found < n:
        worth = float(clusters_found)
        if 0 < count < n and clusters_found > 1:
            worth = _independent_rows(values, codes, clusters_found)
    interval = binomial_interval(count / n * worth, worth, alpha)
    return Rate(count / n, interval.low, interval.high, count, n)


def binomial_interval(count: float, n: float, alpha: float = ALPHA) -> Interval:
    """Return Clopper and Pearson's interval of a share; count and n need not be whole."""
    from scipy.special import betaincinv

    low = 0.0 if count <= 0 else float(betaincinv(count, n - count + 1, alpha / 2))
    high = 1.0 if count >= n else float(betaincinv(count + 1, n - count, 1 - alpha / 2))
    return Interval(low, high)


@dataclass(frozen=True, slots=True)
class Tail:
    """Wins, ties and losses over contexts, and how many replies are clearly better or worse.

    `p` is one-sided: the chance of so many more clear losses than clear wins between two samples of one system.
    """

    wins: int
    ties: int
    losses: int
    clearly_better: int
    clearly_worse: int
    n: int
    p: float

    @property
    def share_worse(self) -> float:
        """Return the share of contexts whose reply is clearly worse."""
        return self.clearly_worse / self.n

    def fails(self, share: float, alpha: float = TAIL_ALPHA) -> bool:
        """Return whether more than this share is clearly worse, beyond what chance gives two equal systems."""
        return self.share_worse > share and self.p < alpha


def tail(
    first: ArrayLike,
    second: ArrayLike,
    drop: float,
    clusters: Labels | None = None,
    higher_is_better: bool = True,
) -> Tail | None:
    """Return how single contexts fare under first against second; None without a shared one.

    A reply is clearly worse if it lies more than `drop` below the other's, which counts as an event like its mirror
    image. Whole clusters are flipped, and half of the chance of a draw exactly as extreme is counted (mid-p).

    >>> found = tail([0.1, 0.1, 0.1, 0.1] + [0.9] * 32, [0.9] * 36, drop=0.5)
    >>> found.clearly_worse, found.p, found.fails(0.05)
    (4, 0.03125, True)
    """
    a, b = floats(first), floats(second)
    there = complete_rows(a, b)
    if not there.any():
        return None
    codes, count = cluster_codes(clusters, len(a))
    a, b, codes = a[there], b[there], codes[there]
    gain = (a - b) if higher_is_better else (b - a)
    tied = same_but_for_rounding(a, b)
    better, worse = gain > drop, -gain > drop
    net = sum_by_cluster((worse.astype(np.float64) - better)[:, None], codes, count)[:, 0]
    return Tail(
        int((~tied & (gain > 0)).sum()),
        int(tied.sum()),
        int((~tied & (gain < 0)).sum()),
        int(better.sum()),
        int(worse.sum()),
        len(gain),
        flip_mid_p(net),
    )


def flip_mid_p(net: FloatArray) -> float:
    """Return the chance that whole numbers with random signs add up to more than they do, and half of that of as much.

    >>> flip_mid_p(np.array([1.0, 1.0, 1.0]))
    0.0625
    """
    sizes = np.abs(net[net != 0]).astype(np.intp)
    if not len(sizes):
        return 0.5
    if len(sizes) > MOST_DIFFERING:
        from scipy.special import ndtr

        return float(ndtr(-net.sum() / np.sqrt(net @ net)))
    chances = np.ones(1)
    for size in sizes:
        longer = np.zeros(len(chances) + 2 * size)
        longer[: len(chances)] += chances / 2
        longer[2 * size :] += chances / 2
        chances = longer
    place = int(net.sum()) + int(sizes.sum())
    return float(chances[place + 1 :].sum() + chances[place] / 2)


def _independent_rows(values: FloatArray, codes: IntArray, count: int) -> float:
    """Return how many independent rows would leave the same error, corrected for the degrees of freedom."""
    from scipy.special import stdtrit

    table = sum_by_cluster(np.column_stack([values, np.ones_like(values)]), codes, count)
    share, error = mean_and_error(table[:, 0], table[:, 1])
    n = len(values)
    if error == 0:
        return float(count)
    quantiles = [float(stdtrit(freedom, 0.975)) for freedom in (n - 1, count - 1)]
    return min(float(n), share * (1 - share) / error**2 * (quantiles[0] / quantiles[1]) ** 2)
