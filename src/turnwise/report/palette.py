"""Every colour of the report, once: charts are drawn in the light ones, and the page swaps them by name."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib.resources import files

Rgb = tuple[int, int, int]
Pairs = dict[str, tuple[str, str]]
_COLOURS = tomllib.loads((files("turnwise.report") / "assets/palette.toml").read_text(encoding="utf-8"))


def _pairs(name: str) -> Pairs:
    return {colour: (day, night) for colour, (day, night) in _COLOURS[name].items()}


# Light and dark by name: first the page's own colours, then those of the charts.
PAGE, HEAT, INK, SYSTEMS = map(_pairs, ("page", "heat", "ink", "systems"))
STEPS = 13
STRONG_STEPS = 3


def _rgb(colour: str) -> Rgb:
    return (int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16))


def ramp(anchors: tuple[str, ...], steps: int) -> list[str]:
    """Colours at even distances along a line through the anchors.

    >>> ramp(("#000000", "#ffffff"), 3)
    ['#000000', '#808080', '#ffffff']
    """
    points = [_rgb(anchor) for anchor in anchors]
    colours = []
    for step in range(steps):
        place = step / (steps - 1) * (len(points) - 1)
        left = min(int(place), len(points) - 2)
        mixed = [round(a + (b - a) * (place - left)) for a, b in zip(points[left], points[left + 1], strict=True)]
        colours.append("#" + "".join(f"{part:02x}" for part in mixed))
    return colours


def _half(shades: Sequence[str], neutral: str) -> list[str]:
    end, strong, weak = shades
    return ramp((end, strong), STRONG_STEPS) + ramp((weak, neutral), STEPS // 2 + 1 - STRONG_STEPS)


def _diverging(theme: int) -> list[str]:
    of = _COLOURS["correlations"]
    minus, plus = (_half(of[side][theme], of["neutral"][theme]) for side in ("minus", "plus"))
    return minus + plus[-2::-1]


DIVERGING = {f"chart-step-{number}": pair for number, pair in enumerate(zip(_diverging(0), _diverging(1), strict=True))}
ALL: Pairs = {**INK, **SYSTEMS, **DIVERGING}
# The edges between the steps of the correlation scale.
EDGES = [round(-1 + 2 * edge / STEPS, 4) for edge in range(1, STEPS)]
STRONG = EDGES[-STRONG_STEPS]


def light(name: str) -> str:
    """Return the colour that charts are drawn in."""
    return ALL[name][0]


def names_by_light() -> dict[str, str]:
    """Return which name a drawn colour stands for."""
    return {pair[0]: name for name, pair in ALL.items()}


def stylesheet() -> str:
    """Return the colours as CSS custom properties. Paper is always light."""
    dark = _declarations(dark=True)
    return (
        f":root{{color-scheme:light;{_declarations(dark=False)}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}"
        f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}"
    )


def _declarations(*, dark: bool) -> str:
    return "".join(f"--{name}:{pair[dark]};" for name, pair in {**PAGE, **HEAT, **ALL}.items())
