"""The sentences at the top say what the numbers say, and no more."""

from __future__ import annotations

import re

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
    found = digest(score(rows("good", ["a b c d", "a b c", "a b c d"]) + rows("bad", ["x", "a", "y"]), ["overlap"]))
    best = leader(found, "overlap")
    assert best is not None
    assert (best.system, best.clear) == ("good", True)
    assert "good has the best value on 1 of 1 metric." in said(found)
    assert "Its interval stands apart from every other system’s on overlap." in said(found)


def test_too_close_to_call() -> None:
    found = digest(score(rows("one", ["a b c d", "x", "a b"]) + rows("two", ["a b c", "a", "y"]), ["overlap"]))
    best = leader(found, "overlap")
    assert best is not None
    assert best.rivals == ("two",)
    assert "On overlap the intervals overlap with those of two: too close to call here." in said(found)


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
    assert "vowels agrees best with people’s Overall ratings (Spearman −1.00 over 5 turns)" in said(found)


def test_gaps_are_named() -> None:
    found = digest(score([{"response": "x y"}, {"response": 7}, {"response": "z"}], ["words", "overlap"]))
    assert "1 row could not be read" in said(found)
    assert "There is no score at all from overlap." in said(found)


def test_without_intervals_nothing_is_called_close() -> None:
    found = digest(score(rows("one", ["a b"]) + rows("two", ["a"]), ["overlap"]))
    assert "On overlap some systems have too few turns for an interval." in said(found)
    assert "too close to call" not in said(found)
