"""A rendered chart made fit to live inside the page: its colours by name, its identifiers its own."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping

from turnwise.report.palette import names_by_light

SVG = "http://www.w3.org/2000/svg"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def inline_svg(svg: str, name: str, description: str, full_names: Mapping[str, str] | None = None) -> str:
    """The SVG of a chart for the page: theme colours, no inline styles, one image to assistive technology.

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
