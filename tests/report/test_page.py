"""The page holds what it should, runs nothing but its own script, and copes with every odd result."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.report.results import score
from turnwise.analyses.evaluate import Result
from turnwise.analyses.part import Part
from turnwise.engine import sample
from turnwise.report import page
from turnwise.report.digest import digest
from turnwise.report.page import chosen_turns, render, write_report
from turnwise.report.tables import metric_table, rating_table

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)><!--<script> & \" ' \u2028"


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text of those that matter."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": [], "p": [], "strong": []}
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag in self.texts:
            self.open.append(tag)
            self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def embedded(html: str) -> dict[str, Any]:
    """The data that the page's script reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    document: dict[str, Any] = json.loads(found[1])
    return document


@pytest.fixture(scope="module")
def html(chats: Result) -> str:
    return render(digest(chats))


def test_the_page_fetches_nothing(html: str) -> None:
    elements = Elements(html)
    for _, attributes in elements.found:
        for name in ("src", "href", "xlink:href", "action", "srcset", "data", "poster"):
            assert (attributes.get(name) or "#").startswith("#")
    outside = set(re.findall(r"(?:https?:)?//[\w.]+[^\s\"'<)]*", re.sub(r"<script>.*?</script>", "", html, flags=re.S)))
    assert {address for address in outside if "://" in address} <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert not {"link", "iframe", "object", "embed", "img", "base"} & {tag for tag, _ in elements.found}


