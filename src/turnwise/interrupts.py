"""Stop a run after the unit of work in hand, so that an interrupt leaves nothing half-done.

Within `deferred` the first SIGINT or SIGTERM is noted, and `check`, which work calls between its units, raises
`Interrupted`. A second signal raises at once. Outside of it, and within `at_once`, the first one does too.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


class Interrupted(KeyboardInterrupt):
    """Report a signal that asked the process to stop."""


class _State:
    """What this process was told, and whether it may be stopped right now."""

    def __init__(self) -> None:
        self.depth = 0
        self.open = False
        self.pending = False
        self.seen = False
        self.last = int(signal.SIGINT)


_state = _State()


def status() -> int:
    """Return the exit status of a command that a signal ended: 130 after SIGINT, 143 after SIGTERM."""
    return 128 + _state.last


def handle(number: int, _frame: FrameType | None) -> None:
    """Note the first signal within `deferred`; raise for any other."""
    _state.last = number
    if _state.depth and not _state.open and not _state.pending and not _state.seen:
        _state.pending = True
        return
    _state.seen, _state.pending = True, False
    raise Interrupted


def is_asked() -> bool:
    """Return whether the next `check` will raise."""
    return _state.pending and threading.current_thread() is threading.main_thread()


def check() -> None:
    """Raise `Interrupted` if a signal came since the last unit of work; other threads than the main one go on."""
    if is_asked():
        _state.seen, _state.pending = True, False
        raise Interrupted


def checked(units: Iterable[T]) -> Iterator[T]:
    """Yield units of work, and raise `Interrupted` before the next one if a signal came."""
    for unit in units:
        yield unit
        check()


@contextmanager
def deferred() -> Iterator[None]:
    """Keep a first signal waiting for `check`, or for the end of the block.

    A library call in a notebook or a program gets this for SIGINT too, as long as Python's own handler is in place.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    own = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if own:
        signal.signal(signal.SIGINT, handle)
    before, _state.open = _state.open, False
    _state.depth += 1
    try:
        yield
        if _state.depth == 1:
            check()
    finally:
        _state.depth -= 1
        _state.open = before
        if not _state.depth:
            _state.pending = _state.seen = False
        if own:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def at_once() -> Iterator[None]:
    """Let signals raise at once within the block, as while rows are read, which may wait for a pipe."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, _state.open = _state.open, True
    try:
        check()
        yield
    finally:
        _state.open = before


@contextmanager
def blocked() -> Iterator[None]:
    """Hold all signals back within a block that is too short to be stopped, such as a few renames."""
    if os.name == "nt":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def install() -> None:
    """Take SIGINT and SIGTERM for the command line, unless this process was told to ignore them, as by `nohup`."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
