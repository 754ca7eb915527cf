"""The charts: one pure function each, from a digest to an altair chart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import altair as alt
import numpy as np

from turnwise.problems import counted
from turnwise.report.digest import Digest, digest
from turnwise.report.drawing import (
    DASHES,
    METRIC_PLACES,
    SAID,
    SHAPES,
    WORD_PLACES,
    Record,
    bin_edges,
    frame,
    heat_map,
    marks,
    panels,
    repeating,
    save_chart,
    system_colour,
    system_legend,
)
from turnwise.report.labels import ARROWS, decimals, interval, labels, number, short_names, shortened_from, shown_as
from turnwise.report.palette import light

if TYPE_CHECKING:
    from turnwise.analyses.distances import Perturbation
    from turnwise.analyses.evaluate import Result

# More points than this in one panel hide each other, and every one of them makes the page heavier.
MOST_POINTS = 300
# Every file that `write_charts` may write.
NAMES = ("ranking", "prd-curves", "distributions", "metric-correlations", "human-correlations", "scatter")
SUFFIXES = (".svg", ".png")
FILES = tuple(f"{name}{suffix}" for name in NAMES for suffix in SUFFIXES)


def ranking_chart(found: Digest) -> alt.FacetChart:
    """Return every system's value with its interval, best on top, one panel per metric."""
    rows = [row for key in found.metrics for row in _ranked(found, key)]
    y = alt.Y(
        "system:N",
        title=None,
        sort=alt.EncodingSortField("rank", op="min"),
        axis=alt.Axis(ticks=False, domain=False, labelPadding=8, labelExpr=shown_as(short_names(found.systems))),
    )
    no_zero = alt.Scale(zero=False, padding=8)
    base = marks("value")
    colour = system_colour(found.systems)
    interval = base.mark_rule(strokeWidth=6, opacity=0.35, strokeCap="round").encode(
        x=alt.X("low:Q", title=None, scale=no_zero), x2=alt.X2("high:Q"), y=y, color=colour, description=SAID
    )
    value = base.mark_point(filled=True, size=64, opacity=1).encode(
        x=alt.X("value:Q", title=None, scale=no_zero), y=y, color=colour, description=SAID
    )
    titles = [_panel(found, key) for key in found.metrics]
    return panels([interval, value], rows, titles, height=24 * len(found.systems), shared_y=False)


def distribution_chart(found: Digest) -> alt.FacetChart:
    """Return how the turns of each system spread: a histogram per system on a common scale, one panel per metric."""
    rows = [row for key in found.turn_metrics for row in _histograms(found, key)]
    count = len(found.systems)
    axis = alt.Axis(
        values=[place + 0.7 for place in range(count)],
        # Vega thins out even the ticks that it was given.
        tickCount=count,
        labelExpr=f"{json.dumps(list(short_names(found.systems).values()))}[floor(datum.value)]",
        grid=False,
        ticks=False,
        domain=False,
        labelPadding=8,
        labelOverlap=False,
    )
    y = alt.Y("top:Q", title=None, axis=axis, scale=alt.Scale(domain=[count, 0], nice=False, zero=False))
    x = alt.X("start:Q", title=None, scale=alt.Scale(zero=False, nice=False, padding=4))
    bars = (
        marks("bar")
        .mark_rect(opacity=0.75)
        .encode(
            x=x, x2=alt.X2("end:Q"), y=y, y2=alt.Y2("bottom:Q"), color=system_colour(found.systems), description=SAID
        )
    )
    medians = (
        marks("median")
        .mark_rule(strokeWidth=2, color=light("chart-ink"))
        .encode(x=x, y=y, y2=alt.Y2("bottom:Q"), description=SAID)
    )
    titles = [_panel(found, key) for key in found.turn_metrics]
    return panels([bars, medians], rows, titles, height=34 * count, shared_y=True)


def prd_chart(found: Digest) -> alt.FacetChart:
    """Return every system's curve, one panel per metric; a curve nearer to the upper right corner is better."""
    keys = list(dict.fromkeys(key for (_, key), value in found.values.items() if value.curve))
    titles = {key: _panel(found, key) for key in keys}
    rows = [row for key, title in titles.items() for row in (frame(title, 0.0, 1.0), *_curves(found, key, title))]
    share = alt.Scale(domain=[0, 1], nice=False)
    curves = (
        marks("point")
        .mark_line(strokeWidth=2, interpolate="linear")
        .encode(
            x=alt.X("recall:Q", title="recall", scale=share),
            y=alt.Y("precision:Q", title="precision", scale=share),
            order=alt.Order("step:Q"),
            color=system_colour(found.systems, legend=True),
            strokeDash=alt.StrokeDash(
                "system:N", scale=repeating(found.systems, DASHES), legend=system_legend(found.systems)
            ),
            detail=alt.Detail("system:N"),
            description=SAID,
        )
    )
    return panels([curves], rows, list(titles.values()), height=220, shared_y=True, across="recall")


