"""Answers that outlive a run: one SQLite file, safe to kill at any moment and to share between processes."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

from turnwise.errors import TurnwiseError, TurnwiseWarning
from turnwise.models.requests import Facts, decode_answer, encode_answer

FILE = "answers.sqlite"
DEFAULT_LIMIT = 2 * 1024**3
AT_ONCE = 500
PATIENCE = 60.0
# What sqlite says of a file that is no whole database; all else that can go wrong leaves the file as good as it was.
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)

DTYPES: dict[str, np.dtype[Any]] = {"f4": np.dtype("<f4"), "f8": np.dtype("<f8")}
Encode = Callable[[Any], tuple[Facts, npt.NDArray[Any]]]
Decode = Callable[[Facts, npt.NDArray[Any]], Any]


class Cache:
    """Answers by key, for any thread. When the file outgrows `limit` bytes, the oldest answers go."""

    def __init__(self, folder: str | Path, limit: int = DEFAULT_LIMIT) -> None:
        self.path, self.limit = Path(folder) / FILE, limit
        self.set_aside: Path | None = None
        self._lock = RLock()
        try:
            # Answers hold words of the texts that were judged, which are nobody else's to read.
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            raise TurnwiseError(
                f"`cache={folder}`: cannot be created ({problem.strerror}); give a folder or 'off'"
            ) from None
        try:
            self._database = self._open()
        except sqlite3.Error as problem:
            if not _is_damage(problem):
                said = f"cannot be used ({problem}); give another folder or 'off'"
                raise TurnwiseError(f"`cache={folder}`: {said}") from None
            self._start_again()

    def _open(self) -> sqlite3.Connection:
        """The database. Of processes that make it at once, sqlite turns some away without waiting: they come again."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return self._opened()
            except sqlite3.OperationalError as problem:
                if "locked" not in str(problem) or time.monotonic() > until:
                    raise
            time.sleep(0.02)

    def _opened(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            database.execute("PRAGMA auto_vacuum = INCREMENTAL")
            database.execute("PRAGMA journal_mode = WAL")
            # The file stays whole when the process dies; only a power cut may take the last answers.
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute(
                "CREATE TABLE IF NOT EXISTS answers (number INTEGER PRIMARY KEY, key BLOB UNIQUE, value BLOB)"
            )
            # A file that can only be read says so here, not when the first answers are there.
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
        except sqlite3.Error:
            database.close()
            raise
        return database

    def _start_again(self) -> None:
        """Put a damaged file out of the way, so that nothing is lost that somebody may want to look at."""
        with suppress(AttributeError, sqlite3.Error):
            self._database.close()
        self.set_aside = self.path.with_suffix(f".damaged-{int(time.time())}-{os.getpid()}")
        with suppress(FileNotFoundError):
            self.path.replace(self.set_aside)
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        self._database = self._open()

    @contextmanager
    def _mended(self) -> Iterator[None]:
        """One thread at a time; a damaged page found half-way costs the cache, not the run."""
        with self._lock:
            try:
                yield
            except sqlite3.Error as problem:
                if not _is_damage(problem):
                    said = f"{problem}; give another folder with `cache`, or 'off'"
                    raise TurnwiseError(f"cache {self.path}: {said}") from None
                self._start_again()

    def get(self, keys: Iterable[bytes], decode: Decode = decode_answer) -> dict[bytes, Any]:
        """The answers that are there. A damaged one counts as absent and will be computed again."""
        asked, found = list(keys), {}
        with self._mended():
            for start in range(0, len(asked), AT_ONCE):
                part = asked[start : start + AT_ONCE]
                marks = ",".join("?" * len(part))
                rows = self._database.execute(f"SELECT key, value FROM answers WHERE key IN ({marks})", part)  # noqa: S608
                for key, value in rows:
                    if (answer := unpack_answer(value, decode)) is not None:
                        found[bytes(key)] = answer
        return found

    def put(self, answers: Mapping[bytes, Any], encode: Encode = encode_answer) -> None:
        """Keep answers, all or none of them."""
        rows = [(key, pack_answer(answer, encode)) for key, answer in answers.items()]
        with self._mended():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self._database.executemany("INSERT OR REPLACE INTO answers (key, value) VALUES (?, ?)", rows)
                self._shrink()
                self._database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._database.execute("ROLLBACK")
                raise

    def _shrink(self) -> None:
        size, pages, free = (
            self._database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_size", "page_count", "freelist_count")
        )
        if size * (pages - free) <= self.limit:
            return
        # A quarter at a time, so that a full cache is not shrunk again at every batch.
        self._database.execute(
            "DELETE FROM answers WHERE number <= (SELECT (3 * MIN(number) + MAX(number)) / 4 FROM answers)"
        )
        self._database.execute("PRAGMA incremental_vacuum").fetchall()

    def __len__(self) -> int:
        with self._lock:
            return int(self._database.execute("SELECT COUNT(*) FROM answers").fetchone()[0])

    def close(self) -> None:
        """Give the file back."""
        with self._lock:
            self._database.close()


def _is_damage(problem: sqlite3.Error) -> bool:
    # The lowest byte is the kind of error; the rest says more closely which.
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF in DAMAGE


def open_cache(where: str | Path | None) -> Cache | None:
    """The cache in a folder, the user's own where None is given, and none at all where it is "off"."""
    if where == "off":
        return None
    if where is not None:
        return Cache(where)
    # Nobody asked for this one, so a home that cannot be written to costs time and nothing else.
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Cache(Path(base) / "turnwise")
    except (TurnwiseError, RuntimeError) as problem:
        reason = str(problem).replace("`cache=", "").replace("`:", ":").partition(";")[0]
        said = f"answers of models are not kept: {reason}; give a folder with `cache`"
        warnings.warn(said, TurnwiseWarning, stacklevel=2)
        return None


def pack_answer(answer: Any, encode: Encode = encode_answer) -> bytes:
    """Return an answer as bytes: checksum, header, numbers. Numbers come back exactly as they were."""
    facts, numbers = encode(answer)
    facts = {**facts, "dtype": numbers.dtype.str[1:], "shape": numbers.shape}
    if facts["dtype"] not in DTYPES:
        raise TypeError(f"answers of {numbers.dtype} cannot be cached")
    header = json.dumps(facts, separators=(",", ":")).encode("ascii")
    body = struct.pack("<I", len(header)) + header + numbers.astype(DTYPES[facts["dtype"]], copy=False).tobytes()
    return struct.pack("<I", zlib.crc32(body)) + body


def unpack_answer(content: bytes, decode: Decode = decode_answer) -> Any:
    """Return the answer that `pack_answer` wrote, or None if the bytes are damaged."""
    if len(content) < 8 or struct.unpack_from("<I", content)[0] != zlib.crc32(content[4:]):
        return None
    size = struct.unpack_from("<I", content, 4)[0]
    facts = json.loads(content[8 : 8 + size])
    numbers = np.frombuffer(content, dtype=DTYPES[facts["dtype"]], offset=8 + size).reshape(facts["shape"])
    return decode(facts, numbers)
