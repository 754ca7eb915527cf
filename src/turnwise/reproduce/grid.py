"""A filled table as rows and columns of text, with numbered footnotes: what Markdown and HTML both show."""

from __future__ import annotations

from dataclasses import dataclass, field

from turnwise.reproduce.cells import Cell, Table

# The sign of a cell that beats what it stands beside.
ABOVE = "▲"
NAMES = {"corpus": "corpus", "level": "level", "quality": "quality", "metric": "metric", "statistic": "statistic"}


@dataclass
class Footnotes:
    """Remarks, each said once and numbered in order of appearance; one that begins with a sign is marked by it."""

    texts: list[str] = field(default_factory=list)
    signs: dict[str, str] = field(default_factory=dict)

    def mark(self, text: str) -> str:
        """What stands at the cell for a remark.

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
    """One cell as text: ours (a dash where there is none), its interval, the published number, the footnotes."""

    ours: str
    interval: str
    published: str
    same: bool
    marks: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """The table as it is shown; a place where nothing was published and nothing computed is None."""

    stub: list[str]
    columns: list[str]
    rows: list[tuple[list[str], list[Shown | None]]]
    footnotes: list[str]
    signs: dict[str, str]


def grid(table: Table) -> Grid:
    """Rows and columns in the order in which their cells come."""
    notes = Footnotes()
    columns = list(dict.fromkeys(_part(cell, table.across) for cell in table.cells))
    places: dict[tuple[str, ...], dict[tuple[str, ...], Shown]] = {}
    for cell in table.cells:
        places.setdefault(_part(cell, table.down), {})[_part(cell, table.across)] = _shown(cell, notes)
    # A part that is the same in all columns says nothing in a heading.
    told = [place for place in range(len(table.across)) if len({column[place] for column in columns}) > 1]
    headings = [" · ".join(filter(None, (column[place] for place in told))) or "value" for column in columns]
    rows = [(list(row), [cells.get(column) for column in columns]) for row, cells in places.items()]
    return Grid([NAMES[name] for name in table.down], headings, rows, notes.texts, notes.signs)


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