def metric_correlation_chart(found: Digest) -> alt.LayerChart:
    """Return which metrics order the turns alike: Spearman correlation of every pair."""
    keys = list(found.turn_metrics)
    cells = {(second, first): value for (first, second), value in found.metric_correlations.items()}
    return heat_map(cells, rows=keys[1:], columns=keys[:-1], unit="turn", show_n=False)


def human_correlation_chart(found: Digest) -> alt.LayerChart:
    """Return how far each metric orders the turns as people do: Spearman correlation with every rated quality."""
    rows, columns = list(found.turn_metrics), list(found.qualities)
    return heat_map(found.human_correlations, rows=rows, columns=columns, unit=found.rated.unit, show_n=True)


def scatter_chart(found: Digest, quality: str) -> alt.FacetChart:
    """Scores against the mean rating of one quality, one panel per metric, with a straight line through."""
    titles = {key: _scatter_title(found, key, quality) for key in found.turn_metrics}
    rows = [row for key, title in titles.items() for row in _scatter_rows(found, key, quality, title)]
    x = alt.X("score:Q", title=None, scale=alt.Scale(zero=False, padding=6))
    given = found.rated.ratings[quality]
    low, high = float(np.nanmin(given)), float(np.nanmax(given))
    # One rating alone would be drawn beside a rounded number, as if it were that.
    span = alt.Scale(zero=False, nice=False, padding=8) if low < high else alt.Scale(domain=[low - 1, high + 1])
    y = alt.Y("rating:Q", title=f"{quality} (mean rating)", scale=span)
    points = (
        marks("point")
        .mark_point(filled=True, size=34, opacity=0.6)
        .encode(
            x=x,
            y=y,
            color=system_colour(found.systems, legend=True),
            shape=alt.Shape("system:N", scale=repeating(found.systems, SHAPES), legend=system_legend(found.systems)),
            description=SAID,
        )
    )
    line = marks("line").mark_line(strokeWidth=1.5, color=light("chart-ink"), aria=False).encode(x=x, y=y)
    return panels([points, line], rows, list(titles.values()), height=150, shared_y=True)


def perturb_chart(result: Perturbation) -> alt.FacetChart:
    """Return one panel per metric, one line per transform; bars are one standard deviation over the seeds each way."""
    titles = labels(dict.fromkeys(row.metric for row in result.rows))
    transforms = list(dict.fromkeys(row.transform for row in result.rows))
    ratios = [row.ratio for row in result.rows]
    places = {
        key: decimals(row.value for row in result.rows if row.metric == key and row.value is not None) for key in titles
    }
    rows: list[Record] = [frame(title, min(ratios), max(ratios)) for title in titles.values()]
    for row in result.rows:
        if row.value is None:
            continue
        reach = row.deviation or 0.0
        value = number(row.value, places[row.metric])
        label = f"{row.transform}, ratio {row.ratio:g}: {row.metric} {value}, n = {row.n:,}"
        rows.append({"panel": titles[row.metric], "kind": "point", "system": row.transform, "ratio": row.ratio,
                     "value": row.value, "low": row.value - reach, "high": row.value + reach,
                     "label": label})  # fmt: skip
    base = marks("point")
    across = "share of answers perturbed"
    x = alt.X("ratio:Q", title=across)
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False, padding=8))
    colour = system_colour(transforms, legend=True)
    spread = base.mark_rule(strokeWidth=5, opacity=0.3).encode(
        x=x, y=alt.Y("low:Q", title=None), y2=alt.Y2("high:Q"), color=colour, description=SAID
    )
    lines = base.mark_line(strokeWidth=2, aria=False).encode(x=x, y=y, color=colour)
    points = base.mark_point(filled=True, size=44, opacity=1).encode(x=x, y=y, color=colour, description=SAID)
    return panels([spread, lines, points], rows, list(titles.values()), height=200, shared_y=False, across=across)


def all_charts(found: Digest) -> dict[str, alt.TopLevelMixin]:
    """Return every chart that the result has something to show in, by name."""
    charts: dict[str, alt.TopLevelMixin] = {}
    if any(value.value is not None for value in found.values.values()):
        charts["ranking"] = ranking_chart(found)
    if any(value.curve for value in found.values.values()):
        charts["prd-curves"] = prd_chart(found)
    if found.turn_metrics:
        charts["distributions"] = distribution_chart(found)
    if any(pair.value is not None for pair in found.metric_correlations.values()):
        charts["metric-correlations"] = metric_correlation_chart(found)
    if any(pair.value is not None for pair in found.human_correlations.values()):
        charts["human-correlations"] = human_correlation_chart(found)
    quality = found.main_quality
    if quality and any(pair.n for (_, name), pair in found.human_correlations.items() if name == quality):
        charts["scatter"] = scatter_chart(found, quality)
    return charts


def full_names(found: Digest) -> dict[str, str]:
    """Return what stands shortened in the charts, and the full name of each."""
    words = (word for quality in found.qualities for word in quality.split())
    metrics, systems = shortened_from(found.turn_metrics, METRIC_PLACES), shortened_from(found.systems)
    return {**shortened_from(words, WORD_PLACES), **metrics, **systems}


