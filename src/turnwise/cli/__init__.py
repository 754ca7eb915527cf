"""The command line: parse, call a verb, print. Nothing is computed here."""

from __future__ import annotations

import os
import sys

from turnwise.errors import TurnwiseError


def main() -> None:
    """Entry point of the `turnwise` command; exit statuses are part of the interface."""
    try:
        from turnwise.cli.app import run

        sys.exit(run())
    except TurnwiseError as problem:
        sys.stderr.write(f"turnwise: {problem}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("turnwise: interrupted; what models have answered is kept, so run the same again to go on\n")
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); what is left in the buffer has nowhere to go.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        sys.exit(0)
