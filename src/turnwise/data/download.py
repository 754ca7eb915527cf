"""Downloading a file: with progress, going on after a break, checked, and in place only when it is whole."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import IO

from turnwise.errors import TurnwiseError

CHUNK = 1 << 16
TIMEOUT = 60.0
Progress = Callable[[int, int | None], None]


def download(url: str, target: Path, sha256: str | None = None, progress: Progress | None = None) -> str:
    """Fetch a file and return its SHA-256. What an earlier attempt has left is gone on with.

    `progress` is told how many bytes are there and how many there will be, where the server says so.
    """
    if not url.startswith(("http://", "https://")):
        raise TurnwiseError(f"{url}: not a web address")
    if target.is_file():
        return _checked(target, target, url, sha256)
    partial = target.with_name(f"{target.name}.partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        _fetch(url, partial, progress)
    except (OSError, HTTPException) as problem:
        reason = getattr(problem, "reason", None) or problem
        raise TurnwiseError(
            f"{url}: cannot be fetched ({reason}); fetch it by hand and put it at {target}, or try again later"
        ) from None
    found = _checked(partial, target, url, sha256)
    partial.replace(target)
    _version_file(partial).unlink(missing_ok=True)
    return found


def _fetch(url: str, partial: Path, progress: Progress | None) -> None:
    """Append to the partial file what is missing, or begin anew where the server's file is another one by now."""
    have = partial.stat().st_size if partial.is_file() else 0
    version = _version_file(partial)
    headers = {"User-Agent": "turnwise"}
    if have and version.is_file():
        # Without the same version on the server, a range of it would be glued to another file's beginning.
        headers |= {"Range": f"bytes={have}-", "If-Range": version.read_text(encoding="utf-8")}
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as problem:
        if problem.code != 416:  # nothing is left to fetch
            raise
        return
    with answer:
        going_on = answer.status == 206
        if going_on and not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise OSError("the server sent another part than was asked for")
        stamp = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        if stamp and not going_on:
            version.write_text(stamp, encoding="utf-8")
        length = answer.headers.get("Content-Length")
        start = have if going_on else 0
        whole = start + int(length) if length else None
        with partial.open("ab" if going_on else "wb") as file:
            _copy(answer, file, start, whole, progress)
    if whole is not None and partial.stat().st_size != whole:
        raise OSError(f"the connection broke after {partial.stat().st_size:,} of {whole:,} bytes")


def _copy(answer: IO[bytes], file: IO[bytes], done: int, whole: int | None, progress: Progress | None) -> None:
    while chunk := answer.read(CHUNK):
        file.write(chunk)
        done += len(chunk)
        if progress is not None:
            progress(done, whole)


def _checked(file: Path, target: Path, url: str, sha256: str | None) -> str:
    """The file's hash; a file that is not what it must be does not stay where it would be gone on with."""
    total = hashlib.sha256()
    with file.open("rb") as content:
        while chunk := content.read(CHUNK):
            total.update(chunk)
    found = total.hexdigest()
    if sha256 is not None and found != sha256:
        if file != target:
            file.unlink()
        raise TurnwiseError(f"{file}: its SHA-256 is {found}, not {sha256}; delete it and fetch {url} again")
    return found


def _version_file(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.version")
