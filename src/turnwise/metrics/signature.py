"""The signature of a score: one short line that says what made it."""

from __future__ import annotations

from turnwise.metrics.base import Metric
from turnwise.metrics.registry import show_option, usual_options


def signature(request: str, metric: Metric, models: str = "", *, full: bool = False) -> str:
    """Return what determines a metric's numbers, in one line that can be quoted in a paper.

    The short form leaves out the mode and the options that are the usual ones; `full` gives all of them.
    """
    from turnwise import __version__

    options = metric.options()
    if not full:
        usual = usual_options(metric)
        # The scale names the constants.
        hidden = {key for key in options if key in usual and getattr(metric, key) == usual[key]}
        hidden |= {"constants"} if metric.scaled_by else set()
        options = {key: value for key, value in options.items() if key not in hidden}
    facts = [request.partition("[")[0].partition(":")[0]]
    facts += [f"mode:{metric.mode}"] if full or metric.mode != "recommended" else []
    facts += [f"{key}:{show_option(value)}" for key, value in options.items()]
    facts += [f"models:{models}"] if models else []
    facts += [f"scale:{metric.scaled_by}"] if metric.scaled_by else []
    return "|".join([*facts, f"turnwise:{__version__}"])
