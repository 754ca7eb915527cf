"""The table of metrics, read off the metrics themselves: for `turnwise list` and for the documentation."""

from __future__ import annotations

import dataclasses

from turnwise.metrics.registry import Entry, entries, lesser_form, load_metric


def catalogue(offered: frozenset[str] | None = None) -> list[dict[str, str]]:
    """One record per registered name; with the roles that some models offer, also those that a metric lacks there."""
    if offered is None:
        return [_record(entry) for entry in entries().values()]
    return [_record(entry) | _answered(entry.name, offered) for entry in entries().values()]


def _answered(name: str, offered: frozenset[str]) -> dict[str, str]:
    """What a metric lacks of some models, and the form of it that does without."""
    return {"lacks": ", ".join(lacking(name, offered)), "instead": lesser_form(load_metric(name), offered) or ""}


def lacking(request: str, offered: frozenset[str]) -> list[str]:
    """The roles that a metric asks and that are not offered; none where it can be computed.

    >>> lacking("length", frozenset()), lacking("usr-mlm", frozenset()), lacking("nup", frozenset({"nup"}))
    ([], ['masked-lm'], [])
    """
    return sorted(load_metric(request).roles - offered)


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
