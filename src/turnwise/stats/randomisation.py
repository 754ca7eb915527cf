"""Randomisation tests: how often chance alone would do at least as well as what was seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from turnwise.stats.arrays import FloatArray

# Values that differ by less than this share of the largest are the same but for rounding.
_TIE = 1e-9
_CELLS_AT_ONCE = 2**18


def randomised_p(
    statistic: Callable[[FloatArray], FloatArray],
    as_observed: FloatArray,
    draw: Callable[[int], FloatArray],
    permutations: int,
) -> float:
    """Two-sided p of a statistic of arrangements, given as rows of ones and zeros over clusters.

    `draw` makes so many random arrangements. The observed one counts among them, so p is never zero.
    """
    observed = statistic(as_observed[None, :])
    at_once = max(1, _CELLS_AT_ONCE // len(as_observed))
    sizes = [min(at_once, permutations - start) for start in range(0, permutations, at_once)]
    values = np.concatenate([observed, *(statistic(draw(size)) for size in sizes)])
    return share_as_extreme(values, float(observed[0]))


def share_as_extreme(values: FloatArray, observed: float) -> float:
    """The share of values at least as far from zero as the observed one."""
    sizes = np.abs(values)
    return float(np.mean(sizes >= abs(observed) - _TIE * sizes.max()))


def coin_flips(count: int, seed: int) -> Callable[[int], FloatArray]:
    """A source of rows of `count` fair coin flips."""
    rng = np.random.default_rng(seed)
    return lambda rows: rng.integers(0, 2, size=(rows, count), dtype=np.int8).astype(np.float64)


def random_choices(count: int, chosen: int, seed: int) -> Callable[[int], FloatArray]:
    """A source of rows in which `chosen` of `count` places, at random, are one and the others zero."""
    rng = np.random.default_rng(seed)

    def draw(rows: int) -> FloatArray:
        # Who holds the smallest random keys is a fair choice, and several times faster than shuffling. Two
        # equal keys at the cut, one chance in a million, only deal one place too many.
        keys = rng.integers(0, 2**32, size=(rows, count), dtype=np.uint32)
        largest_chosen = np.partition(keys, chosen - 1, axis=1)[:, chosen - 1 : chosen]
        return (keys <= largest_chosen).astype(np.float64)

    return draw
