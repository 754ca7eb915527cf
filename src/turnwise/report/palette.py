"""Every colour of the report, once: charts are drawn in the light ones, and the page swaps them by name."""

from __future__ import annotations

Rgb = tuple[int, int, int]

# name: (light, dark). First the page's own colours, then those of the charts.
PAGE = {
    "page": ("#f7f6f3", "#111316"),
    "surface": ("#ffffff", "#191c20"),
    "raised": ("#faf9f7", "#20242a"),
    "ink": ("#20262d", "#e6e8eb"),
    "muted": ("#59636d", "#a5aeb8"),
    "line": ("#e2e1dc", "#2f353c"),
    "accent": ("#1d5a9e", "#7db7fa"),
    "accent-soft": ("#e8f0f9", "#1c2c40"),
    "warn": ("#97400b", "#f2a164"),
    "warn-soft": ("#fcf1e8", "#33241a"),
    "mark": ("#d5e3f3", "#27405e"),
}
# How surprising a word is, in steps; text in the page's ink stays legible on all of them.
HEAT = {
    "heat-1": ("#fcebd9", "#36291d"),
    "heat-2": ("#f8d3ab", "#533618"),
    "heat-3": ("#f2b173", "#754614"),
    "heat-4": ("#e68a3c", "#9a560c"),
}
# The light colours are all different, so that a drawn colour leads back to its name.
INK = {
    "chart-ink": ("#20262d", "#e6e8eb"),
    "chart-muted": ("#5c6670", "#a2abb5"),
    "chart-grid": ("#e4e6e8", "#30363d"),
    "chart-surface": ("#ffffff", "#191c20"),
    "chart-on-strong": ("#fdfdfd", "#0e1114"),
    "chart-empty": ("#f3f3f1", "#23272c"),
}
# Told apart by people with the common colour-vision deficiencies too, at three to one against the surface.
SYSTEMS = {
    f"chart-system-{number}": pair
    for number, pair in enumerate(
        [
            ("#2f6db5", "#6ea8ee"),
            ("#c8641b", "#f09a56"),
            ("#23856d", "#52c2a3"),
            ("#a8447c", "#e488bb"),
            ("#6f55b5", "#ab97f0"),
            ("#7d6c1c", "#d0b94f"),
            ("#2189a3", "#5cc4de"),
            ("#9c4a3c", "#e08d7d"),
            ("#55606e", "#a9b4c2"),
            ("#4d7f2e", "#93c76b"),
        ]
    )
}
# Correlations, from minus one through nothing to one. The three steps at either end are strong: they take light
# figures by day and dark ones at night, and between them and the weak steps there is a jump, so that both can be read.
STEPS = 13
STRONG_STEPS = 3
Shades = tuple[str, str, str]
_NEUTRAL = ("#f0efec", "#2a2e33")
# end, least strong, least weak: for minus, then for plus; by day, then at night.
_MINUS: tuple[Shades, Shades] = (("#8f3a08", "#b0551d", "#e3a878"), ("#f7ac72", "#cf8248", "#764a2a"))
_PLUS: tuple[Shades, Shades] = (("#174f8d", "#3c70ae", "#93b8e2"), ("#8ec2ff", "#5f95d3", "#2f5680"))


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


def _half(shades: Shades, neutral: str) -> list[str]:
    end, strong, weak = shades
    return ramp((end, strong), STRONG_STEPS) + ramp((weak, neutral), STEPS // 2 + 1 - STRONG_STEPS)


def _diverging(theme: int) -> list[str]:
    minus, plus = _half(_MINUS[theme], _NEUTRAL[theme]), _half(_PLUS[theme], _NEUTRAL[theme])
    return minus + plus[-2::-1]


DIVERGING = {f"chart-step-{number}": pair for number, pair in enumerate(zip(_diverging(0), _diverging(1), strict=True))}
ALL: dict[str, tuple[str, str]] = {**INK, **SYSTEMS, **DIVERGING}
# The edges between the steps of the correlation scale.
EDGES = [round(-1 + 2 * edge / STEPS, 4) for edge in range(1, STEPS)]
STRONG = EDGES[-STRONG_STEPS]


def light(name: str) -> str:
    """The colour that charts are drawn in."""
    return ALL[name][0]


def names_by_light() -> dict[str, str]:
    """Which name a drawn colour stands for."""
    return {pair[0]: name for name, pair in ALL.items()}


def stylesheet() -> str:
    """The colours as CSS custom properties. Paper is always light."""
    dark = _declarations(dark=True)
    return (
        f":root{{color-scheme:light;{_declarations(dark=False)}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}"
        f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}"
    )


def _declarations(*, dark: bool) -> str:
    return "".join(f"--{name}:{pair[dark]};" for name, pair in {**PAGE, **HEAT, **ALL}.items())
