"""The command line: parse, call a verb, print. Nothing is computed here."""

from __future__ import annotations

import sys
from contextlib import suppress

from turnwise.cli.streams import end_quietly, for_people
from turnwise.errors import TurnwiseError

# What shells report of a command whose reader has gone (`| head`).
READER_GONE = 141


def main() -> None:
    """Entry point of the `turnwise` command; exit statuses are part of the interface."""
    for_people()
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
        _tell(str(problem))
        return 2
    except KeyboardInterrupt as problem:
        # A session notes what it has kept.
        _tell("; ".join(["interrupted", *getattr(problem, "__notes__", ())]))
        return 130
    except OSError as problem:
        return _unwritten(problem)
    except Exception:
        # Status 1 is that of a gate, and nobody's mistake but ours may look like one.
        import traceback

        _tell(f"this is a fault of turnwise; please report it:\n{traceback.format_exc().rstrip()}")
        return 2


def _unwritten(problem: OSError) -> int:
    if isinstance(problem, BrokenPipeError):
        return READER_GONE
    place = problem.filename or "the output"
    _tell(f"{place}: cannot be read or written ({problem.strerror or problem}); check the place and its space")
    return 2


def _tell(line: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"turnwise: {line}\n")