def test_only_the_page_s_own_script_and_style_may_act(html: str) -> None:
    elements = Elements(html)
    policy = next(m["content"] or "" for m in elements.named("meta") if "http-equiv" in m)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy
    scripts = [
        text
        for text, attributes in zip(elements.texts["script"], elements.named("script"), strict=True)
        if "type" not in attributes
    ]
    for rule, contents in (("script-src", scripts), ("style-src", elements.texts["style"])):
        assert len(contents) == 1
        digest_ = base64.b64encode(hashlib.sha256(contents[0].encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest_}'"
    for _, attributes in elements.found:
        assert not [name for name in attributes if name == "style" or name.startswith("on")]


def test_text_from_the_data_is_never_markup(tmp_path: Path) -> None:
    row = {
        "id": EVIL, "system": f"<b>{EVIL}", "context": [EVIL], "response": EVIL, "references": [EVIL, "b"],
        "facts": [EVIL], "ratings": {EVIL: [1, 2], "Overall": [4, 5]}, "raters": [EVIL, "r"],
    }  # fmt: skip
    other = {**row, "id": "2", "system": "plain", "response": "hello there", "context": ["x"]}
    third = {**other, "id": "3", "response": "good day to you"}
    html = render(digest(score([row, other, third])), EVIL)
    elements = Elements(html)
    assert [a.get("type") for a in elements.named("script")] == ["application/json", None]
    assert not elements.named("img")
    assert not elements.named("b")
    assert "<!--" not in html
    data = embedded(html)
    assert data["turns"][0]["r"] == EVIL
    assert data["texts"][data["turns"][0]["c"]] == [EVIL]


def test_everything_asked_for_is_there(html: str, chats: Result) -> None:
    for chart in ("ranking", "distributions", "metric-correlations", "human-correlations", "scatter"):
        assert f'id="chart-{chart}"' in html
    for signature in chats.signatures.values():
        assert signature in html
    data = embedded(html)
    assert len(data["turns"]) == 60
    assert data["systems"] == ["juniper", "kestrel", "marble", "tin-can"]
    assert [metric["key"] for metric in data["metrics"]] == ["words", "overlap", "vowels"]
    assert "Student’s t corrected for skew" in html


def test_a_path_does_not_travel_with_the_report(tmp_path: Path) -> None:
    folder = tmp_path / "secret-folder"
    folder.mkdir()
    source = folder / "chats.jsonl"
    source.write_text('{"response": "one two"}\n{"response": 3}\n{"response": "four five six"}\n')
    written = write_report(score([source], ["words"]), tmp_path / "new" / "report.html", title=None)
    html = written.read_text(encoding="utf-8")
    assert "secret-folder" not in html
    assert "chats.jsonl, line 2" in html
    assert "1 row could not be read" in html


ROWS = [
    {"response": "one two three", "system": "a", "references": ["one two"], "context": ["hi"]},
    {"response": "one", "system": "b", "references": ["one two"], "context": ["hi"]},
    {"response": "two four five six", "system": "a", "references": ["six four"], "context": ["ho"]},
    {"response": "six", "system": "b", "references": ["six four"], "context": ["ho"]},
]
NAMES = ["", " ", "a'b\"c\\", "[0].x", "two\nlines", "שלום", "🦜", "x" * 300, "\x00\x1b", "a", "a ", "datum"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "metrics"),
    [
        pytest.param([{**row, "system": "only"} for row in ROWS], ["words", "overlap"], id="one system"),
        pytest.param(ROWS, ["overlap"], id="one metric"),
        pytest.param(ROWS[:1], ["words", "overlap"], id="one turn"),
        pytest.param([{"response": "x"}, {"response": "y z"}], ["overlap", "words"], id="no references"),
        pytest.param(ROWS, ["silent"], id="no score at all"),
        pytest.param(ROWS, ["silent", "same", "words"], id="some null, some constant"),
        pytest.param(ROWS, ["same"], id="constant"),
        pytest.param(
            [{**ROWS[0], "ratings": {"Overall": [None, None]}}, *ROWS[1:]], ["words"], id="only empty ratings"
        ),
        pytest.param([{**row, "ratings": {"Good": [3]}} for row in ROWS], ["words", "same"], id="equal ratings"),
        pytest.param(
            [{**row, "ratings": {"Good": [n]}} for n, row in enumerate(ROWS)], ["silent"], id="rated, not scored"
        ),
        pytest.param([{"response": "hello you", "system": name} for name in NAMES * 2], ["words"], id="odd names"),
        pytest.param(
            [{"response": "مرحبا يا صديقي 🦜", "context": ["שלום"], "system": s} for s in "ab"], ["words"], id="rtl"
        ),
        pytest.param([{"response": "lone \ud800 half", "id": "\udfff"}, *ROWS], ["words"], id="lone surrogates"),
        pytest.param([{"response": "x " * 100_000}, *ROWS], ["words"], id="very long response"),
        pytest.param([{"response": None}, {"context": []}], ["words"], id="nothing can be read"),
        pytest.param([{**ROWS[0], "system": f"s{n}"} for n in range(14)], ["words"], id="many systems"),
    ],
)
def test_odd_results_make_a_page(rows: list[dict[str, Any]], metrics: list[str], tmp_path: Path) -> None:
    written = write_report(score(rows, metrics), tmp_path / "report.html", title=None)
    html = written.read_text(encoding="utf-8")
    assert len(embedded(html)["turns"]) + len(re.findall('class="where"', html)) == len(rows)
    assert ">nan<" not in html.lower()
    assert "None" not in re.sub(r"<script.*?</script>|<style.*?</style>", "", html, flags=re.S)
    assert len(html) < 3_000_000


def test_long_text_is_cut_and_says_so() -> None:
    html = render(digest(score([{"response": "x" * 10_000}], ["words"])))
    assert embedded(html)["turns"][0]["r"].endswith("… (6,000 more characters)")


def test_the_best_value_is_bold_only_where_it_is_clear() -> None:
    def said(system: str, text: str, n: int) -> dict[str, Any]:
        return {"response": text, "system": system, "context": [str(n)], "references": ["b c"]}

    apart = [said("right", "b c", n) for n in range(12)] + [said("wrong", "a", n) for n in range(12)]
    close = [said("one", "b c" if n % 2 else "a", n) for n in range(12)]
    close += [said("two", "b c" if n % 3 else "a", n) for n in range(12)]
    assert bold(render(digest(score(apart, ["overlap"])))) == ["right"]
    assert not bold(render(digest(score(close, ["overlap"]))))
    # No direction, so nothing to call best however far the systems are apart.
    assert not bold(render(digest(score(apart, ["words"]))))


def bold(html: str) -> list[str]:
    """The systems of which a value in the table of systems is bold."""
    rows = re.findall(r'<th scope="row" data-value="(.*?)">(.*?)</tr>', html, re.DOTALL)
    return [name for name, rest in rows if "<strong>" in rest]


