"""The sentences at the top say what the numbers say, and no more."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

import turnwise as tw
from tests.report.results import score
from turnwise.report.digest import Digest, digest
from turnwise.report.words import headlines, leader


def said(found: Digest) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", sentence) for sentence in headlines(found))


def rows(system: str, responses: list[str], reference: str = "a b c d") -> list[dict[str, object]]:
    return [
        {"system": system, "response": text, "references": [reference], "context": [str(place)]}
        for place, text in enumerate(responses)
    ]


def test_a_clear_leader() -> None:
    good, bad = ["a b c d", "a b c", "a b c d"], ["x", "a", "y"]
    few = digest(score(rows("good", good) + rows("bad", bad), ["overlap"]))
    assert not leader(few, "overlap").clear  # type: ignore[union-attr]
    found = digest(score(rows("good", 4 * good) + rows("bad", 4 * bad), ["overlap"]))
    best = leader(found, "overlap")
    assert best is not None
    assert (best.system, best.clear) == ("good", True)
    assert "good has the best value on 1 of 1 metric." in said(found)
    assert "It is better than every other system on overlap." in said(found)


def test_too_close_to_call() -> None:
    found = digest(score(rows("one", ["a b c d", "x", "a b"]) + rows("two", ["a b c", "a", "y"]), ["overlap"]))
    best = leader(found, "overlap")
    assert best is not None
    assert best.rivals == ("two",)
    assert "On overlap it is not shown to be better than two." in said(found)


def test_lower_is_better_where_it_is() -> None:
    found = digest(score(rows("vowels", ["aei", "aeo", "uie"]) + rows("none", ["xyz", "xyy", "zzz"]), ["vowels"]))
    best = leader(found, "vowels")
    assert best is not None
    assert best.system == "none"


def test_equal_values_have_no_leader() -> None:
    found = digest(score(rows("one", ["x y", "z"]) + rows("two", ["x y", "z"]), ["same", "words"]))
    assert leader(found, "same") is None
    assert "No system is ahead on same: the best values are equal." in said(found)
    # Without a direction there is nothing to lead in.
    assert leader(found, "words") is None


def test_one_system_is_not_compared() -> None:
    assert "nothing to compare" in said(digest(score(rows("solo", ["x", "y z"]), ["words"])))


def test_a_metric_that_falls_with_quality_agrees_when_it_correlates_negatively() -> None:
    texts = ["xx", "xa", "aa", "aaaaab", "xxxxxa"]
    rated = [
        {"response": text, "ratings": {"Overall": [5 - text.count("a") / len(text)]}, "context": [text]}
        for text in texts
    ]
    found = digest(score(rated, ["vowels"]))
    assert found.human_correlations["vowels", "Overall"].value == -1
    numbers = "Spearman −1.00, 95 % interval −1.00 to −1.00, over 5 turns"
    assert f"vowels agrees best with people’s Overall ratings ({numbers})." in said(found)


def rated(ratings: Sequence[float]) -> list[dict[str, object]]:
    """Answers that grow longer, with their ratings."""
    return [
        {
            "response": "x" * (1 + place % 3) + " y" * place,
            "context": [str(place)],
            "ratings": {"Overall": [rating]},
        }
        for place, rating in enumerate(ratings)
    ]


def test_agreement_that_may_be_chance_is_not_recommended() -> None:
    noise = np.random.default_rng(5).integers(1, 6, 60).tolist()
    found = digest(score(rated(noise), ["words"]))
    value = found.human_correlations["words", "Overall"].value
    assert value is not None
    assert 0 < value < 0.25
    assert "No metric agrees with people’s Overall ratings beyond chance on these rows; the best is words (" in said(
        found
    )
    assert re.search(r"95 % interval −0\.\d\d to 0\.\d\d, over 60 turns", said(found))
    assert "agrees best" not in said(found)


@pytest.mark.parametrize("seed", [0, 3])
def test_agreement_is_what_the_command_says_with_the_seed_of_the_run(seed: int) -> None:
    rows = rated(np.random.default_rng(5).integers(1, 6, 40).tolist())
    found = digest(tw.evaluate(rows, "length", seed=seed))
    (row,) = tw.metaevaluate(rows, "length", seed=seed).rows
    pair, ends = found.human_correlations["length", "Overall"], found.human_interval("length", "Overall")
    assert ends is not None
    assert (pair.value, pair.p, pair.n) == (row.spearman, row.p_spearman, row.n)
    assert (ends.low, ends.high) == (row.spearman_low, row.spearman_high)


def test_three_turns_in_the_right_order_are_no_evidence() -> None:
    assert "beyond chance on these rows; the best is words" in said(digest(score(rated([1, 2, 3]), ["words"])))


def test_the_best_of_many_metrics_needs_more_evidence() -> None:
    found = digest(score(rated([1, 2, 3, 5, 4]), ["words", *(f"words {n}" for n in range(9))]))
    assert found.human_correlations["words", "Overall"].p == pytest.approx(1 / 12)
    assert "beyond chance" in said(found)
    found = digest(score(rated([1, 2, 3, 4, 5]), ["words", *(f"words {n}" for n in range(9))]))
    assert "words agrees best" in said(found)
    assert "The best of 10 metrics may reach that by chance." in said(found)
    assert "by chance" not in said(digest(score(rated([1, 2, 3, 4, 5]), ["words"])))


def test_a_high_correlation_of_few_turns_does_not_hide_a_sure_one() -> None:
    every = rated([1, 3, 2, 5, 4, 6, 8, 7, 10, 9, 12, 11])
    for row, reference in zip(every[3:6], ("y q", "q", "y"), strict=True):
        row["references"] = [reference]
    found = digest(score(every, ["words", "overlap"]))
    assert found.human_correlations["overlap", "Overall"].value == pytest.approx(1)
    assert "Of the metrics that agree beyond chance, words agrees best with people’s Overall ratings" in said(found)


def test_gaps_are_named() -> None:
    found = digest(score([{"response": "x y"}, {"response": 7}, {"response": "z"}], ["words", "overlap"]))
    assert "1 row could not be read" in said(found)
    assert "There is no score at all from overlap." in said(found)


def test_without_intervals_nothing_is_called_close() -> None:
    found = digest(score(rows("one", ["a b"]) + rows("two", ["a"]), ["overlap"]))
    assert "On overlap some systems have too few turns for an interval." in said(found)
    assert "too close to call" not in said(found)


@pytest.mark.slow
def test_many_rivals_are_counted_not_named() -> None:
    systems = [rows(f"s{n}", ["a b c d" if n == 0 else "a b", "x", "a b"]) for n in range(7)]
    found = digest(score([row for system in systems for row in system], ["overlap"]))
    assert "On overlap it is not shown to be better than 6 other systems." in said(found)
