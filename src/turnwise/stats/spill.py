"""Keep large, rarely read arrays on disk, so that they need little memory.

Such an array is used like any other. It is mapped to an unnamed file that ends with the process. The system loads the
pages that are read, and `release` frees them.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Arrays of fewer bytes stay in memory; a page is the least that can be freed.
FEWEST_BYTES = 8192
PAGE = mmap.ALLOCATIONGRANULARITY
# Files have this size.
FILE_BYTES = 1 << 26
# Once this many bytes have been read or written, their pages are freed.
MOST_TOUCHED = 1 << 25

_files: list[mmap.mmap] = []
# The end of the last block, and returned blocks by size.
_last_block: dict[str, tuple[mmap.mmap, int]] = {}
_free: dict[int, list[memoryview]] = {}
_touched = 0


def _forget_parent() -> None:
    """Clear the state of a forked process: its parent still writes to the old files."""
    _last_block.clear()
    _free.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)


def to_disk(values: NDArray[Any]) -> NDArray[Any]:
    """Return the same array, on disk if it is large."""
    if values.nbytes < FEWEST_BYTES:
        return values
    away = empty(values.shape[0], values.dtype)
    away[:] = values
    return away


def empty(length: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return a new uninitialised array of one dimension, on disk if it is large."""
    size = length * np.dtype(dtype).itemsize
    if size < FEWEST_BYTES:
        return np.empty(length, dtype)
    # Blocks have few different sizes, so that a returned one fits again.
    whole = max(PAGE, 1 << (size - 1).bit_length())
    given_back = _free.get(whole)
    try:
        piece = given_back.pop() if given_back else _new_block(whole)
    except OSError:
        # The disk is full or not writable.
        return np.empty(length, dtype)
    array: NDArray[Any] = np.frombuffer(piece[:size], dtype)
    weakref.finalize(array, _free.setdefault(whole, []).append, piece).atexit = False
    release(size)
    return array


def release(touched: int) -> None:
    """Count bytes that were read or written, and free all pages after MOST_TOUCHED; their content stays on disk."""
    global _touched
    _touched += touched
    if _touched > MOST_TOUCHED:
        _touched = 0
        # Pages that are shared with a file keep their content. Windows has no such call.
        if hasattr(mmap, "MADV_DONTNEED"):
            for file_map in _files:
                file_map.madvise(mmap.MADV_DONTNEED)


def _new_block(size: int) -> memoryview:
    file_map, start = _last_block.get("last", (None, 0))
    if file_map is None or start + size > len(file_map):
        file_map, start = _new_file(max(size, FILE_BYTES)), 0
    _last_block["last"] = (file_map, start + size)
    return memoryview(file_map)[start : start + size]


def _new_file(size: int) -> mmap.mmap:
    with tempfile.TemporaryFile(prefix="turnwise-") as file:
        # The disk space is reserved first: writing to a page without space would end the process.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
        _files.append(mmap.mmap(file.fileno(), size))
    return _files[-1]
