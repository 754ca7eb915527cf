"""Tables that are made from the code itself: those of the metrics and of the formats.

They stand in the pages between markers, so that the pages can be read as they are. `python docs/hooks.py` writes
them anew, building the site does so too, and a test holds them to the code.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from turnwise.io.base import format_table
from turnwise.metrics.registry import list_metrics

TABLES = {"metrics": list_metrics, "formats": format_table}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the current table between each pair of markers."""
    for name, rows in TABLES.items():
        table = f"<!-- {name} -->\n\n{as_table(rows())}\n\n<!-- /{name} -->"
        pattern = re.compile(f"<!-- {name} -->.*<!-- /{name} -->", re.DOTALL)
        markdown = pattern.sub(lambda _, table=table: table, markdown)
    return markdown


def as_table(rows: list[dict[str, str]]) -> str:
    """Records as a Markdown table."""
    head = list(rows[0])
    lines = [head, ["---"] * len(head), *([_cell(row[name]) for name in head] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    for page in Path(__file__).parent.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        if (new := on_page_markdown(text)) != text:
            page.write_text(new, encoding="utf-8")
