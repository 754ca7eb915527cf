"""Decisions against scipy, brute force and closed forms; the interval and the p of one test never contradict."""

from __future__ import annotations

from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from turnwise.stats.decisions import (
    Evidence,
    decide,
    evidence_of_totals,
    mean_evidence,
    no_difference,
    paired_evidence,
    unpaired_evidence,
    whole_evidence,
)

RNG = np.random.default_rng(4)
FIRST, SECOND = RNG.normal(size=10) + 0.8, RNG.normal(size=10)


def _flip_p(differences: np.ndarray, at: float) -> float:
    """Twice the smaller share of sign patterns whose mean is at least, or at most, what was seen."""
    moved = differences - at
    sums = np.array([np.dot(signs, moved) for signs in product((1, -1), repeat=len(moved))])
    above, below = np.mean(sums >= moved.sum() - 1e-12), np.mean(sums <= moved.sum() + 1e-12)
    return min(1.0, 2 * min(above, below))


def _deal_p(first: np.ndarray, second: np.ndarray, at: float) -> float:
    pooled = np.concatenate([first - at, second])
    seen = pooled[: len(first)].mean() - pooled[len(first) :].mean()
    found = []
    for chosen in combinations(range(len(pooled)), len(first)):
        mask = np.isin(np.arange(len(pooled)), chosen)
        found.append(pooled[mask].mean() - pooled[~mask].mean())
    above, below = np.mean(np.array(found) >= seen - 1e-12), np.mean(np.array(found) <= seen + 1e-12)
    return min(1.0, 2 * min(above, below))


def test_symmetric_data_give_students_t() -> None:
    values = [-2.0, -1.0, 0.0, 1.0, 2.0]
    found = mean_evidence(values)
    assert found is not None
    assert found.skew == pytest.approx(0)
    interval = found.interval()
    assert interval is not None
    expected = stats.t.interval(0.95, 4, loc=0, scale=stats.sem(values))
    assert (interval.low, interval.high) == pytest.approx(expected)
    assert found.p(1.0) == pytest.approx(stats.ttest_1samp(values, 1.0).pvalue)


def test_the_error_is_that_of_a_paired_and_of_welchs_test() -> None:
    paired, unpaired = paired_evidence(FIRST, SECOND), unpaired_evidence(FIRST[:6], SECOND)
    assert paired is not None
    assert unpaired is not None
    expected = stats.ttest_rel(FIRST, SECOND)
    assert paired.value / paired.error == pytest.approx(expected.statistic)
    assert paired.freedom == pytest.approx(9)
    welch = stats.ttest_ind(FIRST[:6], SECOND, equal_var=False)
    assert unpaired.value / unpaired.error == pytest.approx(welch.statistic)
    assert unpaired.freedom == pytest.approx(welch.df)


def test_skew_is_that_of_scipy() -> None:
    values = RNG.exponential(size=20)
    found = mean_evidence(values)
    assert found is not None
    assert found.skew == pytest.approx(stats.skew(values, bias=False) / np.sqrt(20))


@pytest.mark.parametrize("skew", [-1.3, -0.2, -1e-12, 0.0, 0.05, 0.9])
def test_the_correction_for_skew_is_undone_exactly(skew: float) -> None:
    from turnwise.stats.decisions import _skewed, _unskewed

    for t in (-6.0, -1.5, 0.0, 0.3, 2.0, 9.0):
        assert _skewed(_unskewed(t, skew), skew) == pytest.approx(t, abs=1e-8)


@pytest.mark.parametrize("at", [0.0, 0.31, -0.7, 1.4])
def test_flipping_signs_equals_brute_force(at: float) -> None:
    found = paired_evidence(FIRST, SECOND)
    assert found is not None
    assert found.arrangements == 2**10
    assert found._p_randomised(at) == pytest.approx(_flip_p(FIRST - SECOND, at))


@pytest.mark.parametrize("at", [0.0, 0.31, -0.7, 1.4])
@pytest.mark.parametrize("size", [2, 5, 7])
def test_dealing_out_equals_brute_force(at: float, size: int) -> None:
    first, second = FIRST[:size], SECOND[: 9 - size]
    found = unpaired_evidence(first, second)
    assert found is not None
    assert found.arrangements == comb(9, size)
    assert found._p_randomised(at) == pytest.approx(_deal_p(first, second, at))


