"""The report as one HTML file: everything it shows is inside it, and nothing in it can run but its own script."""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from turnwise.errors import TurnwiseError
from turnwise.report import palette
from turnwise.report.charts import MOST_POINTS, all_charts, full_names, to_svg
from turnwise.report.digest import Digest, digest
from turnwise.report.groups import contradictions, group_table
from turnwise.report.heat import heats
from turnwise.report.labels import DIRECTIONS, one_line
from turnwise.report.svg import inline_svg
from turnwise.report.tables import MOST_CHARACTERS, ends, made_of, metric_table, rating_table, unread_rows, unscored
from turnwise.report.turns import chosen_turns, turns_json
from turnwise.report.words import headlines
from turnwise.wording import counted

if TYPE_CHECKING:
    from turnwise.analyses.evaluate import Result

# What a chart says to those who cannot see it.
DESCRIPTIONS = {
    "ranking": "Every system’s value with its interval, one panel per metric.",
    "prd-curves": "Precision against recall for every system, one panel per metric.",
    "distributions": "Histograms of turn scores for every system, one panel per metric.",
    "metric-correlations": "Heat map of the Spearman correlation of every pair of metrics.",
    "human-correlations": "Heat map of the Spearman correlation of every metric with every rated quality.",
    "scatter": "Scores against mean ratings, one panel per metric.",
}
# Rows that could not be read, listed in full up to here.
MOST_UNREAD = 500


def write_report(result: Result, path: Path, *, title: str | None = None) -> Path:
    """Write the report of a result."""
    page = render(digest(result), title)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    except OSError as problem:
        raise TurnwiseError(f"{path}: cannot be written ({problem.strerror}); choose another place") from None
    return path


def render(found: Digest, title: str | None = None) -> str:
    """The whole page."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters["counted"] = counted
    template = environment.from_string(_asset("templates/report.html.j2"))
    style = palette.stylesheet() + _asset("assets/report.css")
    script = _asset("assets/report.js")
    chosen = chosen_turns(found)
    words = heats(found, chosen.tolist(), MOST_CHARACTERS)
    names = full_names(found)
    charts = {
        name: Markup(inline_svg(to_svg(chart), name, DESCRIPTIONS[name], names))  # noqa: S704 - built as XML
        for name, chart in all_charts(found).items()
    }
    return template.render(
        title=one_line(title) if title else _default_title(found),
        policy=_policy(style, script),
        style=Markup(style),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        data=Markup(turns_json(found, chosen, words)),  # noqa: S704 - no < > & left in it
        found=found,
        made=datetime.now().astimezone(),
        headlines=headlines(found),
        metric_table=metric_table(found),
        made_of=made_of(found),
        rating_table=rating_table(found) if found.qualities else None,
        charts=charts,
        ends=ends(found, words),
        group_table=group_table(found),
        contradictions=contradictions(found),
        embedded=len(chosen),
        unread=unread_rows(found)[:MOST_UNREAD],
        unscored=unscored(found),
        directions=DIRECTIONS,
        intervals=_intervals(found),
        most_points=MOST_POINTS,
    )


def _asset(name: str) -> str:
    return (files("turnwise.report") / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing may be fetched, and only the style and script with these hashes may act."""
    rules = (
        "default-src 'none'",
        f"style-src '{_hash(style)}'",
        f"script-src '{_hash(script)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _default_title(found: Digest) -> str:
    if len(found.files) != 1:
        return f"Evaluation of {counted(len(found.files), 'file')}"
    # Objects and standard input go by a name in angle brackets, which is none to put in a heading.
    (name,) = found.files
    return "Evaluation of conversations" if name.startswith("<") else f"Evaluation of {name}"


def _intervals(found: Digest) -> list[str]:
    """How the intervals in this report were made."""
    from turnwise.engine.summarise import BLOCKS
    from turnwise.stats.bootstrap import MANY_CLUSTERS, RESAMPLES
    from turnwise.stats.subsets import RESAMPLES as SUBSETS

    pooled = [key for key in found.metrics if found.pooled[key]]
    whole = [key for key in found.metrics if found.levels[key] == "system"]
    grouped = [key for key in found.metrics if found.levels[key] == "group"]
    said = []
    if len(pooled) + len(whole) + len(grouped) < len(found.metrics):
        said.append(
            "A system’s value is the mean of its turns. Its 95 % interval is a percentile bootstrap with "
            f"{RESAMPLES:,} resamples of whole dialogues, or of whole contexts where turns belong to no dialogue, "
            "because turns of one dialogue are not independent. With more than "
            f"{MANY_CLUSTERS:,} of them the normal interval with the cluster-robust standard error takes its place."
        )
    if pooled:
        said.append(
            f"{', '.join(pooled)}: the value is computed from all turns of a system together, and its 95 % interval "
            f"is a delete-a-block jackknife over at most {BLOCKS} blocks of dialogues or contexts."
        )
    if grouped:
        said.append(
            f"{', '.join(grouped)}: the replies of a group are judged together, and a system’s value is the mean over "
            "its groups. The 95 % interval is a bootstrap over groups, or over the dialogues that they were made from."
        )
    if whole:
        said.append(
            f"{', '.join(whole)}: all responses of a system are compared with all references at once. The 95 % "
            f"interval is normal, its standard error that of a bootstrap without replacement: {SUBSETS:,} times four "
            "fifths of the dialogues or contexts. Such values depend on how many responses there are: compare them "
            "only between systems that answered the same contexts."
        )
    said.append(
        "Intervals that stand apart are a careful sign of a difference. Intervals that overlap do not show that "
        "there is none: “turnwise compare” tests pairs of systems on the contexts that both answered."
    )
    return said
