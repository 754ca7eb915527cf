"""Write files that are there whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from turnwise.errors import TurnwiseError


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, for a file or a folder, and rename it to `path` at the end.

    After an error the temporary file is removed and an earlier `path` is as it was. Missing parent folders are made.
    A link is followed; a device such as /dev/stdout, which cannot be replaced, is yielded itself.
    """
    target = Path(path).resolve()
    if target.exists() and not (target.is_file() or target.is_dir()):
        yield target
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    # Unique, so that two processes that write the same file do not write into each other's.
    partial = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
    try:
        yield partial
        if partial.is_file():
            with partial.open("rb+") as written:
                os.fsync(written.fileno())
        partial.replace(target)
    except BaseException:
        shutil.rmtree(partial) if partial.is_dir() else partial.unlink(missing_ok=True)
        raise


def write_text(path: str | Path, text: str | Iterable[str]) -> Path:
    """Write a text, or its parts one after the other, as UTF-8, and return the path."""
    try:
        with atomic(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines([text] if isinstance(text, str) else text)
    except OSError as problem:
        raise TurnwiseError(f"{path}: cannot be written ({problem.strerror}); choose another place") from None
    return Path(path)


def write_json(path: str | Path, value: Any, *, indent: int | None = 2) -> Path:
    """Write a value as JSON with a line break at the end, and return the path."""
    return write_text(path, json.dumps(value, indent=indent, ensure_ascii=False) + "\n")
