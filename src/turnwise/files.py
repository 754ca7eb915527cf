"""Write files that are there whole or not at all, in folders that belong to one run at a time.

`atomic` replaces one file or folder. `claim` keeps other runs out of an output folder. `Save` replaces several files of
a folder together: it stages them, writes a list of them, and renames them. Whoever claims the folder next finishes a
listed save and discards an unlisted one, as a database does with its journal.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Self

from turnwise.errors import TurnwiseError
from turnwise.interrupts import blocked
from turnwise.problems import Problem

LOCK = ".turnwise-lock"
STAGE = ".turnwise-save"
LIST = "save.json"
# How every text begins that `sealed` wrote.
SEALED = b'{"sha256": "'


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


def sealed(value: Mapping[str, Any], *, indent: int | None = None) -> str:
    """Return an object as JSON whose first key is the SHA-256 of all text that follows it.

    >>> unsealed(sealed({"a": 1}).encode())
    {'a': 1}
    """
    rest = json.dumps(value, indent=indent)[1:] + "\n"
    return f"{_seal(rest.encode())}{rest}"


def unsealed(content: bytes) -> dict[str, Any]:
    """Return the object that `sealed` wrote; raise a ValueError if any byte differs."""
    size = len(_seal(b""))
    if content[:size] != _seal(content[size:]).encode():
        raise ValueError("its SHA-256 is not the one that it was written with")
    value: dict[str, Any] = json.loads(content)
    del value["sha256"]
    return value


def _seal(rest: bytes) -> str:
    return f'{SEALED.decode()}{hashlib.sha256(rest).hexdigest()}",'


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fault_of(path: Path, sha256: str) -> str:
    """Return what is wrong with a file that should have this hash, or nothing."""
    try:
        return "" if sha256_of(path) == sha256 else "damaged or swapped"
    except FileNotFoundError:
        return "missing"
    except OSError as problem:
        return str(problem.strerror)


@contextmanager
def claim(folder: str | Path) -> Iterator[Path]:
    """Yield a folder that no other run may write to meanwhile; refuse one that another run owns.

    The operating system releases the lock of a process that died, so a dead owner never blocks. What dead runs left
    half-done is finished or removed first.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        lock = _locked(target)
    except OSError as problem:
        raise TurnwiseError(Problem.of("folder.unwritable", str(folder), reason=str(problem.strerror))) from None
    with lock:
        lock.truncate(0)
        lock.write(f"process {os.getpid()} since {datetime.now().astimezone().isoformat(timespec='seconds')}")
        lock.flush()
        try:
            recover(target)
            yield target
        finally:
            with suppress(OSError):
                (target / LOCK).unlink()


def _locked(folder: Path) -> IO[str]:
    """Return the open lock file of a folder, held by this process."""
    path = folder / LOCK
    while True:
        lock = path.open("a+", encoding="utf-8")
        if not _hold(lock):
            lock.seek(0)
            owner = lock.read().strip() or "another process"
            lock.close()
            raise TurnwiseError(Problem.of("folder.owned", str(folder), owner=owner))
        # The owner before may have removed the file between our opening and locking it: then it locks nothing.
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(lock.fileno()).st_ino:
                return lock
        lock.close()


def _hold(file: IO[str]) -> bool:
    """Lock an open file for this process, and return whether that was possible."""
    try:
        try:
            import fcntl
        except ImportError:  # Windows
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class Save:
    """Replace files of a claimed folder together, as a context manager.

    `path(name)` is where to write a new file; `commit` puts all of them in place. Without `commit` nothing changes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.stage = folder, folder / STAGE
        if self.stage.exists():
            shutil.rmtree(self.stage)
        self.stage.mkdir(parents=True)

    def path(self, name: str) -> Path:
        """Return where to write the file that will be called `name` in the folder."""
        path = self.stage / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def commit(self, last: str, remove: Iterable[str] = ()) -> None:
        """Put the new files in place, `last` after all others, and remove files of earlier saves."""
        found = sorted(path.relative_to(self.stage).as_posix() for path in self.stage.rglob("*") if path.is_file())
        names = [*(name for name in found if name != last), last]
        for name in names:
            _sync(self.stage / name)
        gone = [name for name in remove if name not in names]
        write_json(self.stage / LIST, {"names": names, "remove": gone})
        _sync(self.stage)
        with blocked():
            _finish(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        # A listed save is finished by the next run that claims the folder.
        if not is_unfinished(self.folder):
            shutil.rmtree(self.stage, ignore_errors=True)


def recover(folder: Path) -> None:
    """Finish a save that was listed when its run died, and remove what other dead runs left half-written."""
    if (folder / STAGE / LIST).exists():
        _finish(folder)
    shutil.rmtree(folder / STAGE, ignore_errors=True)
    for left in folder.glob(".*.partial"):
        if not _is_alive(left.name.split(".")[-2].partition("-")[0]):
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)


def _is_alive(process: str) -> bool:
    """Return whether a process of this number may still run; if in doubt, it does."""
    if os.name == "nt" or not process.isdecimal():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def is_unfinished(folder: Path) -> bool:
    """Return whether a save of this folder was listed but not finished; the next run that claims it will finish it."""
    return (folder / STAGE / LIST).exists()


def _finish(folder: Path) -> None:
    """Rename the listed files into place. Every step may be repeated, so a second run can finish a first one's save."""
    stage = folder / STAGE
    listed = json.loads((stage / LIST).read_text(encoding="utf-8"))
    for name in listed["remove"]:
        (folder / name).unlink(missing_ok=True)
    for name in listed["names"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # renamed before
            (stage / name).replace(folder / name)
    _sync(folder)
    (stage / LIST).unlink()
    shutil.rmtree(stage)


def _sync(path: Path) -> None:
    """Ask the system to put a file or a folder's entries on the disk."""
    with suppress(PermissionError):  # Windows does not open folders
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
