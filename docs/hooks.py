"""Fills the pages that are made from the code itself: the tables of metrics and of formats."""

from __future__ import annotations

from typing import Any

from turnwise.io.formats import format_table
from turnwise.metrics.catalogue import catalogue

TABLES = {"<!-- metrics -->": catalogue, "<!-- formats -->": format_table}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace each marker by its table."""
    for marker, rows in TABLES.items():
        if marker in markdown:
            markdown = markdown.replace(marker, as_table(rows()))
    return markdown


def as_table(rows: list[dict[str, str]]) -> str:
    """Records as a Markdown table."""
    head = list(rows[0])
    lines = [head, ["---"] * len(head), *([_cell(row[name]) for name in head] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
