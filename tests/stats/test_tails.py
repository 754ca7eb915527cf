"""Shares against scipy, and the gate on clearly worse replies against brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from turnwise.stats.tails import flip_mid_p, rate, tail


@pytest.mark.parametrize(("count", "n"), [(0, 12), (3, 36), (36, 36), (17, 40)])
def test_shares_have_clopper_and_pearsons_interval(count: int, n: int) -> None:
    found = rate([True] * count + [False] * (n - count))
    expected = stats.binomtest(count, n).proportion_ci()
    assert found is not None
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert found.value == count / n


def test_rows_of_one_dialogue_are_worth_one() -> None:
    events = np.repeat([True, False, False, False, True, False, False, False, False, False], 5)
    clustered, alone = rate(events, np.repeat(np.arange(10), 5)), rate(events[::5])
    assert clustered is not None
    assert alone is not None
    assert clustered.low <= alone.low + 0.02
    assert clustered.high >= alone.high - 0.06
    assert rate(np.zeros(50), np.repeat(np.arange(10), 5)).high == pytest.approx(rate(np.zeros(10)).high)  # type: ignore[union-attr]


def test_no_rows_no_share() -> None:
    assert rate([]) is None


@pytest.mark.parametrize("net", [[1, 1, 1, 1], [1, -1, 2], [3, 0, -1, 1, 2], [-1, -1], [5]])
def test_flips_equal_brute_force(net: list[int]) -> None:
    sums = np.array([np.dot(signs, net) for signs in product((1, -1), repeat=len(net))])
    expected = np.mean(sums > sum(net)) + np.mean(sums == sum(net)) / 2
    assert flip_mid_p(np.array(net, dtype=np.float64)) == pytest.approx(expected)


def test_many_flips_come_near_the_normal_limit() -> None:
    net = np.where(np.arange(2001) % 20 < 11, 1.0, -1.0)
    exact = flip_mid_p(net[:2000])
    assert flip_mid_p(net) == pytest.approx(exact, abs=0.003)


def test_four_of_thirty_six_broken_replies_are_seen() -> None:
    theirs = np.linspace(0.6, 0.9, 36)
    ours = theirs + np.tile([0.01, -0.01], 18)
    ours[:4] = 0.02
    found = tail(ours, theirs, drop=0.4)
    assert found is not None
    assert (found.clearly_worse, found.clearly_better, found.n) == (4, 0, 36)
    assert found.fails(0.05)
    assert not found.fails(0.2)
    mirrored = tail(theirs, ours, drop=0.4)
    assert mirrored is not None
    assert (mirrored.wins, mirrored.losses) == (found.losses, found.wins)
    assert not mirrored.fails(0.0)


def test_lower_may_be_better() -> None:
    found = tail([5.0, 5.0], [1.0, 5.0], drop=1.0, higher_is_better=False)
    assert found is not None
    assert (found.wins, found.ties, found.losses, found.clearly_worse) == (0, 1, 1, 1)


def test_turns_of_one_dialogue_are_flipped_together() -> None:
    worse = tail([0.0] * 8, [1.0] * 8, 0.5, ["d"] * 8)
    assert worse is not None
    assert worse.p == 0.25
    assert tail([np.nan], [1.0], 0.5) is None
