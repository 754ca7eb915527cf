"""Running a reproduction: table by table, each kept as soon as it is made: a killed run goes on where it was."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from turnwise.errors import TurnwiseError
from turnwise.files import write_text
from turnwise.reproduce.cells import Made, Paper, Spec, Table, from_record, to_record
from turnwise.reproduce.room import Room
from turnwise.reproduce.together import pieces_of, processes_for, run_together

Told = Callable[[str], None]
ALL = "all"
# One module per paper; `all` makes them in this order.
MODULES = ("usr", "usl_h", "maude", "holistic", "fbd", "leaderboard")


@dataclass(frozen=True)
class Reproduced:
    """A paper with everything that was made of it."""

    paper: Paper
    made: tuple[Made, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables alone."""
        return tuple(made for made in self.made if isinstance(made, Table))

    def counts(self) -> tuple[int, int, int]:
        """Published cells, how many of them have a number of ours, and how many of these are the same."""
        published = [cell for table in self.tables for cell in table.cells if cell.published and not cell.ours.beside]
        filled = [cell for cell in published if cell.ours.value is not None]
        return len(published), len(filled), sum(cell.same for cell in filled)


def papers(names: Iterable[str]) -> list[Paper]:
    """The papers of these names; `all` is every one, and the leaderboard."""
    modules = (importlib.import_module(f"turnwise.reproduce.{name}") for name in MODULES)
    known: dict[str, Paper] = {module.PAPER.name: module.PAPER for module in modules}
    found: list[Paper] = []
    for name in names:
        if name != ALL and name not in known:
            raise TurnwiseError(f"'{name}' cannot be reproduced; choose {', '.join(known)} or {ALL}")
        found += [paper for key, paper in known.items() if name in (key, ALL) and paper not in found]
    return found


def reproduce(
    wanted: Sequence[Paper], room: Room, out: Path, *, only: Sequence[str] = (), tell: Told = lambda _: None
) -> list[Reproduced]:
    """Make every table and figure, or take it from an earlier run on the same data, models and program."""
    room.kept = out / "kept"
    missing = [spec for paper in wanted for spec in _specs(paper, only) if _kept(spec, room, out) is None]
    pieces = pieces_of(missing)
    count = processes_for(pieces, room)
    if count > 1:
        run_together(pieces, count, room, out, tell)
    return make_tables(wanted, room, out, only=only, tell=tell)


def make_tables(
    wanted: Sequence[Paper], room: Room, out: Path, *, only: Sequence[str] = (), tell: Told = lambda _: None
) -> list[Reproduced]:
    """The same, in this process alone."""
    done = []
    for paper in wanted:
        made = []
        for spec in _specs(paper, only):
            found = _kept(spec, room, out)
            if found is None:
                tell(f"{paper.name}: {label(spec)}")
            made.append(found or _made(spec, room, out))
        done.append(Reproduced(paper, tuple(made)))
    return done


def check_numbers(wanted: Sequence[Paper], only: Sequence[str]) -> None:
    """Refuse a table that none of the papers has."""
    known = {spec.number: None for paper in wanted for spec in paper.specs}
    for number in only:
        if number not in known:
            raise TurnwiseError(f"--tables: there is no '{number}'; there are: {', '.join(known)}")


def _specs(paper: Paper, only: Sequence[str]) -> list[Spec]:
    return [spec for spec in paper.specs if not only or spec.number in only]


def label(spec: Spec | Made) -> str:
    """How a table or figure is called.

    >>> from turnwise.reproduce.cells import Figure
    >>> label(Figure("usr", "Fig. 2", "", "bars", "", ""))
    'Fig. 2'
    """
    return f"Table {spec.number}" if spec.number.isdecimal() else spec.number


def file_name(spec: Spec | Made) -> str:
    """A name for the file that keeps it.

    >>> from turnwise.reproduce.cells import Figure
    >>> file_name(Figure("usl-h", "Fig. 2", "", "bars", "", ""))
    'usl-h-fig-2'
    """
    return f"{spec.paper}-{spec.number}".lower().replace(". ", "-").replace(" ", "-")


def _file(spec: Spec, out: Path) -> Path:
    return out / "tables" / f"{file_name(spec)}.json"


def _kept(spec: Spec, room: Room, out: Path) -> Made | None:
    """What an earlier run made; None where it is not there, damaged, or of other data or another version."""
    try:
        record = json.loads(_file(spec, out).read_text(encoding="utf-8"))
        return from_record(record) if record.pop("made_from") == room.made_from else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _made(spec: Spec, room: Room, out: Path) -> Made:
    made = spec.made(room)
    record = {"made_from": room.made_from, **to_record(made)}
    write_text(_file(spec, out), json.dumps(record, indent=1) + "\n")
    return made
