"""Keep answers after a run: one SQLite file, safe to kill at any moment and to share between processes."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import struct
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import count
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
# Errors of SQLite for which the system or the caller is the cause. All others come from damage in the file.
NOT_DAMAGE = frozenset(
    getattr(sqlite3, f"SQLITE_{name}")
    for name in "PERM BUSY LOCKED NOMEM READONLY INTERRUPT IOERR FULL CANTOPEN PROTOCOL NOLFS AUTH MISUSE".split()
)
DIGEST, MOST_MOVES = 8, 20

DTYPES: dict[str, np.dtype[Any]] = {"f4": np.dtype("<f4"), "f8": np.dtype("<f8")}
Encode = Callable[[Any], tuple[Facts, npt.NDArray[Any]]]
Decode = Callable[[Facts, npt.NDArray[Any]], Any]


class Cache:
    """Hold answers by key, for any thread. When the file outgrows `limit` bytes, the oldest answers are deleted.

    If keeping fails, for example on a full disk, a cache that is not `required` warns once and keeps nothing more.
    """

    def __init__(self, folder: str | Path, limit: int = DEFAULT_LIMIT, *, required: bool = True) -> None:
        self.folder, self.limit, self.required = Path(folder), limit, required
        self.set_aside: Path | None = None
        self._lock, self._moves = RLock(), 0
        self._database: sqlite3.Connection | None = None
        try:
            # Answers hold words of the texts that were judged, so nobody else may read them.
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path = self._current()
            self._database = self._open()
        except (OSError, sqlite3.Error) as problem:
            raise TurnwiseError(_unusable(folder, problem)) from None

    def _current(self) -> Path:
        """Return the first database of the folder that is not marked as damaged.

        A damaged file keeps its name, because other processes may still have it open: SQLite would delete the
        journal of a new file of the same name when they close theirs.
        """
        names = (FILE if number == 0 else FILE.replace(".", f"-{number}.") for number in count())
        return next(self.folder / name for name in names if not _mark(self.folder / name).exists())

    def _open(self) -> sqlite3.Connection:
        """Open the current database, after damage the next one.

        SQLite rejects some of the processes that create a file at once. Those try again.
        """
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return self._opened()
            except sqlite3.Error as problem:
                if self._is_damage(problem):
                    self._move_on()
                elif "locked" not in str(problem) or time.monotonic() > until:
                    raise
                else:
                    time.sleep(0.02)

    def _opened(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            database.text_factory = bytes  # A damaged type must not fail to decode as text.
            database.execute("PRAGMA auto_vacuum = INCREMENTAL")
            database.execute("PRAGMA journal_mode = WAL")
            # The file stays whole when the process dies. Only a power cut may take the last answers.
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute(
                "CREATE TABLE IF NOT EXISTS answers (number INTEGER PRIMARY KEY, key BLOB UNIQUE, value BLOB)"
            )
            # A file that can only be read fails here, and not when the first answers are ready.
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
            database.execute("SELECT number, key, value FROM answers LIMIT 1").fetchone()
        except sqlite3.Error:
            with suppress(sqlite3.Error):
                database.close()
            raise
        return database

    def _is_damage(self, problem: sqlite3.Error) -> bool:
        """Return whether the file is damaged, as opposed to a full disk or a missing right."""
        code = getattr(problem, "sqlite_errorcode", None)
        if code is None:  # Raised by the module itself, as after closing.
            return False
        if code == sqlite3.SQLITE_IOERR_SHORT_READ:
            return True
        # The lowest byte is the kind of error. A file is also read-only if its header names a later format.
        if code & 0xFF == sqlite3.SQLITE_READONLY:
            with suppress(OSError), self.path.open("rb") as file:
                return max(file.read(20)[18:20], default=0) > 2
        return code & 0xFF not in NOT_DAMAGE

    def _move_on(self) -> None:
        """Mark the database as damaged and turn to the next one. The last damaged one stays, to be looked at."""
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()
        if self.set_aside is not None:
            # A file that was damaged as soon as it was new is no accident of this file.
            if self._moves == MOST_MOVES:
                raise OSError(f"{MOST_MOVES} files in a row were damaged")
            self._moves += 1
            for suffix in ("", "-wal", "-shm"):
                with suppress(OSError):
                    self.set_aside.with_name(self.set_aside.name + suffix).unlink()
        self.set_aside = self.path
        _mark(self.path).touch()
        self.path = self._current()

    @contextmanager
    def _mended(self) -> Iterator[sqlite3.Connection | None]:
        """Yield the database to one thread at a time, or None if nothing is kept any more.

        Damage costs the cache, never the run.
        """
        with self._lock:
            try:
                try:
                    yield self._database
                except sqlite3.Error as problem:
                    if not self._is_damage(problem):
                        raise
                    self._move_on()
                    self._database = self._open()
            except (OSError, sqlite3.Error) as problem:
                said = f"cache {self.path}: {problem}; give another folder with `cache`, or 'off'"
                if self.required:
                    raise TurnwiseError(said) from None
                warnings.warn(f"answers of models are no longer kept: {said}", TurnwiseWarning, stacklevel=4)
                with suppress(sqlite3.Error):
                    self.close()
                self._database = None

    def get(self, keys: Iterable[bytes], decode: Decode = decode_answer) -> dict[bytes, Any]:
        """Return the answers that are kept. A damaged one counts as absent and is computed again."""
        wanted, found = list(keys), {}
        with self._mended() as database:
            for start in range(0, len(wanted), AT_ONCE):
                if database is None:
                    break
                part = wanted[start : start + AT_ONCE]
                marks = ",".join("?" * len(part))
                rows = database.execute(f"SELECT key, value FROM answers WHERE key IN ({marks})", part)  # noqa: S608
                for key, value in rows:
                    if (answer := unpack_answer(key, value, decode)) is not None:
                        found[key] = answer
        return found

    def put(self, answers: Mapping[bytes, Any], encode: Encode = encode_answer) -> None:
        """Keep answers, all or none of them."""
        rows = [(key, pack_answer(key, answer, encode)) for key, answer in answers.items()]
        with self._mended() as database:
            if database is None:
                return
            database.execute("BEGIN IMMEDIATE")
            try:
                database.executemany("INSERT OR REPLACE INTO answers (key, value) VALUES (?, ?)", rows)
                self._shrink(database)
                database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    database.execute("ROLLBACK")
                raise

    def _shrink(self, database: sqlite3.Connection) -> None:
        size, pages, free = (
            database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")
        )
        if size * (pages - free) <= self.limit:
            return
        # A quarter at a time, so that a full cache is not shrunk again at every batch.
        database.execute(
            "DELETE FROM answers WHERE number <= (SELECT (3 * MIN(number) + MAX(number)) / 4 FROM answers)"
        )
        database.execute("PRAGMA incremental_vacuum").fetchall()

    def __len__(self) -> int:
        number = 0
        with self._mended() as database:
            if database is not None:
                number = int(database.execute("SELECT COUNT(*) FROM answers").fetchone()[0])
        return number

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._database is not None:
                self._database.close()


def damaged_answers(path: Path) -> int:
    """Return how many answers of a database are not as they were written; raise if the file is none."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.text_factory = bytes
            fault = database.execute("PRAGMA integrity_check(1)").fetchone()[0]
            rows = database.execute("SELECT key, value FROM answers")
            damaged = sum(not _is_whole(key, value) for key, value in rows)
    except sqlite3.Error as problem:
        raise TurnwiseError(f"{path}: {problem}; remove the file, and answers are computed again") from None
    return damaged or int(fault != b"ok")


