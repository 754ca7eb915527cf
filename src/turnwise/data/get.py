"""Getting a corpus: its files, the native rows of those that turnwise can read, and archives unpacked."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from turnwise.data.download import Progress, download
from turnwise.data.registry import PublicCorpus, RemoteFile
from turnwise.errors import TurnwiseError
from turnwise.files import atomic, write_text
from turnwise.io.read import describe, read_rows
from turnwise.io.write import example_to_dict

ProgressOf = Callable[[str], Progress | None]


@dataclass(frozen=True, slots=True)
class Got:
    """One file that is there now; `checked` says whether its hash was known beforehand."""

    path: Path
    sha256: str
    checked: bool
    made: Path | None


def get_corpus(
    corpus: PublicCorpus,
    folder: Path,
    progress_of: ProgressOf = lambda _: None,
    missed: Callable[[TurnwiseError], None] | None = None,
) -> Iterator[Got]:
    """Fetch every file of a corpus that is not there yet; `missed` is told of one that cannot be had, if given."""
    if not corpus.files:
        where = f"fetch it by hand from {corpus.page}" if corpus.page else "nobody can fetch it"
        raise TurnwiseError(f"{corpus.name}: {corpus.what}; {where}")
    for file in corpus.files:
        path = folder / file.to
        try:
            sha256 = download(file.url, path, file.sha256, progress_of(path.name))
            got = Got(path, sha256, file.sha256 is not None, _made(file, path, folder))
        except TurnwiseError as problem:
            if missed is None:
                raise
            missed(problem)
        else:
            yield got


def _made(file: RemoteFile, path: Path, folder: Path) -> Path | None:
    if file.native is not None:
        return _as_native(path, folder / file.native, file.corpus)
    if file.unpack is not None:
        return _unpacked(path, folder / file.unpack)
    return None


def _as_native(source: Path, target: Path, corpus: str | None) -> Path:
    """Native rows beside the release, for `reproduce` to find; what is there already is left alone."""
    if target.is_file():
        return target
    rows = list(read_rows([source], corpus=corpus))
    if bad := next((row for row in rows if row.example is None), None):
        raise TurnwiseError(describe(bad))
    lines = (json.dumps(example_to_dict(row.example), ensure_ascii=False) + "\n" for row in rows if row.example)
    return write_text(target, lines)


def _unpacked(archive: Path, target: Path) -> Path:
    """The archive's files in a folder of their own; nothing in it may reach outside."""
    if target.is_dir():
        return target
    try:
        with atomic(target) as partial, tarfile.open(archive) as content:
            _extract(content, partial)
    except (tarfile.TarError, OSError) as problem:
        raise TurnwiseError(f"{archive}: cannot be unpacked ({problem})") from None
    return target


def _extract(content: tarfile.TarFile, folder: Path) -> None:
    """Write the plain files of an archive. Python's own filter for this is not in every Python 3.11."""
    for entry in content:
        path = folder / entry.name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise tarfile.TarError(f"{entry.name} would be written outside its folder")
        data = content.extractfile(entry) if entry.isfile() else None
        if data is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.read())
