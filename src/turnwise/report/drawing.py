"""Drawing: panels side by side, heat maps, the common look, and a chart as a file or as a part of the page."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from turnwise.errors import TurnwiseError
from turnwise.files import atomic, write_text
from turnwise.problems import counted
from turnwise.report import palette
from turnwise.report.labels import number, places, short_names, shown_as
from turnwise.report.palette import light, names_by_light
from turnwise.stats.arrays import FloatArray
from turnwise.stats.correlation import Correlation

PANEL_WIDTH = 240
COLUMNS = 3
BINS = 20
# What tells systems apart whose colours are the same.
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")
DASHES: tuple[list[float], ...] = ([1, 0], [6, 3], [2, 2])
# Places for the name of a metric beside a heat map, and for a word of a rated quality above one.
METRIC_PLACES = 22
WORD_PLACES = 15
# In pixels: more than the widest shortened name needs, because what is over the limit is cut at its end.
LABEL_LIMIT = 260
Record = dict[str, Any]
SVG = "http://www.w3.org/2000/svg"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
# What a mark says when it is pointed at.
SAID = alt.Description("label:N")


def data_of(rows: list[Record]) -> alt.InlineData:
    """Rows as the data of a chart: as text, which altair neither checks nor copies value by value."""
    return alt.InlineData(values=json.dumps(rows), format=alt.JsonDataFormat(type="json"))


def marks(kind: str) -> alt.Chart:
    """Return what is drawn of the rows of one kind."""
    return alt.Chart().transform_filter(f"datum.kind === '{kind}'")


def system_colour(systems: Sequence[str], *, legend: bool = False) -> alt.Color:
    """Return one colour per system."""
    colours = [light(name) for name in palette.SYSTEMS]
    shades = [colours[place % len(colours)] for place in range(len(systems))]
    look = system_legend(systems) if legend else None
    return alt.Color("system:N", scale=alt.Scale(domain=list(systems), range=shades), legend=look)


def system_legend(systems: Sequence[str]) -> alt.Legend | None:
    """Whose colour, shape or dashes these are; nothing for one system."""
    if len(systems) < 2:
        return None
    short = short_names(systems)
    # Two long names side by side are as much as a telephone shows.
    columns = max(1, min(4, 64 // (4 + max(map(places, short.values())))))
    return alt.Legend(title=None, orient="top", symbolOpacity=1, columns=columns, labelExpr=shown_as(short))


def repeating(systems: Sequence[str], looks: Sequence[str | list[float]]) -> alt.Scale:
    """Return a shape or a dash for every system: another each time that the colours begin again."""
    worn = [looks[place // len(palette.SYSTEMS) % len(looks)] for place in range(len(systems))]
    return alt.Scale(domain=list(systems), range=worn)


def frame(panel: str, low: float, high: float) -> Record:
    """Return what a panel's horizontal axis must reach: constant values get some space around them."""
    reach = 0.0 if low < high else abs(low) * 0.2 or 0.2
    return {"panel": panel, "kind": "frame", "from": low - reach, "to": high + reach}


def panels(
    layers: Sequence[alt.Chart],
    rows: list[Record],
    titles: Sequence[str],
    *,
    height: int,
    shared_y: bool,
    across: str | None = None,
) -> alt.FacetChart:
    """Layers drawn once for each panel that the rows name, every panel on a horizontal axis of its own."""
    ends = {"x": alt.X("from:Q", title=across), "x2": alt.X2("to:Q")}
    unseen = marks("frame").mark_rule(opacity=0, aria=False, color=light("chart-grid")).encode(**ends)
    header = alt.Header(title=None, labelAnchor="start", labelFontSize=13, labelFontWeight=600, labelPadding=6)
    facet = alt.Facet("panel:N", sort=list(titles), header=header)
    layered = alt.layer(unseen, *layers, data=data_of(rows)).properties(width=PANEL_WIDTH, height=height)
    chart = layered.facet(facet, columns=COLUMNS, spacing=28)
    chart = chart.resolve_scale(x="independent", y="shared" if shared_y else "independent")
    # A shared axis would be drawn once, at the far left; a panel must stand by itself on a narrow screen.
    faceted: alt.FacetChart = styled(chart.resolve_axis(x="independent", y="independent"))
    return faceted


def heat_map(
    cells: Mapping[tuple[str, str], Correlation], *, rows: list[str], columns: list[str], unit: str, show_n: bool
) -> alt.LayerChart:
    """Correlations keyed (row, column), coloured from minus one to one; a dash where nothing can be said."""
    short = short_names(rows if show_n else [*rows, *columns], METRIC_PLACES)
    quiet: dict[str, Any] = {"title": None, "ticks": False, "domain": False, "grid": False, "labelOverlap": False}
    if show_n:
        width = 84
        words = short_names((word for column in columns for word in column.split()), WORD_PLACES)
        # A label that is a list of words is drawn as several lines.
        lines = {column: [words[word] for word in column.split()] for column in columns}
        x_axis = alt.Axis(labelAngle=0, labelExpr=shown_as(lines), **quiet)
    else:
        width = 46
        x_axis = alt.Axis(labelAngle=-40, labelExpr=shown_as(short), **quiet)
    base = alt.Chart(data_of(_cells(cells, unit)), width=alt.Step(width), height=alt.Step(38)).encode(
        x=alt.X("column:N", sort=columns, axis=x_axis, scale=alt.Scale(paddingInner=0.05)),
        y=alt.Y(
            "row:N", sort=rows, axis=alt.Axis(labelExpr=shown_as(short), **quiet), scale=alt.Scale(paddingInner=0.05)
        ),
    )
    shades = alt.Scale(type="threshold", domain=palette.EDGES, range=[light(name) for name in palette.DIVERGING])
    fill = alt.condition(
        "isValid(datum.value)", alt.Color("value:Q", scale=shades, legend=None), alt.value(light("chart-empty"))
    )
    strong = alt.when(f"abs(datum.value) >= {palette.STRONG}").then(alt.value(light("chart-on-strong")))
    ink = strong.otherwise(alt.value(light("chart-ink")))
    squares = base.mark_rect(cornerRadius=3, invalid=None).encode(color=fill, description=SAID)
    texts = [base.mark_text(fontSize=12, dy=-5 if show_n else 0, aria=False).encode(text=alt.Text("text:N"), color=ink)]
    if show_n:
        texts.append(base.mark_text(fontSize=9.5, dy=10, aria=False).encode(text=alt.Text("n:N"), color=ink))
    layered: alt.LayerChart = styled(alt.layer(squares, *texts))
    return layered


