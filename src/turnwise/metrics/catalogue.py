"""The table of metrics, read off the metrics themselves: for `turnwise list` and for the documentation."""

from __future__ import annotations

import dataclasses

from turnwise.metrics.registry import Entry, entries


def catalogue() -> list[dict[str, str]]:
    """One record per registered name."""
    return [_record(entry) for entry in entries().values()]


def _record(entry: Entry) -> dict[str, str]:
    cls = entry.cls
    low, high = cls.range
    direction = {True: "higher is better", False: "lower is better", None: "no direction"}
    return {
        "name": entry.name,
        "summary": cls.summary,
        "level": cls.level,
        "needs": ", ".join(["response", *sorted(cls.needs)]),
        "models": ", ".join(sorted(cls.roles)),
        "modes": ", ".join(cls.modes),
        "options": _options(entry),
        "direction": direction[cls.higher_is_better],
        "range": f"{low:g} to {high:g}",
        "cite": cls.cite,
    }


def _options(entry: Entry) -> str:
    hidden = {"name", "mode", *entry.preset}
    shown = []
    for option in dataclasses.fields(entry.cls):
        if option.name not in hidden:
            default = str(option.default).lower() if isinstance(option.default, bool) else option.default
            shown.append(f"{option.name}={default}")
    return ", ".join(shown)
