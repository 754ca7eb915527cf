"""Several processes at one reproduction: each takes the next piece of work and leaves its tables in the folder.

Two processes with half of the cores each are faster than one with all: much of the work is not the models'.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import Any

from turnwise.models.onnx.session import thread_count
from turnwise.models.pack import Pack, load_models
from turnwise.reproduce.cells import Spec
from turnwise.reproduce.room import Room

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


def pieces_of(specs: Sequence[Spec]) -> list[Piece]:
    """Pieces of work: a paper's tables share much and stay together; each board is a piece, and summaries come last.

    >>> from turnwise.reproduce.cells import TableSpec
    >>> some = [("leaderboard", "summary"), ("leaderboard", "Zhao"), ("leaderboard", "GRADE"), ("usr", "1")]
    >>> pieces_of([TableSpec(*one, "", dict) for one in some])
    [('usr', ('1',)), ('leaderboard', ('GRADE',)), ('leaderboard', ('Zhao',))]
    """
    found: list[Piece] = []
    for paper in ORDER:
        numbers = [spec.number for spec in specs if spec.paper == paper]
        if paper == BOARDS:
            boards = [number for number in numbers if number not in SUMMARIES]
            found += [(paper, (one,)) for one in sorted(boards, key=lambda one: one.startswith(LATE_BOARDS))]
        elif numbers:
            found.append((paper, tuple(numbers)))
    return found


def processes_for(pieces: Sequence[Piece], room: Room) -> int:
    """How many processes are worth while."""
    # Models that may run on a GPU have no use for a second process, and not always room for one.
    most = MOST if isinstance(load_models(room.models), Pack) else 1
    return min(most, thread_count(), len(pieces))


def run_together(pieces: Sequence[Piece], count: int, room: Room, out: Path, tell: Told) -> None:
    """Make the pieces. What a process could not make, and why, is for the caller to find."""
    waiting = deque(pieces)
    workers = _started(count, room, out)
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


def _started(count: int, room: Room, out: Path) -> dict[Connection, BaseProcess]:
    start = multiprocessing.get_context("spawn")
    workers: dict[Connection, BaseProcess] = {}
    with _threads_each(max(1, thread_count() // count)):
        for number in range(count):
            # Each process has a folder of its own for corpora that are made from others.
            work = room.work / f"{number}"
            facts = (room.data, work, room.models, room.device, room.cache, room.seed, room.limit, room.kept)
            ours, theirs = start.Pipe()
            process = start.Process(target=_work, args=(theirs, facts, out), daemon=True)
            process.start()
            theirs.close()  # the process has the only one left, so that its end is heard
            workers[ours] = process
    return workers


def _work(line: Connection, facts: tuple[Any, ...], out: Path) -> None:
    from turnwise.reproduce.run import make_tables, papers

    Thread(target=_end_with_parent, daemon=True).start()
    room = Room(*facts)
    line.send(None)
    while piece := line.recv():
        paper, numbers = piece
        make_tables(papers([paper]), room, out, only=numbers, tell=line.send)
        line.send(None)


def _end_with_parent() -> None:
    """A run that is killed must not go on in secret."""
    if parent := multiprocessing.parent_process():
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _threads_each(count: int) -> Iterator[None]:
    """Processes that are started meanwhile have so many threads."""
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