@pytest.mark.parametrize(("sign", "between"), [(-1, "\u00a0to\u00a0"), (1, "\u2009\u2013\u2009")])
def test_no_dash_stands_beside_a_minus_sign(sign: int, between: str) -> None:
    rows = [{"response": "a", "context": [str(n)], "ratings": {"Liking": [sign * (1 + n % 3)]}} for n in range(12)]
    found = digest(score(rows, ["words"]))
    assert between in render(found)


def test_ratings_of_whole_dialogues_are_counted_once() -> None:
    talk = [{"role": role, "content": f"{role} says {n}"} for n in range(3) for role in ("user", "assistant")]
    rows = [
        {"messages": [*talk, {"role": "assistant", "content": "word " * n}], "system": f"s{n % 2}",
         "dialogue_id": f"d{n}", "ratings": {"Overall": [n % 5]}}
        for n in range(1, 9)
    ]  # fmt: skip
    found = digest(score(rows, ["words"]))
    assert found.rated.unit == "dialogue"
    assert found.human_correlations["words", "Overall"].n == 8
    html = render(found)
    assert "those of whole dialogues" in html


def test_a_large_result_is_sampled_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"response": "word " * (1 + (n * 37) % 101), "id": str(n)} for n in range(400)]
    for name, size in {"ALL_UP_TO": 300, "EVENLY": 60, "AT_THE_ENDS": 20}.items():
        monkeypatch.setattr(sample, name, size)
    found = digest(score(rows, ["words", "vowels"]))
    chosen = chosen_turns(found)
    assert 50 <= len(chosen) <= 80
    for scores in found.scores.values():
        for side in (scores, -scores):
            assert set(np.argsort(side, kind="stable")[:5]) <= set(chosen)
    # The sample is even: no stretch of the input is left out.
    assert max(after - before for before, after in pairwise(chosen)) < 20
    html = render(found)
    assert f"This page holds {len(chosen)} of 400 turns" in html
    assert len(embedded(html)["turns"]) == len(chosen)


def test_the_list_of_unreadable_rows_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MOST_UNREAD", 5)
    html = render(digest(score([*ROWS, *[{"response": 1}] * 9], ["words"])))
    assert html.count('class="where"') == 5
    assert "9 rows that could not be read" in html


def test_a_long_rated_dialogue_weighs_no_more_than_a_short_one() -> None:
    def talk(turns: int, rating: int) -> dict[str, Any]:
        lines = [{"role": role, "content": f"{role} {n}"} for n in range(turns) for role in ("user", "assistant")]
        return {"messages": lines, "system": "bot", "dialogue_id": f"d{turns}", "ratings": {"Overall": [rating]}}

    (row,) = rating_table(digest(score([talk(1, 1), talk(9, 5)], ["words"]))).rows
    assert (row.n, row.cells[0].value) == (2, 3.0)


def test_a_run_too_large_to_be_kept_is_counted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "MOST_BAD", 10)
    kinds = [{"response": "word " * (1 + n % 7), "system": "often", "id": str(n)} for n in range(400)]
    kinds[201] = {"response": "one two", "system": "once"}
    rows = [*kinds, *[{"response": 1}] * 30]
    whole = score(rows, ["words"])
    part = Part(whole.metrics, most=100)
    for number, item in enumerate(whole.judged):
        part.add(replace(item, number=number))
    found = digest(part.result(seed=0))
    assert len(found.turns) < 200
    assert len(found.unread) < 30
    html = render(found)
    assert facts(html) == {"Turns": "400", "Systems": "2", "Metrics": "1", "Unreadable rows": "30"}
    assert [(row.name, row.n) for row in metric_table(found).rows] == [("often", 399), ("once", 1)]
    assert "30 rows that could not be read" in html
    assert "30 rows could not be read; the reasons stand at the end" in html
    assert f"is of a sample, {len(found.turns)} of 400 turns" in html
    assert f"from the {len(found.turns)} turns that were kept of so large a run" in html
    assert "computed from all turns.</p>" not in html


def facts(html: str) -> dict[str, str]:
    """The numbers in the head of the page."""
    return dict(re.findall(r"<dt>([^<]+)</dt><dd>([\d,]+)</dd>", html))
