"""Large arrays that are rarely looked at: they wait on disk, and count little towards the memory of a process.

An array that was set aside is an array like any other. It lies in a file that has no name and ends with the process,
which the system reads in where it is touched; `release` lets go of what was.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Arrays of fewer bytes stay in memory; a page is the least that can be let go.
FEWEST_BYTES = 8192
PAGE = mmap.ALLOCATIONGRANULARITY
# Disk is asked for in stretches of this size.
FILE_BYTES = 1 << 26
# Once so many bytes have been touched, they are let go.
MOST_TOUCHED = 1 << 25

_files: list[mmap.mmap] = []
# The place where a file_map has room, and pieces by size that were given back.
_last_block: dict[str, tuple[mmap.mmap, int]] = {}
_free: dict[int, list[memoryview]] = {}
_touched = 0


def _forget_parent() -> None:
    """In a process that was split off: its parent writes to the old stretches too."""
    _last_block.clear()
    _free.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)


def to_disk(values: NDArray[Any]) -> NDArray[Any]:
    """The same array, on disk if it is large."""
    if values.nbytes < FEWEST_BYTES:
        return values
    away = empty(values.shape[0], values.dtype)
    away[:] = values
    return away


def empty(length: int, dtype: DTypeLike) -> NDArray[Any]:
    """A new array of one dimension, on disk if it is large, with anything in it."""
    size = length * np.dtype(dtype).itemsize
    if size < FEWEST_BYTES:
        return np.empty(length, dtype)
    # Pieces of few different sizes, so that one that was given back fits again.
    whole = max(PAGE, 1 << (size - 1).bit_length())
    given_back = _free.get(whole)
    try:
        piece = given_back.pop() if given_back else _new_block(whole)
    except OSError:
        # There is no room on the disk, or no place to write to.
        return np.empty(length, dtype)
    array: NDArray[Any] = np.frombuffer(piece[:size], dtype)
    weakref.finalize(array, _free.setdefault(whole, []).append, piece).atexit = False
    release(size)
    return array


def release(touched: int) -> None:
    """Say how many bytes were touched: when they become many, all pages are let go. What they hold stays on disk."""
    global _touched
    _touched += touched
    if _touched > MOST_TOUCHED:
        _touched = 0
        # Only where pages are shared with a file does the advice keep their content; Windows has no such advice.
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
        # Room is asked for at once: a page that found none when it is written to would end the process.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
        _files.append(mmap.mmap(file.fileno(), size))
    return _files[-1]
