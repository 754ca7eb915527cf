"""How often Python looks for objects that hold each other: seldom, while millions of plain ones come and go."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Every look goes through all rows that are kept, and turns make no such objects: it took a third of the time.
SELDOM = (100_000, 50, 1_000)


@contextmanager
def seldom_swept() -> Iterator[None]:
    """Look less often within the block; whoever looks less often still is left alone."""
    before = gc.get_threshold()
    # Nought means never.
    if 0 < before[0] < SELDOM[0]:
        gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
