"""Damage files as disks, crashes and people do, repeatably from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[random.Random, bytes], bytes]


def _truncate(rng: random.Random, content: bytes) -> bytes:
    return content[: rng.randrange(len(content))]


def _flip(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 8, 64))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _zero(rng: random.Random, content: bytes) -> bytes:
    start = rng.randrange(len(content))
    size = min(rng.choice((1, 16, 512, 4096)), len(content) - start)
    return content[:start] + bytes(size) + content[start + size :]


def _swap(rng: random.Random, content: bytes) -> bytes:
    """Exchange two blocks, as a lost page does."""
    size = min(rng.choice((16, 512, 4096)), len(content) // 2)
    first, second = sorted(rng.randrange(len(content) // size) * size for _ in range(2))
    changed = bytearray(content)
    changed[first : first + size], changed[second : second + size] = (
        content[second : second + size],
        content[first : first + size],
    )
    return bytes(changed)


def _append(rng: random.Random, content: bytes) -> bytes:
    return content + rng.randbytes(rng.choice((1, 100, 5000)))


KINDS: dict[str, Damage] = {
    "truncate": _truncate,
    "flip": _flip,
    "zero": _zero,
    "swap": _swap,
    "append": _append,
}


def damage(rng: random.Random, folder: Path, donor: Path | None = None) -> str:
    """Damage one file of a folder and return what was done: a kind and the file's name.

    `donor` is a folder with files of the same names, one of which may take the place of ours.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size > 1)
    while True:
        file = rng.choice(files)
        before = file.read_bytes()
        kind = rng.choice([*KINDS, *KINDS, "delete", "foreign"])
        other = None if donor is None else donor / file.relative_to(folder)
        if kind == "delete":
            file.unlink()
            return f"delete {file.name}"
        if kind == "foreign" and (other is None or not other.is_file()):
            continue
        after = other.read_bytes() if kind == "foreign" and other is not None else KINDS[kind](rng, before)
        if after != before:
            file.write_bytes(after)
            return f"{kind} {file.name}"