def test_sampled_arrangements_come_near_all_of_them() -> None:
    all_of_them = paired_evidence(FIRST, SECOND)
    sampled = paired_evidence(FIRST, SECOND, arrangements=1000)
    assert all_of_them is not None
    assert sampled is not None
    assert sampled.arrangements == 0
    for at in (0.0, 0.5, 1.0):
        assert sampled._p_randomised(at) == pytest.approx(all_of_them._p_randomised(at), abs=0.06)


def test_a_small_side_among_many_is_dealt_out() -> None:
    many = np.random.default_rng(1).normal(size=2000)
    found = unpaired_evidence([0.0, 0.0], many)
    assert found is not None
    # No p comes from the side that did not vary: chance deals two such values often.
    assert found.p() > 0.5
    extreme = unpaired_evidence([30.0, 30.1], many)
    assert extreme is not None
    assert extreme.p() == pytest.approx(2 * stats.t.sf(extreme.value / extreme.error, extreme.freedom), rel=0.5)


samples = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0, 3.0]), min_size=2, max_size=12)


@given(samples, samples, st.booleans(), st.sampled_from([0.05, 0.01, 0.2]))
def test_interval_and_p_never_contradict(first: list[float], second: list[float], pair: bool, alpha: float) -> None:
    if pair:
        size = min(len(first), len(second))
        found = paired_evidence(first[:size], second[:size])
    else:
        found = unpaired_evidence(first, second)
    assert found is not None
    (decision,) = decide([found], alpha=alpha)
    assert decision is not None
    assert decision.low is not None
    assert decision.high is not None
    assert (decision.p < alpha) == (decision.low > 0 or decision.high < 0)
    assert decision.low <= decision.value <= decision.high
    assert 0 < decision.p <= 1


@given(samples, st.floats(-2, 2))
def test_the_interval_holds_what_is_not_rejected(values: list[float], at: float) -> None:
    found = paired_evidence(values, np.zeros(len(values)))
    assert found is not None
    interval = found.interval()
    assert interval is not None
    if found.settles() and abs(found.p(at) - 0.05) > 1e-9:
        assert (found.p(at) < 0.05) == (at < interval.low - 1e-12 or at > interval.high + 1e-12)


def test_mirrored_data_give_mirrored_decisions() -> None:
    ours, theirs = decide([paired_evidence(FIRST, SECOND)]), decide([paired_evidence(SECOND, FIRST)])
    assert ours[0] is not None
    assert theirs[0] is not None
    assert ours[0].p == pytest.approx(theirs[0].p)
    assert (ours[0].low, ours[0].high) == pytest.approx((-theirs[0].high, -theirs[0].low))  # type: ignore[operator]


# --- nothing varies ----------------------------------------------------------------------------------------


def test_two_contexts_that_agree_do_not_give_zero_p() -> None:
    (decision,) = decide([paired_evidence([0.9, 0.9], [0.1, 0.1])])
    assert decision is not None
    assert decision.p == pytest.approx(0.5)
    assert decision.verdict == "not enough data"


def test_alike_differences_are_as_rare_as_flips_make_them() -> None:
    found = paired_evidence(np.ones(8), np.zeros(8))
    assert found is not None
    assert found.p() == pytest.approx(2 / 2**8)
    interval = found.interval()
    assert interval is not None
    assert 0 < interval.low < 1 < interval.high < 2


def test_identical_systems_differ_by_exactly_nothing_they_showed() -> None:
    same = [0.2, 0.5, 0.5, 0.9, 0.1, 0.4]
    (decision,) = decide([paired_evidence(same, same)], margin=0.01)
    assert decision is not None
    assert decision.value == 0
    assert decision.p == 1
    # Six alike pairs leave room for others: what was not seen may make up nearly half.
    assert decision.verdict == "not enough data"
    (decision,) = decide([paired_evidence(np.tile(same, 200), np.tile(same, 200))], margin=0.01)
    assert decision is not None
    assert decision.verdict == "equivalent"
    (decision,) = decide([no_difference(4)])
    assert decision is not None
    assert decision.verdict == "equivalent"


