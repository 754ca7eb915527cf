"""The charts show the right numbers, become files, and are drawn in colours that can be told apart."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.report.results import KINDS, Words, score
from turnwise.analyses.evaluate import Result
from turnwise.errors import TurnwiseError
from turnwise.report import palette
from turnwise.report.charts import FILES, all_charts, full_names, ranking_chart, write_charts
from turnwise.report.digest import Digest, digest
from turnwise.report.drawing import SVG, bin_edges, frame, inline_svg, save_chart, to_svg
from turnwise.report.labels import places, short_names


@pytest.fixture(scope="module")
def found(chats: Result) -> Digest:
    return digest(chats)


def drawn(chart: object) -> list[dict[str, object]]:
    """The rows that a chart draws."""
    spec = chart.to_dict()  # type: ignore[attr-defined]
    (text,) = spec["datasets"].values()
    rows: list[dict[str, object]] = json.loads(text)
    return rows


def test_the_ranking_is_by_each_metric_s_own_direction(found: Digest) -> None:
    rows = [row for row in drawn(ranking_chart(found)) if row["kind"] == "value"]
    for panel, sign in (("overlap ↑", -1), ("vowels ↓", 1)):
        values = [sign * float(str(row["value"])) for row in rows if row["panel"] == panel]
        assert values == sorted(values)
        assert len(values) == 4


def test_correlations_equal_scipy_s(found: Digest) -> None:
    for (key, quality), pair in found.human_correlations.items():
        scores, ratings = found.scores[key], found.ratings[quality]
        both = ~np.isnan(scores) & ~np.isnan(ratings)
        assert pair.n == both.sum()
        assert pair.value == pytest.approx(stats.spearmanr(scores[both], ratings[both]).statistic)
    for (first, second), pair in found.metric_correlations.items():
        expected = stats.spearmanr(found.scores[first], found.scores[second]).statistic
        assert pair.value == pytest.approx(expected)


def test_every_turn_is_in_the_distributions(found: Digest) -> None:
    rows = [row for row in drawn(all_charts(found)["distributions"]) if row["kind"] == "bar"]
    counts = [int(str(row["label"]).split(": ")[1].split(" of ")[0]) for row in rows if row["panel"] == "words"]
    assert sum(counts) == 60


@pytest.mark.parametrize(
    "values", [[1.0], [0.5, 0.5], [0.0, 1.0], [1.0, 2.0, 400.0], [-3.0, 0.1], [1e9, 1e9 + 1], [1e-9, 2e-9], [0, 1e300]]
)
def test_bins_hold_every_value(values: list[float]) -> None:
    edges = bin_edges(np.array(values))
    assert (np.diff(edges) > 0).all()
    assert len(edges) <= 30
    assert np.histogram(values, edges)[0].sum() == len(values)


def test_charts_become_files(chats: Result, tmp_path: Path) -> None:
    written = write_charts(chats, tmp_path / "charts")
    names = {"ranking", "distributions", "metric-correlations", "human-correlations", "scatter"}
    assert {path.name for path in written} == {f"{name}{suffix}" for name in names for suffix in (".svg", ".png")}
    assert {path.name for path in written} <= set(FILES)
    for path in written:
        if path.suffix == ".svg":
            assert ET.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314
        else:
            assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
            assert path.stat().st_size > 5_000


def test_charts_of_another_result_do_not_stay(chats: Result, tmp_path: Path) -> None:
    write_charts(chats, tmp_path)
    (tmp_path / "mine.svg").write_text("")
    rows = [{"response": "one two", "system": "a"}, {"response": "one", "system": "b"}]
    written = write_charts(score(rows, ["words"]), tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([*written, tmp_path / "mine.svg"])


def test_a_chart_s_ending_decides(found: Digest, tmp_path: Path) -> None:
    chart = ranking_chart(found)
    spec = json.loads(save_chart(chart, tmp_path / "ranking.JSON").read_text(encoding="utf-8"))
    assert "vega-lite" in spec["$schema"]
    with pytest.raises(TurnwiseError, match=r"ranking\.gif: a chart is written as"):
        save_chart(chart, tmp_path / "ranking.gif")


def test_charts_that_have_nothing_to_show_are_left_out() -> None:
    rows = [{"response": "one two"}, {"response": "three"}]
    assert list(all_charts(digest(score(rows, ["words"])))) == ["ranking", "distributions"]
    assert list(all_charts(digest(score(rows, ["silent"])))) == []


def test_in_the_page_colours_go_by_name_and_identifiers_by_chart(found: Digest) -> None:
    svg = to_svg(ranking_chart(found))
    inside = inline_svg(svg, "ranking", "What it shows")
    root = ET.fromstring(inside)  # noqa: S314
    assert root.get("aria-label") == "What it shows"
    used = {e.get(key) for e in root.iter() for key in ("fill", "stroke")} - {None, "none", "transparent"}
    assert used
    assert all(str(colour).startswith("var(--chart-") for colour in used)
    assert all((e.get("id") or "ranking-").startswith("ranking-") for e in root.iter())
    assert "style=" not in inside
    labels = [label for e in root.iter() if (label := e.get("aria-label"))]
    assert any(label.startswith("juniper: ") for label in labels)


def test_what_the_page_forbids_or_shares_is_taken_out_of_a_chart() -> None:
    drawn_svg = (
        '<svg xmlns="http://www.w3.org/2000/svg"><rect fill="#ffffff"/><clipPath id="c1"/>'
        '<path clip-path="url(#c1)" style="mix-blend-mode:multiply" fill="#123456"/></svg>'
    )
    inside = inline_svg(drawn_svg, "scatter", "d")
    assert "style" not in inside
    assert "rect" not in inside
    assert 'id="scatter-c1"' in inside
    assert 'clip-path="url(#scatter-c1)"' in inside
    assert 'fill="#123456"' in inside


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_read(theme: int) -> None:
    colour = {name: pair[theme] for name, pair in {**palette.PAGE, **palette.HEAT, **palette.ALL}.items()}
    for ground in ("page", "surface", "raised", "accent-soft", "warn-soft"):
        assert contrast(colour["ink"], colour[ground]) >= 7
    for ground in ("page", "surface", "raised"):
        for text in ("muted", "accent", "warn"):
            assert contrast(colour[text], colour[ground]) >= 4.5, (text, ground)
    for name in palette.HEAT:
        assert contrast(colour["ink"], colour[name]) >= 4.5, name
    for name in palette.SYSTEMS:
        assert contrast(colour[name], colour["chart-surface"]) >= 3, name
    # Numbers in the cells of a heat map: dark on weak colours, light on strong ones (swapped at night).
    for edge, name in enumerate(palette.DIVERGING):
        middle = -1 + (2 * edge + 1) / palette.STEPS
        text = colour["chart-on-strong"] if abs(middle) > palette.STRONG else colour["chart-ink"]
        assert contrast(text, colour[name]) >= 4.5, (name, text)


def test_a_drawn_colour_leads_back_to_its_name() -> None:
    assert len(palette.names_by_light()) == len(palette.ALL)


OF_OBJECTS = ["constructor", "toString", "valueOf", "hasOwnProperty", "__proto__"]


@pytest.mark.parametrize("kind", ["metric", "quality", "system"])
def test_names_that_every_javascript_object_has_are_drawn(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.report.results.KINDS", {**KINDS, **dict.fromkeys(OF_OBJECTS, Words)})
    names = {one: OF_OBJECTS if one == kind else ["words", "vowels"] for one in ("metric", "quality", "system")}
    rows = [
        {
            "response": "word " * (1 + n % 5) + "a" * (n % 3),
            "context": [str(n)],
            "system": names["system"][n % len(names["system"])],
            "ratings": {quality: [(7 * n + place) % 5] for place, quality in enumerate(names["quality"])},
        }
        for n in range(16)
    ]
    charts = all_charts(digest(score(rows, names["metric"])))
    chart = {"metric": "metric-correlations", "quality": "human-correlations", "system": "ranking"}[kind]
    shown = {text.rstrip("\u200b") for text in texts(to_svg(charts[chart]))}
    assert set(names[kind]) <= shown
    assert all(to_svg(one).count("<path") > 1 for one in charts.values())


LONG = [
    pytest.param([f"support-assistant-prod-2026-11-{day:02}" for day in range(1, 15)], id="different ends"),
    pytest.param([f"{kind}-support-assistant-of-the-second-generation" for kind in "ab"], id="different starts"),
    pytest.param([f"{'before-' * 6}{kind}{'-after' * 6}" for kind in ("red", "blue", "tan")], id="different middles"),
    pytest.param([f"{'x' * 40}{a}{'y' * 40}{b}{'z' * 40}" for a in "12" for b in "12"], id="two differences"),
    pytest.param([f"客服助手第{n}版本非常非常非常非常长的名字" for n in "一二三"], id="wide characters"),
]


@pytest.mark.parametrize("names", LONG)
@pytest.mark.parametrize("most", [13, 22, 28])
def test_shortened_names_fit_and_are_never_alike(names: list[str], most: int) -> None:
    short = short_names([*names, "short"], most)
    assert list(short) == [*names, "short"]
    assert len(set(short.values())) == len(short)
    assert all(places(name) <= most for name in short.values())
    assert short["short"] == "short"
    assert all("…" in short[name] for name in names)


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ET.fromstring(svg).iter(f"{{{SVG}}}text")]  # noqa: S314


@pytest.fixture(scope="module")
def fourteen() -> tuple[list[str], Digest]:
    names = [f"support-assistant-prod-2026-11-{day:02}" for day in range(1, 15)]
    rows = [
        {"response": "word " * (1 + (n * place) % 5), "system": name, "context": [str(n)], "ratings": {"Overall": [n]}}
        for place, name in enumerate(names)
        for n in range(1, 5)
    ]
    return names, digest(score(rows, ["words", "vowels"]))


def test_every_system_is_named_in_every_panel(fourteen: tuple[list[str], Digest]) -> None:
    names, found = fourteen
    short = short_names(names)
    charts = all_charts(found)
    for chart, times in (("ranking", 2), ("distributions", 2), ("scatter", 1)):
        shown = texts(to_svg(charts[chart]))
        assert [shown.count(short[name]) for name in names] == [times] * 14, chart


def test_the_page_says_the_full_name_of_a_shortened_one(fourteen: tuple[list[str], Digest]) -> None:
    names, found = fourteen
    inside = inline_svg(to_svg(ranking_chart(found)), "ranking", "d", full_names(found))
    said = {
        element.text: (element.get("aria-label"), element.get("pointer-events"))
        for element in ET.fromstring(inside).iter(f"{{{SVG}}}text")  # noqa: S314
    }
    for name, short in short_names(names).items():
        assert said[short] == (name, "all")


def test_systems_whose_colours_repeat_have_another_shape(fourteen: tuple[list[str], Digest]) -> None:
    _, found = fourteen
    svg = ET.fromstring(to_svg(all_charts(found)["scatter"]))  # noqa: S314
    legend = next(e for e in svg.iter() if "role-legend-entry" in (e.get("class") or ""))
    looks = {(e.get("fill"), e.get("d")) for e in legend.iter(f"{{{SVG}}}path") if e.get("fill", "").startswith("#")}
    assert len(looks) == 14
    assert len({fill for fill, _ in looks}) == 10


def test_the_words_of_the_usual_qualities_are_not_shortened(found: Digest) -> None:
    shown = texts(to_svg(all_charts(found)["human-correlations"]))
    assert "Understandable" in shown
    assert not any("…" in text for text in shown)


def test_an_axis_around_one_small_value_shows_it() -> None:
    around = frame("panel", 0.003, 0.003)
    assert (around["from"], around["to"]) == (pytest.approx(0.0024), pytest.approx(0.0036))


def test_a_lone_rating_does_not_stand_beside_a_rounded_number() -> None:
    rows = [{"response": "one two", "ratings": {"Overall": [4, 4, 5]}, "context": ["a"]}]
    svg = to_svg(all_charts(digest(score(rows, ["words"])))["scatter"])
    assert {"4.0", "4.5"} <= set(texts(svg))
