"""What a reproduction writes: Markdown, HTML, JSON, and each figure as SVG."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack

from turnwise.analyses.targets import check_targets
from turnwise.files import write_text
from turnwise.options import Run, RunOptions
from turnwise.reproduce.cells import Cell, Figure, Made, Table, to_record
from turnwise.reproduce.run import Reproduced, Told, check_numbers, file_name, label, papers, reproduce
from turnwise.reproduce.workspace import Workspace

if TYPE_CHECKING:
    import altair as alt
    from markupsafe import Markup

# The sign of a cell that beats what it stands beside.
ABOVE = "▲"


@dataclass
class Footnotes:
    """Remarks, each said once and numbered in order of appearance; one that begins with a sign is marked by it."""

    texts: list[str] = field(default_factory=list)
    signs: dict[str, str] = field(default_factory=dict)

    def mark(self, text: str) -> str:
        """Return what stands at the cell for a remark.

        >>> notes = Footnotes()
        >>> [notes.mark(text) for text in ("one", f"{ABOVE} two", "three", "one")], notes.texts, notes.signs
        (['1', '▲', '2', '1'], ['one', 'three'], {'▲': 'two'})
        """
        sign, _, rest = text.partition(" ")
        if sign == ABOVE:
            self.signs[sign] = rest
            return sign
        if text not in self.texts:
            self.texts.append(text)
        return str(self.texts.index(text) + 1)


@dataclass(frozen=True, slots=True)
class Shown:
    """Hold one cell as text: ours (a dash where there is none), its interval, the published number, the footnotes."""

    ours: str
    interval: str
    published: str
    same: bool
    marks: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """Hold a table as it is shown; a cell without a published and a computed number is None."""

    stub: list[str]
    columns: list[str]
    rows: list[tuple[list[str], list[Shown | None]]]
    footnotes: list[str]
    signs: dict[str, str]


def reproduce_paper(
    paper: str,
    data: str | Path,
    out: str | Path = "reproduced",
    *,
    tables: Sequence[str] = (),
    limit: int | None = None,
    tell: Told = lambda _: None,
    **options: Unpack[RunOptions],
) -> list[Reproduced]:
    """Compute the tables and figures of a paper, and write the pages into a folder.

    Args:
        paper: The name of a paper, or `all`.
        data: The folder of corpora.
        out: The folder of the pages.
        tables: The numbers of the tables to make; default: all.
        limit: How many contexts of each corpus to use; default: all.
        tell: A function that gets a line after each table.
        options: The options of a run, by name: see `turnwise.options.RunOptions`.

    Returns:
        What was made, paper by paper: tables and figures, cell by cell.

    >>> import turnwise as tw
    >>> tw.reproduce_paper("usr", "corpora", tables=["99"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    turnwise.errors.TurnwiseError: `tables`: there is no '99'; there are: 1, 2, ...
    """
    run, folder = Run.of(**options), Path(out)
    wanted, backend = papers([paper]), run.backend
    check_targets(folder=folder)
    check_numbers(wanted, tables)
    # Corpora that are made from others belong to their authors as these do, and stay out of what people pass on.
    with TemporaryDirectory(prefix="turnwise-") as work:
        space = Workspace(Path(data), Path(work), backend.models, backend.device, backend.cache, run.seed, limit)
        found = reproduce(wanted, space, folder, only=tables, tell=tell)
        write_pages(found, space, folder)
    return found


def grid(table: Table) -> Grid:
    """Return rows and columns in the order of their cells."""
    notes = Footnotes()
    columns = list(dict.fromkeys(_part(cell, table.across) for cell in table.cells))
    places: dict[tuple[str, ...], dict[tuple[str, ...], Shown]] = {}
    for cell in table.cells:
        places.setdefault(_part(cell, table.down), {})[_part(cell, table.across)] = _shown(cell, notes)
    # A part that is the same in all columns says nothing in a heading.
    told = [place for place in range(len(table.across)) if len({column[place] for column in columns}) > 1]
    headings = [" · ".join(filter(None, (column[place] for place in told))) or "value" for column in columns]
    rows = [(list(row), [cells.get(column) for column in columns]) for row, cells in places.items()]
    return Grid(list(table.down), headings, rows, notes.texts, notes.signs)


def _part(cell: Cell, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(getattr(cell.key, name) for name in names)


def _shown(cell: Cell, notes: Footnotes) -> Shown:
    ours = cell.ours
    said = [*(f"not computable, because {ours.why_not}" for _ in [0] if ours.value is None), *ours.notes, *cell.notes]
    marks = tuple(dict.fromkeys(notes.mark(text) for text in said))
    decimals = len(cell.published.partition(".")[2]) if cell.published else 3
    decimals = 0 if cell.key.statistic.startswith("count") else min(max(decimals, 2), 4)
    value = "—" if ours.value is None else f"{ours.value:.{decimals}f}"
    interval = "" if ours.low is None or ours.high is None else f"[{ours.low:.2f}, {ours.high:.2f}]"
    return Shown(value, interval, cell.published or "", cell.same, marks)


WIDTH, HEIGHT = 420, 260
LONG_NAME, MOST_ABREAST = 24, 6


def chart(figure: Figure) -> alt.TopLevelMixin:
    """Return the chart of a figure; rows that name a panel are drawn side by side."""
    import altair as alt

    from turnwise.report.drawing import data_of, styled
    from turnwise.report.palette import SYSTEMS, light

    rows = [dict(row) for row in figure.rows]
    groups = list(dict.fromkeys(str(row["group"]) for row in rows))
    colours = [light(name) for name in SYSTEMS]
    shades = [colours[place % len(colours)] for place in range(len(groups))]
    # Long names stand one below the other, short ones in a line.
    abreast = 1 if max(map(len, groups), default=0) > LONG_NAME else MOST_ABREAST
    look = (
        alt.Legend(title=None, orient="top", columns=abreast, columnPadding=14, labelLimit=400)
        if len(groups) > 1
        else None
    )
    colour = alt.Color("group:N", scale=alt.Scale(domain=groups, range=shades), legend=look)
    panelled = any("panel" in row for row in rows)
    base = alt.Chart() if panelled else alt.Chart(data_of(rows), width=WIDTH, height=HEIGHT)
    drawn = _layer(base, figure, colour)
    if not panelled:
        return styled(drawn)  # type: ignore[no-any-return]
    sized = alt.layer(drawn, data=data_of(rows)).properties(width=WIDTH // 2, height=HEIGHT * 3 // 4)
    named = list(dict.fromkeys(row["panel"] for row in rows))
    faceted = sized.facet(alt.Facet("panel:N", sort=named, title=None), columns=2 if len(named) in (2, 4) else 3)
    if figure.look != "bars":  # bars are dodged by a scale that panels must share
        faceted = faceted.resolve_scale(x="independent", y="independent" if figure.look == "points" else "shared")
    return styled(faceted)  # type: ignore[no-any-return]


def _layer(base: alt.Chart, figure: Figure, colour: alt.Color) -> Any:
    import altair as alt

    y = alt.Y("y:Q", title=figure.y, scale=alt.Scale(zero=figure.look == "bars"))
    if figure.look == "bars":
        x = alt.X("x:N", title=figure.x, sort=None, axis=alt.Axis(labelAngle=-30, labelLimit=160, labelOverlap=False))
        return base.mark_bar().encode(x=x, xOffset=alt.XOffset("group:N", sort=None), y=y, color=colour)
    x_scale = alt.X("x:Q", title=figure.x, scale=alt.Scale(zero=False))
    if figure.look == "lines":
        return base.mark_line(point=True).encode(x=x_scale, y=y, color=colour, detail=alt.Detail("group:N"))
    return base.mark_point(filled=True, size=28, opacity=0.6).encode(x=x_scale, y=y, color=colour)


READING = (
    "Every cell is *ours* / *published*. Brackets hold the 95 % interval of ours (bootstrap over contexts). **Bold** "
    "means that ours equals the published number to every printed digit. A dash means that there is no number of ours, "
    "and its footnote gives the reason."
)


def paper_page(found: Reproduced, about: str) -> str:
    """Return the page of a paper."""
    blocks = [f"# {found.paper.title}", about, READING, *introduction(found)]
    blocks += [_block(made) for made in found.made]
    return "\n\n".join(blocks) + "\n"


def introduction(found: Reproduced) -> list[str]:
    """Return the paper's notes, how many published numbers are computed here, and where all of ours are."""
    published, filled, same = found.counts()
    line = f"Of {published:,} published numbers, {filled:,} are computed here; {same:,} come out the same."
    every = f"`turnwise reproduce {found.paper.name} --format json` prints every number in full, with its n and metric."
    return [*found.paper.notes, *([line] if published else []), every]


def index_page(found: Sequence[Reproduced], about: str) -> str:
    """Return the page that leads to the others."""
    lines = [
        "# Reproduced",
        "",
        about,
        "",
        "| page | published numbers | computed | the same |",
        "|---|---:|---:|---:|",
    ]
    lines += [f"| [{one.paper.title}]({one.paper.name}.md) | {' | '.join(shown_counts(one))} |" for one in found]
    return "\n".join(lines) + "\n"


def shown_counts(found: Reproduced) -> list[str]:
    """Return the counts of a page, dashes for the leaderboard, which repeats published numbers for each metric."""
    counts = found.counts()
    return [f"{count:,}" if counts[0] else "—" for count in counts]


def _block(made: Made) -> str:
    return _table(made) if isinstance(made, Table) else _figure(made)


def _table(table: Table) -> str:
    shown = grid(table)
    lines = [f"## {label(table)}: {table.title}", ""]
    lines += [f"{note}\n" for note in table.notes]
    lines.append(_line([*shown.stub, *shown.columns]))
    lines.append("|" + "---|" * len(shown.stub) + "---:|" * len(shown.columns))
    lines += [_line([*names, *map(_cell, cells)]) for names, cells in shown.rows]
    lines += ["", *(f"{sign} {text}" for sign, text in shown.signs.items())] if shown.signs else []
    lines += ["", *(f"{number}. {text}" for number, text in enumerate(shown.footnotes, 1))] if shown.footnotes else []
    return "\n".join(lines)


def _cell(cell: Shown | None) -> str:
    if cell is None:
        return ""
    ours = f"**{cell.ours}**" if cell.same else cell.ours
    both = f"{ours} {cell.interval}".strip() + (f" / {cell.published}" if cell.published else "")
    return both + (f" <sup>{', '.join(cell.marks)}</sup>" if cell.marks else "")


def _figure(figure: Figure) -> str:
    head = f"## {label(figure)}: {figure.title}"
    notes = "\n\n".join(figure.notes)
    if figure.why_not:
        return "\n\n".join(filter(None, [head, f"Not computable, because {figure.why_not}.", notes]))
    return "\n\n".join(filter(None, [head, f"![{figure.title}](figures/{file_name(figure)}.svg)", notes]))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def write_pages(found: Sequence[Reproduced], space: Workspace, out: Path) -> list[Path]:
    """Write all pages and an index of them; return their files."""
    said = about(space)
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
    """Copy a run's Markdown and figures into `target` in place of those of the same papers; return their names.

    Of the JSON only summaries are copied. Pages of other papers stay.
    """
    names = sorted(page.stem for page in source.glob("*.md"))
    for name in names:
        for old in (target / "figures").glob(f"{name}-*.svg"):
            old.unlink()
        for file in [source / f"{name}.md", *sorted(source.glob(f"figures/{name}-*.svg"))]:
            write_text(target / file.relative_to(source), file.read_text(encoding="utf-8"))
        if (summary := source / "tables" / f"{name}-summary.json").is_file():
            write_text(target / f"{name}-summary.json", summary.read_text(encoding="utf-8"))
    return names


def document(found: Sequence[Reproduced]) -> dict[str, Any]:
    """Return the JSON document of `turnwise reproduce --format json`."""
    return {
        "papers": [
            {"paper": one.paper.name, "title": one.paper.title, "made": [to_record(made) for made in one.made]}
            for one in found
        ]
    }


def about(space: Workspace) -> str:
    """Return the version, models and sample that the numbers were computed with, in one line."""
    from turnwise import __version__
    from turnwise.models.pack import load_models

    source = load_models(space.models)
    manifest = getattr(source, "manifest", None)
    # The hash says which weights these were: a version may have seen a role replaced.
    label = source.label(source.roles) if manifest else ""
    named = f"{manifest.name} {manifest.version} ({label})" if manifest else getattr(source, "name", "")
    models = "the papers' own models" if space.papers_models else f"the models {named}"
    sample = "" if space.limit is None else f" A sample only: {space.limit} contexts of each corpus."
    return f"Computed by turnwise {__version__} with {models}.{sample}"


def _svg(figure: Figure, out: Path) -> str:
    if figure.why_not or not figure.rows:
        return ""
    from turnwise.report.drawing import to_svg

    text = to_svg(chart(figure))
    write_text(out / "figures" / f"{file_name(figure)}.svg", text)
    return text


def _html(one: Reproduced, said: str, drawings: dict[str, str]) -> str:
    lines = [said, READING.replace("*", ""), *introduction(one)]
    blocks = [_html_block(made, drawings) for made in one.made]
    return _render(one.paper.title, lines, blocks, [])


def _html_block(made: Made, drawings: dict[str, str]) -> dict[str, Any]:
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
    """Return what stands between backticks in a remark, as code."""
    from markupsafe import Markup

    plain, code = Markup("{}"), Markup("<code>{}</code>")
    parts = [(code if place % 2 else plain).format(part) for place, part in enumerate(text.split("`"))]
    return Markup("").join(parts)
