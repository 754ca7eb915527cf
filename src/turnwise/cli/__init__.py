"""The command line: parse, call a verb, print. Nothing is computed here."""

from __future__ import annotations

import shlex
import sys
import warnings
from contextlib import suppress
from typing import Any

from turnwise import interrupts
from turnwise.cli.streams import end_quietly, for_people
from turnwise.errors import TurnwiseError, TurnwiseWarning

# What shells report of a command whose reader has gone (`| head`).
READER_GONE = 141
SHOW_WARNING = warnings.showwarning


def main() -> None:
    """Entry point of the `turnwise` command; exit statuses are part of the interface."""
    interrupts.install()
    for_people()
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    status = _status()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as problem:
        # What failed before, above all a gate, stays what is said.
        status = status or _unwritten(problem)
        end_quietly()
    sys.exit(status)


def _status() -> int:
    try:
        from turnwise.cli.app import run

        return run()
    except TurnwiseError as problem:
        from turnwise.cli.options import in_flags

        _tell(in_flags(str(problem)))
        return 2
    except KeyboardInterrupt as problem:
        # A session notes what it has kept.
        _tell("; ".join(["interrupted", *getattr(problem, "__notes__", ()), again()]))
        return interrupts.status()
    except OSError as problem:
        return _unwritten(problem)
    except Exception:
        # Status 1 is that of a gate, and nobody's mistake but ours may look like one.
        import traceback

        _tell(f"this is a fault of turnwise; please report it:\n{traceback.format_exc().rstrip()}")
        return 2


def again() -> str:
    """Return how to repeat the command of this process."""
    return f"to resume: {shlex.join(['turnwise', *sys.argv[1:]])}"


def _show_warning(message: Warning | str, category: type[Warning], *place: Any) -> None:
    if issubclass(category, TurnwiseWarning):
        from turnwise.cli.options import in_flags

        _tell(in_flags(str(message)), "note")
    else:
        SHOW_WARNING(message, category, *place)


def _unwritten(problem: OSError) -> int:
    if isinstance(problem, BrokenPipeError):
        return READER_GONE
    place = problem.filename or "the output"
    _tell(f"{place}: cannot be read or written ({problem.strerror or problem}); check the place and its space")
    return 2


def _tell(line: str, who: str = "turnwise") -> None:
    with suppress(OSError):
        sys.stderr.write(f"{who}: {line}\n")