def _cells(cells: Mapping[tuple[str, str], Correlation], unit: str) -> list[Record]:
    records = []
    for (row, column), cell in cells.items():
        text = number(cell.value, 2)
        said = f"Spearman {text}" if cell.value is not None else "undefined: too few values, or all the same"
        label = f"{row} and {column}: {said} ({counted(cell.n, unit)})"
        records.append({"row": row, "column": column, "value": cell.value, "text": text, "n": f"n {cell.n:,}",
                        "label": label})  # fmt: skip
    return records


def bin_edges(values: FloatArray) -> FloatArray:
    """Edges of at most BINS or so bins; whole numbers sit in the middle of theirs.

    >>> bin_edges(np.array([1.0, 2.0, 3.0]))
    array([0.5, 1.5, 2.5, 3.5])
    """
    low, high = float(values.min()), float(values.max())
    if high - low > 1 and bool((values == np.round(values)).all()):
        width = max(1, round((high - low + 1) / BINS))
        return np.arange(low - 0.5, high + width, width, dtype=np.float64)
    if low == high:
        reach = max(abs(low) * 0.05, 0.05)
        return np.array([low - reach, low + reach])
    return np.linspace(low, high, BINS + 1)


def styled(chart: Any) -> Any:
    """Return the common look: quiet axes, one typeface."""
    ink, muted, grid = light("chart-ink"), light("chart-muted"), light("chart-grid")
    return (
        chart.configure(font="sans-serif", background=light("chart-surface"), padding=8)
        .configure_axis(
            labelColor=muted, titleColor=muted, labelFontSize=11, titleFontSize=11, titleFontWeight="normal",
            gridColor=grid, domainColor=grid, tickColor=grid, labelPadding=6, labelLimit=LABEL_LIMIT, tickCount=4,
            labelFlush=False, labelOverlap="greedy", labelSeparation=6,
        )
        .configure_view(stroke=None)
        .configure_header(labelColor=ink)
        .configure_legend(labelColor=ink, labelFontSize=12, symbolType="circle", symbolSize=80, labelLimit=LABEL_LIMIT)
    )  # fmt: skip


def to_svg(chart: alt.TopLevelMixin) -> str:
    """Return the chart as SVG text."""
    import vl_convert

    return vl_convert.vegalite_to_svg(_spec(chart), allowed_base_urls=[])


def save_chart(chart: alt.TopLevelMixin, path: Path) -> Path:
    """Write a chart as its suffix says: .svg, .png (twice as fine as the screen) or .json (the specification)."""
    import vl_convert

    suffix = path.suffix.lower()
    if suffix == ".svg":
        write_text(path, to_svg(chart))
    elif suffix == ".png":
        with atomic(path) as partial:
            partial.write_bytes(vl_convert.vegalite_to_png(_spec(chart), scale=2, allowed_base_urls=[]))
    elif suffix == ".json":
        write_text(path, json.dumps(_spec(chart), ensure_ascii=False, indent=1))
    else:
        raise TurnwiseError(f"{path.name}: a chart is written as .svg, .png or .json; choose one of these endings")
    return path


def _spec(chart: alt.TopLevelMixin) -> dict[str, Any]:
    spec: dict[str, Any] = chart.to_dict(validate=False)
    return spec


def inline_svg(svg: str, name: str, description: str, full_names: Mapping[str, str] | None = None) -> str:
    """Return the SVG of a chart for the page: theme colours, no inline styles, one image to assistive technology.

    A name that stands shortened says the full one when it is pointed at, as marks say what they are.
    """
    ET.register_namespace("", SVG)
    root = ET.fromstring(svg)  # noqa: S314 - the text was made by our own renderer a moment ago
    colours = names_by_light()
    background = root.find(f"{{{SVG}}}rect")
    if background is not None:
        root.remove(background)
    for element in root.iter():
        attributes = element.attrib
        # The page's security policy forbids inline styles, and names of elements must not meet other charts'.
        attributes.pop("style", None)
        for key in ("role", "aria-roledescription", "font-family"):
            attributes.pop(key, None)
        if "id" in attributes:
            attributes["id"] = f"{name}-{attributes['id']}"
        for key, value in attributes.items():
            if key in {"fill", "stroke"} and value in colours:
                attributes[key] = f"var(--{colours[value]})"
            elif value.startswith("url(#"):
                attributes[key] = _REFERENCE.sub(rf"url(#{name}-\1)", value)
        if attributes.get("class", "").startswith("mark-group role-axis"):
            attributes.pop("aria-label", None)
        if element.text and full_names and element.text in full_names:
            # Axes let the pointer through to what lies under them.
            attributes |= {"aria-label": full_names[element.text], "pointer-events": "all"}
    root.set("role", "img")
    root.set("aria-label", description)
    return ET.tostring(root, encoding="unicode")
