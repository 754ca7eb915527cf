"""Drawing figures: points, bars or lines from rows with x, y and a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnwise.reproduce.cells import Figure

if TYPE_CHECKING:
    import altair as alt

WIDTH, HEIGHT = 420, 260
LONG_NAME, MOST_ABREAST = 24, 6


def chart(figure: Figure) -> alt.TopLevelMixin:
    """The chart of a figure; rows that name a panel are drawn side by side."""
    import altair as alt

    from turnwise.report.drawing import data_of, styled
    from turnwise.report.palette import SYSTEMS, light

    rows = [dict(row) for row in figure.rows]
    groups = list(dict.fromkeys(str(row["group"]) for row in rows))
    colours = [light(name) for name in SYSTEMS]
    shades = [colours[place % len(colours)] for place in range(len(groups))]
    # Long names stand one below the other, short ones in a line.
    abreast = 1 if max(map(len, groups), default=0) > LONG_NAME else MOST_ABREAST
    look = (
        alt.Legend(title=None, orient="top", columns=abreast, columnPadding=14, labelLimit=400)
        if len(groups) > 1
        else None
    )
    colour = alt.Color("group:N", scale=alt.Scale(domain=groups, range=shades), legend=look)
    panelled = any("panel" in row for row in rows)
    base = alt.Chart() if panelled else alt.Chart(data_of(rows), width=WIDTH, height=HEIGHT)
    drawn = _layer(base, figure, colour)
    if not panelled:
        return styled(drawn)  # type: ignore[no-any-return]
    sized = alt.layer(drawn, data=data_of(rows)).properties(width=WIDTH // 2, height=HEIGHT * 3 // 4)
    named = list(dict.fromkeys(row["panel"] for row in rows))
    faceted = sized.facet(alt.Facet("panel:N", sort=named, title=None), columns=2 if len(named) in (2, 4) else 3)
    if figure.look != "bars":  # bars are dodged by a scale that panels must share
        faceted = faceted.resolve_scale(x="independent", y="independent" if figure.look == "points" else "shared")
    return styled(faceted)  # type: ignore[no-any-return]


def _layer(base: alt.Chart, figure: Figure, colour: alt.Color) -> Any:
    import altair as alt

    y = alt.Y("y:Q", title=figure.y, scale=alt.Scale(zero=figure.look == "bars"))
    if figure.look == "bars":
        x = alt.X("x:N", title=figure.x, sort=None, axis=alt.Axis(labelAngle=-30, labelLimit=160, labelOverlap=False))
        return base.mark_bar().encode(x=x, xOffset=alt.XOffset("group:N", sort=None), y=y, color=colour)
    x_scale = alt.X("x:Q", title=figure.x, scale=alt.Scale(zero=False))
    if figure.look == "lines":
        return base.mark_line(point=True).encode(x=x_scale, y=y, color=colour, detail=alt.Detail("group:N"))
    return base.mark_point(filled=True, size=28, opacity=0.6).encode(x=x_scale, y=y, color=colour)