def test_a_single_value_everywhere_has_an_interval_only_within_bounds() -> None:
    unbounded, bounded = mean_evidence([1.0] * 5), mean_evidence([1.0] * 5, bounds=(0.0, 1.0))
    assert unbounded is not None
    assert unbounded.interval() is None
    assert bounded is not None
    interval = bounded.interval()
    assert interval is not None
    # Clopper and Pearson's interval of five of five.
    expected = stats.binomtest(5, 5).proportion_ci()
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_equal_scores_on_both_sides_differ_by_nothing() -> None:
    (decision,) = decide([unpaired_evidence([0.5] * 4, [0.5] * 7)])
    assert decision is not None
    assert (decision.value, decision.low, decision.high, decision.p) == (0.0, 0.0, 0.0, 1.0)


def test_rounding_is_no_difference() -> None:
    found = paired_evidence([0.1 + 0.2] * 8, [0.3] * 8)
    assert found is not None
    assert found.value == 0


@pytest.mark.parametrize("count", [0, 1])
def test_one_cluster_says_nothing(count: int) -> None:
    assert mean_evidence([1.0] * count) is None
    assert mean_evidence([1.0, 2.0], ["a", "a"]) is None
    assert paired_evidence([1.0, np.nan], [2.0, 2.0]) is None
    assert unpaired_evidence([1.0], [1.0, 2.0]) is None


def test_a_whole_sets_value_needs_an_error() -> None:
    assert whole_evidence(0.3, 0.0, 5, 6) is None
    found = whole_evidence(0.3, 0.1, 5, 20)
    assert found is not None
    assert found.p() == pytest.approx(2 * stats.t.sf(3, 5))


# --- clusters ----------------------------------------------------------------------------------------------


def test_rows_of_one_cluster_count_once() -> None:
    rows, whole = np.repeat(FIRST, 4), mean_evidence(FIRST)
    found = mean_evidence(rows, np.repeat(np.arange(10), 4))
    assert found is not None
    assert whole is not None
    assert found.error == pytest.approx(whole.error)
    assert found.freedom == pytest.approx(9)


def test_the_error_is_the_jackknife_over_clusters() -> None:
    sizes = np.array([1, 5, 2, 9, 3, 4])
    clusters = np.repeat(np.arange(6), sizes)
    values = RNG.normal(size=sizes.sum())
    found = mean_evidence(values, clusters)
    assert found is not None
    left_out = np.array([values[clusters != one].mean() for one in range(6)])
    assert found.error == pytest.approx(np.sqrt(5 / 6 * ((left_out - values.mean()) ** 2).sum()))


def test_totals_give_what_rows_give() -> None:
    clusters = np.repeat(np.arange(5), 3)
    values = RNG.normal(size=15)
    rows = mean_evidence(values, clusters)
    totals = evidence_of_totals(np.bincount(clusters, values), np.full(5, 3.0))
    assert rows is not None
    assert totals is not None
    assert (rows.value, rows.error) == pytest.approx((totals.value, totals.error))


# --- several at once ---------------------------------------------------------------------------------------


def _family(systems: int, n: int, shift: float = 0.0) -> list[Evidence | None]:
    scores = np.random.default_rng(2).normal(size=(systems, n))
    scores[-1] += shift
    return [paired_evidence(scores[b], scores[a], np.arange(n)) for a, b in combinations(range(systems), 2)]


def test_two_copies_of_one_comparison_count_as_one() -> None:
    found = paired_evidence(FIRST, SECOND, np.arange(10))
    assert found is not None
    twice = decide([found, found])
    assert twice[0] is not None
    # Shrunk correlations of ten clusters keep a little of the second look.
    assert found.p() <= twice[0].p < 1.6 * found.p()


def test_independent_comparisons_have_sidaks_p() -> None:
    family = [whole_evidence(0.2 + place / 100, 0.1, 1000, 50) for place in range(4)]
    found = decide(family)
    first = family[0]
    assert first is not None
    assert found[0] is not None
    assert found[0].p == pytest.approx(1 - (1 - first.p()) ** 4, abs=0.01)


def test_the_range_of_equal_means_is_tukeys() -> None:
    family = _family(4, 200, shift=0.25)
    found = decide(family)
    q = np.sqrt(2) * abs(family[-1].value) / np.sqrt(2 / 200)  # type: ignore[union-attr]
    assert found[-1] is not None
    assert found[-1].p == pytest.approx(float(stats.studentized_range.sf(q, 4, 10_000)), abs=0.03)


