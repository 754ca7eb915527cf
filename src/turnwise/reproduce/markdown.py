"""A reproduction as Markdown pages."""

from __future__ import annotations

from collections.abc import Sequence

from turnwise.reproduce.cells import Figure, Made, Table
from turnwise.reproduce.grid import Shown, grid
from turnwise.reproduce.run import Reproduced, file_name, label

READING = (
    "Every cell is *ours* / *published*; brackets hold the 95 % interval of ours (bootstrap over contexts), **bold** "
    "says that ours is the published number to every printed digit, a dash that there is none, and a footnote why."
)


def paper_page(found: Reproduced, about: str) -> str:
    """The page of a paper."""
    paper = found.paper
    blocks = [f"# {paper.title}", about, READING, *paper.notes, *counted(found)]
    blocks += [_block(made) for made in found.made]
    return "\n\n".join(blocks) + "\n"


def counted(found: Reproduced) -> list[str]:
    """How many published numbers there are and what became of them, where there are any."""
    published, filled, same = found.counts()
    line = f"Of {published:,} published numbers {filled:,} are computed here; {same:,} come out the same."
    return [line] if published else []


def index_page(found: Sequence[Reproduced], about: str) -> str:
    """The page that leads to the others."""
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
    """The counts of a page. The leaderboard repeats what others published beside every metric: nothing to count."""
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