def write_charts(result: Result, folder: Path) -> list[Path]:
    """Write every chart of the report as SVG and PNG and delete those of another result; return the files."""
    charts = all_charts(digest(result))
    folder.mkdir(parents=True, exist_ok=True)
    for file in FILES:
        (folder / file).unlink(missing_ok=True)
    return [save_chart(chart, folder / f"{name}{suffix}") for name, chart in charts.items() for suffix in SUFFIXES]


# --- the rows that each chart draws ---------------------------------------------------------------------


def _panel(found: Digest, key: str) -> str:
    return f"{key} {ARROWS[found.better[key]]}".strip()


def _ranked(found: Digest, key: str) -> list[Record]:
    panel, places = _panel(found, key), found.places[key]
    pairs = [(system, found.values.get((system, key))) for system in found.systems]
    known = [(system, v, v.value) for system, v in pairs if v is not None and v.value is not None]
    known.sort(key=lambda item: item[2] if found.better[key] is False else -item[2])
    rows: list[Record] = []
    for rank, (system, v, value) in enumerate(known):
        ends = f" ({interval(v.low, v.high, places)})" if v.low is not None else ""
        label = f"{system}: {number(value, places)}{ends}, n = {v.n:,}"
        rows.append({"panel": panel, "kind": "value", "system": system, "rank": rank, "value": value,
                     "low": v.low, "high": v.high, "label": label})  # fmt: skip
    reach = [end for _, v, value in known for end in (value, v.low, v.high) if end is not None]
    return [*rows, frame(panel, min(reach), max(reach))] if reach else []


def _histograms(found: Digest, key: str) -> list[Record]:
    scores, places, panel = found.scores[key], found.places[key], _panel(found, key)
    present = ~np.isnan(scores)
    edges = bin_edges(scores[present])
    by_system = [scores[(found.system_of == place) & present] for place in range(len(found.systems))]
    counts = [np.histogram(values, edges)[0] for values in by_system]
    tallest = max(float((tally / max(tally.sum(), 1)).max()) for tally in counts)
    rows = [frame(panel, float(scores[present].min()), float(scores[present].max()))]
    for place, (system, values, tally) in enumerate(zip(found.systems, by_system, counts, strict=True)):
        band = {"panel": panel, "system": system, "bottom": place + 1}
        for count, start, end in zip(tally.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if count:
                between = f"{number(start, places)} to {number(end, places)}"
                label = f"{system}: {count:,} of {counted(values.size, 'turn')} at {between}"
                top = place + 1 - 0.86 * count / values.size / tallest
                rows.append({**band, "kind": "bar", "start": start, "end": end, "top": top, "label": label})
        if values.size:
            median = float(np.median(values))
            label = f"{system}: median {number(median, places)} of {counted(values.size, 'turn')}"
            rows.append({**band, "kind": "median", "start": median, "top": place + 0.14, "label": label})
    return rows


def _scatter_title(found: Digest, key: str, quality: str) -> str:
    return f"{_panel(found, key)} · ρ {number(found.human_correlations[key, quality].value, 2)}"


def _scatter_rows(found: Digest, key: str, quality: str, panel: str) -> list[Record]:
    points, places = found.points[key, quality], found.places[key]
    scores, ratings = points.scores, points.ratings
    if scores.size == 0:
        return []
    low, high = float(scores.min()), float(scores.max())
    rows = [frame(panel, low, high)]
    every = -(-scores.size // MOST_POINTS)
    together = zip(found.names_of(points), scores.tolist(), ratings.tolist(), strict=True)
    for (name, number_of), score, rating in list(together)[::every]:
        system = found.systems[number_of]
        label = f"{name} ({system}): {key} {number(score, places)}, {quality} {number(rating, 2)}"
        rows.append({"panel": panel, "kind": "point", "system": system, "score": score, "rating": rating,
                     "label": label})  # fmt: skip
    if low < high and scores.size > 2:
        slope, level = np.polyfit(scores - low, ratings, 1).tolist()
        # The line ends where the ratings do, so that no axis runs past the rating scale.
        steps = np.linspace(low, high, 101)
        heights = level + slope * (steps - low)
        inside = (heights >= ratings.min()) & (heights <= ratings.max())
        ends = np.flatnonzero(inside)[[0, -1]] if inside.any() else ()
        rows += [
            {"panel": panel, "kind": "line", "score": float(steps[end]), "rating": float(heights[end])} for end in ends
        ]
    return rows


def _curves(found: Digest, key: str, panel: str) -> list[Record]:
    rows: list[Record] = []
    for system in found.systems:
        value = found.values.get((system, key))
        if value is None or not value.curve:
            continue
        label = f"{system}: {key} {number(value.value, 3)}, n = {value.n:,}"
        for step, (recall, precision) in enumerate(value.curve):
            rows.append({"panel": panel, "kind": "point", "system": system, "step": step, "recall": recall,
                         "precision": precision, "label": label})  # fmt: skip
    return rows
