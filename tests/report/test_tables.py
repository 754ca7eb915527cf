"""Groups of replies and contradictions in the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import turnwise as tw
from tests.report.browser import Browser
from turnwise.analyses.evaluate import Result
from turnwise.dialogue import Example
from turnwise.engine.aggregate import Summary
from turnwise.engine.score import Judged
from turnwise.io.read import read_rows
from turnwise.metrics.base import Metric, Score
from turnwise.metrics.holistic import own_turns
from turnwise.report.digest import digest
from turnwise.report.page import render
from turnwise.report.tables import MOST_PAIRS, contradictions, group_table

HOSTILE = "<script>alert(1)</script>"


@dataclass(frozen=True, kw_only=True)
class Contradicting(Metric):
    """Compares the response with every own turn: the more letters they share, the less it contradicts."""

    summary: ClassVar[str] = "letters that do not occur before"
    cite: ClassVar[str] = "the tests"

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        letters = set(example.response)
        parts = {
            f"turn {turn + 1}": 1 - len(letters & set(example.context[turn])) / len(letters)
            for turn in own_turns(example)
        }
        return Score(1 - max(parts.values()), parts) if parts else Score(None, note="no earlier turn")


def replies() -> list[dict[str, Any]]:
    return [
        {
            "id": f"{system}{group}{i}",
            "context": [f"query {group} {i}"],
            "response": text,
            "group": group,
            "system": system,
        }
        for system, said in (("parrot", ["so it goes"] * 3), ("poet", ["a b c", "d e f", f"g {HOSTILE} i"]))
        for group in ("first", "second")
        for i, text in enumerate(said)
    ]


def talk() -> Result:
    rows = [
        {
            "id": f"t{i}",
            "context": [f"abc{i} {HOSTILE}", "why?"],
            "response": "xyz" if i % 2 else "abc",
            "system": "bot",
        }
        for i in range(20)
    ]
    metric = Contradicting(name="contradicting")
    judged = [
        Judged(row, {"contradicting": metric.judge(row.example)}) for row in read_rows(rows) if row.example is not None
    ]
    summary = Summary({"contradicting": metric})
    for item in judged:
        summary.add(item)
    return Result({"contradicting": metric}, judged, summary.system_values(seed=0), summary)


def test_groups_have_a_row_each_and_a_column_per_metric_and_system() -> None:
    found = digest(tw.evaluate(replies(), ["diversity", "length", "diversity[n=1]"]))
    table = group_table(found)
    assert table is not None
    assert [(column.name, column.system) for column in table.columns] == [
        ("diversity", "parrot"),
        ("diversity", "poet"),
        ("diversity[n=1]", "parrot"),
        ("diversity[n=1]", "poet"),
    ]
    assert [row.name for row in table.rows] == ["first", "second"]
    assert table.rows[0].values[:3] == [
        pytest.approx(math.log(2)),
        pytest.approx(_entropy()),
        pytest.approx(math.log(3)),
    ]
    assert [reply.text for reply in table.rows[0].replies[:3]] == ["so it goes"] * 3
    assert table.rows[0].replies[0].query == "query first 0"


def _entropy() -> float | None:
    said = [row["response"] for row in replies() if row["system"] == "poet" and row["group"] == "first"]
    return tw.load_metric("diversity").of_group(said)  # type: ignore[attr-defined]


def test_the_page_shows_groups_and_escapes_them() -> None:
    page = render(digest(tw.evaluate(replies(), ["diversity"])))
    assert 'id="groups"' in page
    assert "g &lt;script&gt;alert(1)&lt;/script&gt; i" in page
    assert HOSTILE not in page
    assert "a system’s value is the mean over its groups" in page
    assert "the mean of its turns" not in page


def test_without_groups_there_is_no_section() -> None:
    found = digest(tw.evaluate([{"id": "1", "response": "Hi.", "group": "g"}], ["length"]))
    assert group_table(found) is None
    assert contradictions(found) is None
    assert 'id="groups"' not in render(found)


def test_the_most_probable_contradictions_stand_side_by_side() -> None:
    found = contradictions(digest(talk()))
    assert found is not None
    assert (found.metric, found.compared, found.probable) == ("contradicting", 20, 10)
    assert len(found.pairs) == MOST_PAIRS
    worst = found.pairs[0]
    assert (worst.id, worst.later, worst.chance) == ("t1", "xyz", "1.00")
    assert worst.earlier.startswith("abc1")
    assert worst.between == ["why?"]
    page = render(digest(talk()))
    assert "10 of 20 pairs are more probable than not" in page
    assert HOSTILE not in page


def test_in_a_browser_groups_sort_and_open(browser: Browser, tmp_path: Path) -> None:
    path = tw.evaluate(replies(), ["diversity"]).report(tmp_path / "report.html")
    browser.open(path)
    names = "[...document.querySelectorAll('.groups tbody tr')].map(row => row.cells[0].dataset.value)"
    assert browser.run(names) == ["first", "second"]
    browser.run("document.querySelector('.groups thead button').click()")
    browser.run("document.querySelector('.groups thead button').click()")
    assert browser.run(names) == ["second", "first"]
    browser.run("document.querySelector('.groups summary').click()")
    assert browser.run("document.querySelector('.groups details').open") is True
    assert browser.errors == []
