"""Making tables one by one, each kept as soon as it is made, in one process or several; a killed run resumes."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import Any

from turnwise.errors import TurnwiseError
from turnwise.files import write_text
from turnwise.models.onnx.session import thread_count
from turnwise.models.pack import Pack, load_models
from turnwise.reproduce.cells import Made, Paper, Spec, Table, from_record, to_record
from turnwise.reproduce.workspace import Workspace

# A paper, and which of its tables.
Piece = tuple[str, tuple[str, ...]]
Told = Callable[[str], None]
MOST = 2
# The longest first, and what asks the models the same questions far apart, so that the second finds the answers.
ORDER = ("usr", "maude", "fbd", "usl-h", "leaderboard", "holistic")
BOARDS, SUMMARIES = "leaderboard", ("summary", "chart")
LATE_BOARDS = ("USR", "Zhao")
# What numbers of threads are read from: our own models', and those of the libraries below numpy.
THREADS = ("TURNWISE_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def pieces_of(tables: Sequence[Made]) -> list[Piece]:
    """Return pieces of work: the tables of a paper together, each board alone; summaries are left for the end.

    >>> some = [("leaderboard", "summary"), ("leaderboard", "Zhao"), ("leaderboard", "GRADE"), ("usr", "1")]
    >>> pieces_of([Table(*one, "") for one in some])
    [('usr', ('1',)), ('leaderboard', ('GRADE',)), ('leaderboard', ('Zhao',))]
    """
    found: list[Piece] = []
    for paper in ORDER:
        numbers = [table.number for table in tables if table.paper == paper]
        if paper == BOARDS:
            boards = [number for number in numbers if number not in SUMMARIES]
            found += [(paper, (one,)) for one in sorted(boards, key=lambda one: one.startswith(LATE_BOARDS))]
        elif numbers:
            found.append((paper, tuple(numbers)))
    return found


def processes_for(pieces: Sequence[Piece], space: Workspace) -> int:
    """Return how many processes to use."""
    # Models that may run on a GPU have no use for a second process, and not always memory for one.
    most = MOST if isinstance(load_models(space.models), Pack) else 1
    return min(most, thread_count(), len(pieces))


def run_together(pieces: Sequence[Piece], count: int, space: Workspace, out: Path, tell: Told) -> None:
    """Make the pieces; the caller makes those that no process could."""
    waiting = deque(pieces)
    workers = _started(count, space, out)
    try:
        while workers:
            ready = wait(list(workers))
            for line in [one for one in workers if one in ready]:
                try:
                    said = line.recv()
                    if said is None:
                        line.send(waiting.popleft() if waiting else None)
                    else:
                        tell(said)
                except (EOFError, OSError):
                    workers.pop(line).join()
    finally:
        for process in workers.values():
            process.terminate()


def _started(count: int, space: Workspace, out: Path) -> dict[Connection, BaseProcess]:
    start = multiprocessing.get_context("spawn")
    workers: dict[Connection, BaseProcess] = {}
    with _threads_each(max(1, thread_count() // count)):
        for number in range(count):
            # Each process has a folder of its own for corpora that are made from others.
            work = space.work / f"{number}"
            facts = (space.data, work, space.models, space.device, space.cache, space.seed, space.limit, space.kept)
            ours, theirs = start.Pipe()
            process = start.Process(target=_work, args=(theirs, facts, out), daemon=True)
            process.start()
            theirs.close()  # the process has the only one left, so that its end is heard
            workers[ours] = process
    return workers


def _work(line: Connection, facts: tuple[Any, ...], out: Path) -> None:

    Thread(target=_end_with_parent, daemon=True).start()
    space = Workspace(*facts)
    line.send(None)
    while piece := line.recv():
        paper, numbers = piece
        make_tables(papers([paper]), space, out, only=numbers, tell=line.send)
        line.send(None)


def _end_with_parent() -> None:
    """End this process with its parent."""
    if parent := multiprocessing.parent_process():
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _threads_each(count: int) -> Iterator[None]:
    """Limit the threads of processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, str(count)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


ALL = "all"
# One module per paper; `all` makes them in this order.
MODULES = ("usr", "uslh", "maude", "holistic", "fbd", "leaderboard")


