"""The public corpora that turnwise knows, and how to get one: its files, its native rows, its archives unpacked."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from turnwise.data.download import Progress, download
from turnwise.errors import TurnwiseError
from turnwise.files import atomic, write_text
from turnwise.io.read import describe, read_rows
from turnwise.io.write import example_to_dict

UNKNOWN = "unknown"
ProgressOf = Callable[[str], Progress | None]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a corpus: where it is, where it belongs, and what it must be as far as that is known for certain.

    A release that turnwise can read is also written as native rows (`native`); an archive is unpacked into a folder.
    """

    url: str
    to: str
    sha256: str | None = None
    size: int | None = None
    native: str | None = None
    corpus: str | None = None
    unpack: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Return what people are told of the file."""
        return {"url": self.url, "to": self.to, "sha256": self.sha256 or UNKNOWN, "size": self.size or UNKNOWN}


@dataclass(frozen=True, slots=True)
class PublicCorpus:
    """A corpus and its public address. Without files it has to be fetched by hand, or is not public."""

    name: str
    what: str
    licence: str
    page: str
    files: tuple[RemoteFile, ...]

    def to_dict(self) -> dict[str, object]:
        """Return one record of `turnwise data list --format json`."""
        return self._about() | {"files": [one.to_dict() for one in self.files]}

    def file_records(self) -> list[dict[str, object]]:
        """Return the lines of `turnwise data list --format csv`: one per file, or one if there is none to fetch."""
        return [self._about() | one.to_dict() for one in self.files or (RemoteFile("", ""),)]

    def _about(self) -> dict[str, object]:
        return {"name": self.name, "what": self.what, "licence": self.licence, "page": self.page}


@cache
def public_corpora() -> dict[str, PublicCorpus]:
    """Return every corpus by name."""
    content = json.loads(files("turnwise.data").joinpath("corpora.json").read_text(encoding="utf-8"))
    return {
        one["name"]: PublicCorpus(
            one["name"], one["what"], one["licence"], one["page"], tuple(RemoteFile(**file) for file in one["files"])
        )
        for one in content["corpora"]
    }


def find_corpus(name: str) -> PublicCorpus:
    """Return the corpus of this name."""
    known = public_corpora()
    if name not in known:
        raise TurnwiseError(f"no public corpus is called '{name}'; there are: {', '.join(known)}")
    return known[name]


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
    """Return the archive's files in a folder of their own; nothing in it may reach outside."""
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
