"""The chart of metrics against the share of answers that were spoilt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnwise.report.labels import decimals, labels, number
from turnwise.report.panels import Record, frame, panels, system_colour

if TYPE_CHECKING:
    import altair as alt

    from turnwise.analyses.perturb import Perturbation


def perturb_chart(result: Perturbation) -> alt.FacetChart:
    """One panel per metric, one line per transform; bars are one standard deviation over the seeds each way."""
    import altair as alt

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
    base = alt.Chart().transform_filter("datum.kind === 'point'")
    across = "share of answers perturbed"
    x = alt.X("ratio:Q", title=across)
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False, padding=8))
    colour = system_colour(transforms, legend=True)
    spread = base.mark_rule(strokeWidth=5, opacity=0.3).encode(
        x=x, y=alt.Y("low:Q", title=None), y2=alt.Y2("high:Q"), color=colour, description=alt.Description("label:N")
    )
    lines = base.mark_line(strokeWidth=2, aria=False).encode(x=x, y=y, color=colour)
    points = base.mark_point(filled=True, size=44, opacity=1).encode(
        x=x, y=y, color=colour, description=alt.Description("label:N")
    )
    return panels([spread, lines, points], rows, list(titles.values()), height=200, shared_y=False, across=across)