@dataclass(frozen=True)
class Reproduced:
    """A paper with everything that was made of it."""

    paper: Paper
    made: tuple[Made, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the tables alone."""
        return tuple(made for made in self.made if isinstance(made, Table))

    def counts(self) -> tuple[int, int, int]:
        """Published cells, how many of them have a number of ours, and how many of these are the same."""
        published = [cell for table in self.tables for cell in table.cells if cell.published and not cell.ours.beside]
        filled = [cell for cell in published if cell.ours.value is not None]
        return len(published), len(filled), sum(cell.same for cell in filled)


def papers(names: Iterable[str]) -> list[Paper]:
    """Return the papers of these names; `all` is every one, and the leaderboard."""
    modules = (importlib.import_module(f"turnwise.reproduce.{name}") for name in MODULES)
    known: dict[str, Paper] = {module.PAPER.name: module.PAPER for module in modules}
    found: list[Paper] = []
    for name in names:
        if name != ALL and name not in known:
            raise TurnwiseError(f"'{name}' cannot be reproduced; choose {', '.join(known)} or {ALL}")
        found += [paper for key, paper in known.items() if name in (key, ALL) and paper not in found]
    return found


def reproduce(
    wanted: Sequence[Paper], space: Workspace, out: Path, *, only: Sequence[str] = (), tell: Told = lambda _: None
) -> list[Reproduced]:
    """Make every table and figure, or take it from an earlier run on the same data, models and program."""
    space.kept = out / "kept"
    specs = [(paper, spec) for paper in wanted for spec in _specs(paper, only)]
    missing = [spec.blank for paper, spec in specs if _kept(paper, spec, space, out) is None]
    pieces = pieces_of(missing)
    count = processes_for(pieces, space)
    if count > 1:
        run_together(pieces, count, space, out, tell)
    return make_tables(wanted, space, out, only=only, tell=tell)


def make_tables(
    wanted: Sequence[Paper], space: Workspace, out: Path, *, only: Sequence[str] = (), tell: Told = lambda _: None
) -> list[Reproduced]:
    """Return what `reproduce` returns, made in this process alone."""
    done = []
    for paper in wanted:
        made = []
        for spec in _specs(paper, only):
            found = _kept(paper, spec, space, out)
            if found is None:
                tell(f"{paper.name}: {label(spec.blank)}")
            made.append(found or _made(paper, spec, space, out))
        done.append(Reproduced(paper, tuple(made)))
    return done


def check_numbers(wanted: Sequence[Paper], only: Sequence[str]) -> None:
    """Refuse a table that none of the papers has."""
    known = {spec.blank.number: None for paper in wanted for spec in paper.specs}
    for number in only:
        if number not in known:
            raise TurnwiseError(f"`tables`: there is no '{number}'; there are: {', '.join(known)}")


def _specs(paper: Paper, only: Sequence[str]) -> list[Spec]:
    return [spec for spec in paper.specs if not only or spec.blank.number in only]


def label(made: Made) -> str:
    """Return how a table or figure is called.

    >>> from turnwise.reproduce.cells import Figure
    >>> label(Figure("usr", "Fig. 2", "", "bars", "", ""))
    'Fig. 2'
    """
    return f"Table {made.number}" if made.number.isdecimal() else made.number


def file_name(made: Made) -> str:
    """Return a name for the file that keeps it.

    >>> from turnwise.reproduce.cells import Figure
    >>> file_name(Figure("usl-h", "Fig. 2", "", "bars", "", ""))
    'usl-h-fig-2'
    """
    return f"{made.paper}-{made.number}".lower().replace(". ", "-").replace(" ", "-")


def _file(spec: Spec, out: Path) -> Path:
    return out / "tables" / f"{file_name(spec.blank)}.json"


def _made_from(paper: Paper, space: Workspace) -> str:
    return f"{paper.version}-{space.made_from}"


def _kept(paper: Paper, spec: Spec, space: Workspace, out: Path) -> Made | None:
    """Return what an earlier run made; None where it is not there, damaged, or of other data or another version."""
    try:
        record = json.loads(_file(spec, out).read_text(encoding="utf-8"))
        return from_record(record) if record.pop("made_from") == _made_from(paper, space) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _made(paper: Paper, spec: Spec, space: Workspace, out: Path) -> Made:
    made = spec.made(space)
    record = {"made_from": _made_from(paper, space), **to_record(made)}
    write_text(_file(spec, out), json.dumps(record, indent=1) + "\n")
    return made