def _is_whole(key: object, value: object) -> bool:
    """Return whether the checksum of an answer fits its key and its bytes."""
    if not isinstance(key, bytes) or not isinstance(value, bytes):
        return False
    return value[:DIGEST] == _digest(key, value[DIGEST:])


def _mark(path: Path) -> Path:
    """Return the file whose presence says that a database is damaged."""
    return path.with_name(path.name + ".damaged")


def _unusable(folder: str | Path, problem: OSError | sqlite3.Error) -> str:
    if isinstance(problem, OSError):
        return f"`cache={folder}`: cannot be created ({problem.strerror or problem}); give a folder or 'off'"
    return f"`cache={folder}`: cannot be used ({problem}); give another folder or 'off'"


def open_cache(where: str | Path | None) -> Cache | None:
    """The cache in a folder, the user's own where None is given, and none at all where it is "off"."""
    if where == "off":
        return None
    if where is not None:
        return Cache(where)
    # Nobody asked for this one, so a home that cannot be written to costs time and nothing else.
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Cache(Path(base) / "turnwise", required=False)
    except (TurnwiseError, RuntimeError) as problem:
        reason = str(problem).replace("`cache=", "").replace("`:", ":").partition(";")[0]
        said = f"answers of models are not kept: {reason}; give a folder with `cache`"
        warnings.warn(said, TurnwiseWarning, stacklevel=2)
        return None


def pack_answer(key: bytes, answer: Any, encode: Encode = encode_answer) -> bytes:
    """Return an answer as bytes: digest, header, numbers. Numbers come back exactly as they were.

    The digest covers the key too: a damaged index finds the answer to another request. Entries of version 0.1,
    whose checksum does not cover it, count as absent.
    """
    facts, numbers = encode(answer)
    facts = {**facts, "dtype": numbers.dtype.str[1:], "shape": numbers.shape}
    if facts["dtype"] not in DTYPES:
        raise TypeError(f"answers of {numbers.dtype} cannot be cached")
    header = json.dumps(facts, separators=(",", ":")).encode("ascii")
    body = struct.pack("<I", len(header)) + header + numbers.astype(DTYPES[facts["dtype"]], copy=False).tobytes()
    return _digest(key, body) + body


def unpack_answer(key: bytes, content: object, decode: Decode = decode_answer) -> Any:
    """Return the answer that `pack_answer` wrote for the key, or None if the bytes are damaged."""
    if not isinstance(content, bytes) or not _is_whole(key, content):
        return None
    try:
        start = DIGEST + 4
        end = start + struct.unpack_from("<I", content, DIGEST)[0]
        facts = json.loads(content[start:end])
        numbers = np.frombuffer(content, dtype=DTYPES[facts["dtype"]], offset=end).reshape(facts["shape"])
        return decode(facts, numbers)
    except Exception:  # A plugin's `decode` may raise anything about an entry that another version wrote.
        return None


def _digest(key: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(key + body, digest_size=DIGEST).digest()
