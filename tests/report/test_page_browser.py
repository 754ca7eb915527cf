"""The page in a real browser: it loads without a word of complaint or a request, and its controls work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import Browser
from tests.report.results import score
from turnwise.analyses.evaluate import Result
from turnwise.report.page import write_report

ROWS = "document.querySelectorAll('#turn-table tr.turn').length"
COUNT = "document.getElementById('count').textContent"


@pytest.fixture(scope="module")
def report(chats: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(chats, tmp_path_factory.mktemp("report") / "report.html", title="A report")


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Browser]:
    browser.open(report)
    yield browser
    assert browser.errors == []
    assert {url for url in browser.requests if not url.startswith("data:image/svg+xml")} == {report.as_uri()}


def column(browser: Browser, number: int) -> list[float]:
    """The numbers in a column of the table of turns."""
    cells = f"[...document.querySelectorAll('#turn-table tr.turn')].map((row) => row.cells[{number}].textContent)"
    return [float(text.replace("−", "-")) for text in browser.run(cells)]


def test_it_loads(opened: Browser) -> None:
    assert opened.run("document.title") == "A report"
    assert opened.run(ROWS) == 25
    assert opened.run(COUNT) == "Turns 1 to 25 of 60"
    # Nothing is wider than the window.
    assert opened.run("document.documentElement.scrollWidth") == 1280


def test_turns_are_searched_filtered_and_paged(opened: Browser) -> None:
    opened.type_into("#search", "WEEKEND raining")
    opened.wait_for(f"{COUNT} === 'Turns 1 to 4 of 4'")
    opened.run("const s = document.getElementById('by-system'); s.value = '2'; s.dispatchEvent(new Event('change'))")
    assert opened.run("document.querySelector('#turn-table .system').textContent") == "marble"
    assert opened.run(COUNT) == "Turns 1 to 1 of 1"
    opened.run("document.getElementById('search').select()")
    opened.type_into("#search", "no such words anywhere")
    opened.wait_for(f"{COUNT} === 'No turn matches.'")
    opened.call("Page.reload")
    opened.wait_for(f"{ROWS} === 25")
    opened.click("#next")
    opened.click("#next")
    assert opened.run(COUNT) == "Turns 51 to 60 of 60"
    assert opened.run("document.getElementById('next').disabled") is True


def test_turns_are_sorted_by_any_metric(opened: Browser) -> None:
    heading = "#turn-table thead th:nth-child(4)"
    opened.click(f"{heading} button")
    falling = column(opened, 3)
    assert falling == sorted(falling, reverse=True)
    assert opened.run(f"document.querySelector('{heading}').ariaSort") == "descending"
    opened.click("#direction")
    rising = column(opened, 3)
    assert rising == sorted(rising)
    assert rising != falling


def test_systems_are_sorted(opened: Browser) -> None:
    names = "[...document.querySelectorAll('.systems tbody')[0].rows].map((row) => row.cells[0].dataset.value)"
    values = "[...document.querySelectorAll('.systems tbody')[0].rows].map((row) => Number(row.cells[3].dataset.value))"
    before = opened.run(names)
    opened.click(".systems th:nth-child(4) button")
    opened.click(".systems th:nth-child(4) button")
    assert opened.run(values) == sorted(opened.run(values))
    assert sorted(opened.run(names)) == sorted(before)


def test_a_turn_opens_and_leads_to_its_rivals(opened: Browser) -> None:
    opened.click(".open-turn")
    detail = opened.run("document.querySelector('.detail').textContent")
    for words in ("Conversation", "References", "Scores", "People’s ratings", "ana", "chats.jsonl, line 1"):
        assert words in detail
    assert opened.run("document.querySelector('.open-turn').ariaExpanded") == "true"
    opened.click(".detail button")
    assert opened.run(COUNT) == "Turns 1 to 4 of 4"
    opened.click("#one-context button")
    assert opened.run(COUNT) == "Turns 1 to 25 of 60"


def test_dark_and_light(opened: Browser) -> None:
    colours = (
        "[getComputedStyle(document.body).backgroundColor, "
        "getComputedStyle(document.querySelector('.plot svg text')).fill]"
    )
    opened.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    light = opened.run(colours)
    opened.click("#theme")
    dark = opened.run(colours)
    assert all(a != b for a, b in zip(light, dark, strict=True))
    opened.click("#theme")
    assert opened.run(colours) == light
    opened.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    opened.call("Page.reload")
    opened.wait_for(f"{ROWS} === 25")
    assert opened.run(colours) == dark


def test_best_and_worst_of_the_chosen_metric(opened: Browser) -> None:
    shown = (
        "[...document.querySelectorAll('.ends')].filter((block) => block.offsetHeight)"
        ".map((block) => block.querySelector('h3').textContent.trim())"
    )
    assert opened.run(shown) == ["words"]
    opened.run("const e = document.getElementById('ends-metric'); e.value = '1'; e.dispatchEvent(new Event('change'))")
    assert opened.run(shown) == ["overlap ↑"]


def test_marks_say_what_they_are(opened: Browser) -> None:
    mark = "document.querySelector('#chart-ranking g.mark-symbol [aria-label]')"
    opened.run(f"{mark}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = opened.run(f"JSON.stringify({mark}.getBoundingClientRect())")
    place = json.loads(box)
    opened.call("Input.dispatchMouseEvent", type="mouseMoved", x=place["x"] + place["width"] / 2,
                y=place["y"] + place["height"] / 2)  # fmt: skip
    tip = opened.wait_for("!document.getElementById('tip').hidden && document.getElementById('tip').textContent")
    assert tip == opened.run(f"{mark}.getAttribute('aria-label')")
    assert tip.startswith("juniper: ")


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_charts_are_saved(opened: Browser, tmp_path: Path, kind: str) -> None:
    opened.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    opened.click(f"#chart-human-correlations [data-save={kind}]")
    target = tmp_path / f"human-correlations.{kind}"
    for _ in range(1000):
        opened.run("new Promise((done) => setTimeout(done, 30))")
        if target.exists() and target.stat().st_size:
            break
    content = target.read_bytes()
    if kind == "svg":
        assert b"var(--" not in content
        assert b"rgb(" in content
    else:
        assert content.startswith(b"\x89PNG")
        assert len(content) > 5_000


def test_on_a_phone_nothing_sticks_out(browser: Browser, report: Path) -> None:
    browser.open(report, width=390, height=800)
    assert browser.run("document.documentElement.scrollWidth") == 390
    panels = "[...document.querySelectorAll('#chart-ranking g.cell > g')].map((g) => g.getBoundingClientRect().y)"
    # One panel below the other.
    assert len(set(browser.run(panels))) == 3
    assert browser.errors == []


def test_on_paper_every_turn_is_there(opened: Browser) -> None:
    opened.run("dispatchEvent(new Event('beforeprint'))")
    assert opened.run(ROWS) == 60
    opened.run("dispatchEvent(new Event('afterprint'))")
    assert opened.run(ROWS) == 25
    assert opened.pdf().startswith(b"%PDF")


def test_markup_in_the_data_stays_text(browser: Browser, tmp_path: Path) -> None:
    evil = "<img src=x onerror=\"document.title='broken'\"></script><script>document.title='broken'</script>"
    rows = [
        {
            "response": f"{evil} {n}",
            "system": evil,
            "context": [evil],
            "references": [evil],
            "facts": [evil],
            "id": f"{evil}{n}",
        }
        for n in range(3)
    ]
    written = write_report(score(rows, ["words", "overlap"]), tmp_path / "report.html", title=evil)
    browser.open(written)
    browser.click(".open-turn")
    assert browser.run("document.title") == evil
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert evil in browser.run("document.querySelector('.detail').textContent")
    assert browser.errors == []
    assert browser.requests == [written.as_uri()]


def test_turns_without_a_score_come_last_either_way(browser: Browser, tmp_path: Path) -> None:
    rows = [{"response": "one", "references": [r] if r else []} for r in ("", "one", "one two", "")]
    browser.open(write_report(score(rows, ["overlap"]), tmp_path / "report.html", title=None))
    shown = "[...document.querySelectorAll('#turn-table td.score')].map((cell) => cell.textContent)"
    browser.click("#turn-table th:nth-child(3) button")
    assert browser.run(shown) == ["1.000", "0.500", "–", "–"]
    browser.click("#turn-table th:nth-child(3) button")
    assert browser.run(shown) == ["0.500", "1.000", "–", "–"]
    browser.click("#noted")
    assert browser.run(COUNT) == "Turns 1 to 2 of 2"
    assert browser.errors == []


def test_five_thousand_turns_stay_fluid(browser: Browser, tmp_path: Path) -> None:
    rows = [
        {"response": f"reply-{n}x " + "word " * (n % 23), "context": [f"question {n // 4}"], "system": f"s{n % 4}"}
        for n in range(5_000)
    ]
    browser.open(write_report(score(rows, ["words", "vowels"]), tmp_path / "report.html", title=None))
    assert browser.run(COUNT) == "Turns 1 to 25 of 5,000"
    spent = (
        "(() => { const start = performance.now(); "
        "document.querySelector('#turn-table th:nth-child(4) button').click(); return performance.now() - start; })()"
    )
    browser.run(spent)
    assert browser.run(spent) < 500
    browser.type_into("#search", "reply-4321x")
    browser.wait_for(f"{COUNT} === 'Turns 1 to 1 of 1'")
    assert browser.errors == []


def test_a_long_response_does_not_push_the_others_away(browser: Browser, tmp_path: Path) -> None:
    rows = [{"response": "very long " * 350 + str(n), "context": ["why? " * 300], "system": "a"} for n in range(4)]
    browser.open(write_report(score(rows, ["words"]), tmp_path / "report.html"), width=420)
    heights = browser.run("[...document.querySelectorAll('.quote')].map((quote) => quote.offsetHeight)")
    assert heights
    assert max(heights) < 900
    assert browser.run("document.documentElement.scrollWidth") == 420


def test_a_shortened_name_says_itself_in_full(browser: Browser, tmp_path: Path) -> None:
    names = [f"support-assistant-of-production-2026-11-{day:02}" for day in (1, 8)]
    rows = [{"response": "word " * n, "system": name} for name in names for n in range(1, 5)]
    browser.open(write_report(score(rows, ["words"]), tmp_path / "report.html"))
    browser.run(
        "const label = document.querySelector('#chart-ranking text[aria-label]'); label.scrollIntoView();"
        "const box = label.getBoundingClientRect(); window.at = [box.x + box.width / 2, box.y + box.height / 2]; 0"
    )
    x, y = browser.run("window.at")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert browser.run("document.getElementById('tip').hidden") is False
    assert browser.run("document.getElementById('tip').textContent") in names
