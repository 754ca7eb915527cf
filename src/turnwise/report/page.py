"""The report as one HTML file: everything it shows is inside it, and nothing in it can run but its own script."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from turnwise.engine.sample import shown_turns
from turnwise.files import write_text
from turnwise.problems import counted
from turnwise.report import palette
from turnwise.report.charts import MOST_POINTS, all_charts, full_names
from turnwise.report.digest import Digest, Turn, digest, file_name
from turnwise.report.drawing import inline_svg, to_svg
from turnwise.report.heat import Heats, heats, most_surprising
from turnwise.report.labels import DIRECTIONS, one_line, printable
from turnwise.report.tables import (
    MOST_CHARACTERS,
    contradictions,
    ends,
    group_table,
    made_of,
    metric_table,
    rating_table,
    shortened,
    unread_rows,
    unscored,
)
from turnwise.report.words import headlines

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
    return write_text(path, render(digest(result), title))


def render(found: Digest, title: str | None = None) -> str:
    """Return the whole page."""
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
        intervals=_interval_facts(found),
        most_points=MOST_POINTS,
    )


def _asset(name: str) -> str:
    return (files("turnwise.report") / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing may be fetched, and only the style and script with these hashes may act."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _default_title(found: Digest) -> str:
    if len(found.files) != 1:
        return f"Evaluation of {counted(len(found.files), 'file')}"
    # Objects and standard input go by a name in angle brackets, which is none to put in a heading.
    (name,) = found.files
    return "Evaluation of conversations" if name.startswith("<") else f"Evaluation of {name}"


def _interval_facts(found: Digest) -> dict[str, Any]:
    """Return which metrics have which kind of interval, and the sizes of the resamples."""
    from turnwise.engine.aggregate import BLOCKS
    from turnwise.stats.subsets import RESAMPLES as SUBSETS

    special = {
        "pooled": found.based_on("pooled turns"),
        "grouped": found.based_on("groups"),
        "whole": found.based_on("whole system"),
    }
    means = sum(map(len, special.values())) < len(found.metrics)
    sizes = {"blocks": BLOCKS, "subsets": SUBSETS}
    return {name: ", ".join(keys) for name, keys in special.items()} | {"means": means} | sizes


# --- the turns that travel inside the page, as JSON that its script reads ------------------------------


def chosen_turns(found: Digest) -> NDArray[np.intp]:
    """Return which turns the page holds: all, or the ends of every metric and every so many of the rest."""
    return shown_turns({key: found.scores[key] for key in found.turn_metrics}, len(found.turns))


def turns_json(found: Digest, chosen: NDArray[np.intp], heats: Heats) -> str:
    """JSON that may stand inside a script element: no text in it can end that element."""
    texts = _Texts()
    columns = {key: column for column, key in enumerate(found.judging_turns)}
    turns = [
        _turn(found, found.turns[position], texts) | _heat(heats, position, columns) for position in chosen.tolist()
    ]
    document = {
        "metrics": [
            {
                "key": key,
                "better": found.better[key],
                "places": found.turn_places[key],
                **({"steps": heats.steps[key]} if key in heats.steps else {}),
            }
            for key in found.judging_turns
        ],
        "qualities": list(found.qualities),
        "systems": list(found.systems),
        "texts": texts.lists,
        "turns": turns,
    }
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


class _Texts:
    """Lists of texts, each kept once: many systems answer the same context."""

    def __init__(self) -> None:
        self.lists: list[list[str]] = []
        self.places: dict[tuple[str, ...], int] = {}

    def place(self, texts: tuple[str, ...]) -> int:
        if texts not in self.places:
            self.places[texts] = len(self.lists)
            self.lists.append([shortened(text) for text in texts])
        return self.places[texts]


def _turn(found: Digest, turn: Turn, texts: _Texts) -> dict[str, Any]:
    example = turn.example
    notes = {key: one_line(str(note)) for key in found.judging_turns if (note := turn.scores[key].note)}
    ratings = [example.ratings.get(quality, ()) for quality in found.quality_labels]
    return {
        "id": one_line(turn.row.id),
        "at": f"{file_name(turn.row.file)}, line {turn.row.line}",
        "s": turn.system,
        "c": texts.place(example.context),
        "r": shortened(example.response),
        "ref": texts.place(example.references),
        "f": texts.place(example.facts),
        "x": [_short(turn.scores[key].value) for key in found.judging_turns],
        "p": [[_short(rating) for rating in given] for given in ratings],
        "who": [one_line(rater) for rater in example.raters],
        "whole": example.rated == "dialogue",
        "n": notes,
        **({"d": printable(example.dialogue_id)} if example.dialogue_id is not None else {}),
    }


def _heat(heats: Heats, position: int, columns: Mapping[str, int]) -> dict[str, Any]:
    """Return what each word of the response cost, by the metrics that say so: plain text, or text with its number."""
    shown = [
        [
            [columns[key] for key in keys],
            [piece.text if piece.cost is None else [piece.text, round(piece.cost, 2)] for piece in pieces],
            most_surprising(pieces),
        ]
        for keys, pieces in heats.of(position)
    ]
    return {"h": shown} if shown else {}


def _short(value: float | None) -> float | None:
    """Six digits are more than anybody reads, and make the page a third smaller."""
    return None if value is None or not np.isfinite(value) else float(f"{value:.6g}")