def test_simultaneous_intervals_match_their_p_and_are_wider() -> None:
    family = _family(5, 40, shift=0.9)
    together, alone = decide(family), [decide([one])[0] for one in family]
    for many, one in zip(together, alone, strict=True):
        assert many is not None
        assert one is not None
        assert many.p >= one.p
        assert many.low < one.low < one.high < many.high  # type: ignore[operator]
        assert (many.p < 0.05) == (many.low > 0 or many.high < 0)  # type: ignore[operator]
    assert {one.verdict for one in together if one} == {"better", "not enough data"}


def test_a_comparison_without_evidence_is_no_part_of_the_family() -> None:
    family = _family(3, 20)
    assert decide([*family, None])[:3] == decide(family)
    assert decide([None]) == [None]


# --- verdicts ----------------------------------------------------------------------------------------------


def test_verdicts() -> None:
    better = paired_evidence(np.arange(20.0) / 100 + 1, np.zeros(20))
    for direction, verdict in ((True, "better"), (False, "worse"), (None, "different")):
        (decision,) = decide([better], direction)
        assert decision is not None
        assert decision.verdict == verdict
        assert decision.needed is None
    (decision,) = decide([better], margin=5.0)
    assert decision is not None
    assert decision.verdict == "equivalent"
    (decision,) = decide([paired_evidence(FIRST, SECOND[::-1])], margin=0.01)
    assert decision is not None
    assert decision.verdict == "not enough data"


def test_contexts_needed_settle_it_four_times_of_five() -> None:
    rng = np.random.default_rng(3)
    pilot = paired_evidence(rng.normal(size=40) + 0.25, np.zeros(40))
    assert pilot is not None
    needed = Evidence(0.25, 1 / np.sqrt(40), 39, 40).clusters_needed()
    assert needed is not None
    found = [decide([paired_evidence(rng.normal(size=needed) + 0.25, np.zeros(needed))]) for _ in range(300)]
    assert np.mean([one.verdict == "better" for (one,) in found if one]) == pytest.approx(0.8, abs=0.07)


def test_the_detectable_difference_is_found_four_times_of_five() -> None:
    rng = np.random.default_rng(3)
    detectable = Evidence(0.0, 1 / np.sqrt(50), 49, 50).detectable()
    assert detectable is not None
    found = [decide([paired_evidence(rng.normal(size=50) + detectable, np.zeros(50))]) for _ in range(300)]
    assert np.mean([one.verdict == "better" for (one,) in found if one]) == pytest.approx(0.8, abs=0.07)


def test_a_difference_of_nothing_needs_a_margin() -> None:
    nothing = Evidence(0.0, 0.1, 30, 31)
    assert nothing.clusters_needed() is None
    assert nothing.clusters_needed(margin=0.2) is not None


def test_null_p_values_are_at_least_uniform() -> None:
    rng = np.random.default_rng(11)
    contexts = np.repeat(np.arange(15), 3)
    for paired in (True, False):
        found = []
        for _ in range(400):
            effect = rng.normal(size=(2, 15))[:, contexts] + rng.normal(size=(2, 45))
            one = paired_evidence(*effect, contexts) if paired else unpaired_evidence(*effect, contexts, contexts)
            assert one is not None
            found.append(one.p())
        for level in (0.05, 0.2, 0.5):
            assert np.mean(np.array(found) < level) <= level + 2.5 * np.sqrt(level / 400)


def test_sides_are_drawn_independently() -> None:
    values = np.random.default_rng(10).normal(size=100)
    found = unpaired_evidence(values, values)
    assert found is not None
    assert found.value == 0
    assert found.error == pytest.approx(np.sqrt(2 * values.var(ddof=1) / 100))


@given(st.floats(-1e6, 1e6, allow_subnormal=False), st.integers(2, 40), st.integers(2, 40), st.integers(0, 2**32 - 1))
def test_rounding_alone_is_no_difference(value: float, first: int, second: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # What the same model says to the same text, in batches of different sizes.
    a, b = (value * (1 + 1e-8 * rng.uniform(-1, 1, size)) for size in (first, second))
    shorter = min(first, second)
    for found in (unpaired_evidence(a, b), paired_evidence(a[:shorter], b[:shorter])):
        assert found is not None
        assert (found.value, found.p()) == (0, 1)
