"""The chart of precision against recall, for metrics whose value is read off such a curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnwise.report.digest import Digest
from turnwise.report.labels import ARROWS, number
from turnwise.report.panels import DASHES, Record, frame, panels, repeating, system_colour, system_legend

if TYPE_CHECKING:
    import altair as alt


def prd_chart(found: Digest) -> alt.FacetChart:
    """Every system's curve, one panel per metric; a curve nearer to the upper right corner is better."""
    import altair as alt

    keys = list(dict.fromkeys(key for (_, key), value in found.values.items() if value.curve))
    titles = {key: f"{key} {ARROWS[found.better[key]]}".strip() for key in keys}
    rows = [row for key, title in titles.items() for row in (frame(title, 0.0, 1.0), *_points(found, key, title))]
    share = alt.Scale(domain=[0, 1], nice=False)
    curves = (
        alt.Chart()
        .transform_filter("datum.kind === 'point'")
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
            description=alt.Description("label:N"),
        )
    )
    return panels([curves], rows, list(titles.values()), height=220, shared_y=True, across="recall")


def _points(found: Digest, key: str, panel: str) -> list[Record]:
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
