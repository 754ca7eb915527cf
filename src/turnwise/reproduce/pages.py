"""Everything that a reproduction writes: Markdown, HTML, JSON, and each figure as SVG."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.files import write_text
from turnwise.reproduce.cells import Figure, Made, Table, to_record
from turnwise.reproduce.draw import chart
from turnwise.reproduce.grid import grid
from turnwise.reproduce.markdown import READING, counted, index_page, paper_page, shown_counts
from turnwise.reproduce.room import Room
from turnwise.reproduce.run import Reproduced, file_name, label

if TYPE_CHECKING:
    from markupsafe import Markup


def write_pages(found: Sequence[Reproduced], room: Room, out: Path) -> list[Path]:
    """All pages; the index lists what was asked for this time."""
    said = about(room)
    written = []
    for one in found:
        name = one.paper.name
        drawings = {file_name(made): _svg(made, out) for made in one.made if isinstance(made, Figure)}
        written += [
            write_text(out / f"{name}.md", paper_page(one, said)),
            write_text(out / f"{name}.html", _html(one, said, drawings)),
            write_text(out / f"{name}.json", json.dumps(document([one]), indent=1, allow_nan=False) + "\n"),
        ]
    if len(found) > 1:
        written.append(write_text(out / "index.md", index_page(found, said)))
        links = [(one.paper.name, one.paper.title, shown_counts(one)) for one in found]
        written.append(write_text(out / "index.html", _render("Reproduced", [said], [], links)))
    return written


def publish(source: Path, target: Path) -> list[str]:
    """Copy a run's Markdown, JSON and figures into `target` in place of those of the same papers; return their names.

    Pages of other papers stay. HTML pages, and what a run keeps to resume, are not copied.
    """
    names = sorted(page.stem for page in source.glob("*.md"))
    for name in names:
        for old in (target / "figures").glob(f"{name}-*.svg"):
            old.unlink()
        for pattern in (f"{name}.md", f"{name}.json", f"figures/{name}-*.svg"):
            for file in sorted(source.glob(pattern)):
                write_text(target / file.relative_to(source), file.read_text(encoding="utf-8"))
    return names


def document(found: Sequence[Reproduced]) -> dict[str, Any]:
    """The JSON document of `turnwise reproduce --format json`."""
    return {
        "papers": [
            {"paper": one.paper.name, "title": one.paper.title, "made": [to_record(made) for made in one.made]}
            for one in found
        ]
    }


def about(room: Room) -> str:
    """What the numbers were computed with, in one line."""
    from turnwise import __version__
    from turnwise.models.pack import load_models

    source = load_models(room.models)
    manifest = getattr(source, "manifest", None)
    # The hash says which weights these were: a version may have seen a role replaced.
    label = source.label(source.roles) if manifest else ""
    named = f"{manifest.name} {manifest.version} ({label})" if manifest else getattr(source, "name", "")
    models = "the papers' own models" if room.papers_models else f"the models {named}"
    sample = "" if room.limit is None else f" A sample only: {room.limit} contexts of each corpus."
    return f"Computed by turnwise {__version__} with {models}.{sample}"


def _svg(figure: Figure, out: Path) -> str:
    if figure.why_not or not figure.rows:
        return ""
    from turnwise.report.drawing import to_svg

    text = to_svg(chart(figure))
    write_text(out / "figures" / f"{file_name(figure)}.svg", text)
    return text


def _html(one: Reproduced, said: str, drawings: dict[str, str]) -> str:
    lines = [said, READING.replace("*", ""), *one.paper.notes, *counted(one)]
    blocks = [_block(made, drawings) for made in one.made]
    return _render(one.paper.title, lines, blocks, [])


def _block(made: Made, drawings: dict[str, str]) -> dict[str, Any]:
    from markupsafe import Markup

    from turnwise.report.drawing import inline_svg

    name = file_name(made)
    block: dict[str, Any] = {
        "name": name,
        "short": label(made),
        "title": f"{label(made)}: {made.title}",
        "notes": made.notes,
    }
    block |= {"svg": "", "grid": None, "why_not": ""}
    if isinstance(made, Table):
        return block | {"grid": grid(made)}
    if drawings.get(name):
        drawn = Markup(inline_svg(drawings[name], name, made.title))  # noqa: S704 - built as XML
        return block | {"svg": drawn}
    return block | {"why_not": made.why_not or "there is nothing to draw"}


def _render(title: str, lines: Sequence[str], blocks: Sequence[Any], links: Sequence[Any]) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from turnwise.report import palette

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters["spoken"] = _spoken
    template = environment.from_string(files("turnwise.reproduce").joinpath("page.html.j2").read_text(encoding="utf-8"))
    colours = Markup(palette.stylesheet())  # noqa: S704 - our own
    return template.render(title=title, lines=lines, blocks=blocks, links=links, colours=colours)


def _spoken(text: str) -> Markup:
    """What stands between backticks in a remark, as code."""
    from markupsafe import Markup

    plain, code = Markup("{}"), Markup("<code>{}</code>")
    parts = [(code if place % 2 else plain).format(part) for place, part in enumerate(text.split("`"))]
    return Markup("").join(parts)
