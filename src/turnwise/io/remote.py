"""Files at addresses (s3://, gs://, file:// and whatever else pyarrow knows): list, fetch, store, read in parts.

Workers read partitions on their own, with the lines and ids that the whole file gives them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from turnwise.dialogue import Row
from turnwise.errors import TurnwiseError, in_brief
from turnwise.files import atomic
from turnwise.io.base import suffixes
from turnwise.io.read import read_rows
from turnwise.io.source import is_readable, printable, resolve

if TYPE_CHECKING:
    from pyarrow import fs

CHUNK = 1 << 22
# A partition is what is lost when a worker dies: a minute or so of work with models.
PARTITION_BYTES = 1 << 24
_URL = re.compile(r"([a-z][a-z0-9+.-]+):/+(?=[^/]|/)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Place:
    """A file, wherever it is, as it was when it was listed."""

    address: str
    size: int
    changed: int

    @property
    def name(self) -> str:
        """Return the file's own name."""
        return PurePosixPath(self.address).name


def is_url(address: str | Path) -> bool:
    """Return whether something is an address and not a path; a single letter before the colon is a drive.

    >>> is_url("s3://bucket/chats"), is_url("chats.jsonl"), is_url(Path("gs://bucket/chats"))
    (True, False, True)
    """
    return _URL.match(str(address)) is not None


def as_url(address: str | Path) -> str:
    """Return the address as it was typed: a path folds the slashes of an address into one.

    >>> as_url(Path("s3://bucket/chats")), as_url("file:///tmp/chats")
    ('s3://bucket/chats', 'file:///tmp/chats')
    """
    scheme, colon, rest = str(address).partition(":")
    return f"{scheme}{colon}//{'/' if scheme.lower() == 'file' else ''}{rest.lstrip('/')}"


def places(requests: list[str]) -> list[Place]:
    """Return the files that paths, folders, globs and addresses of these stand for, in order."""
    return [place for request in requests for place in (_at(request) if is_url(request) else _local(request))]


def fetch(place: Place, into: Path, start: int = 0, size: int | None = None, before: bytes = b"") -> Path:
    """Return a copy of a file, or of a part of it with something put before, under its own name."""
    target = into / place.name
    with _said(place.address), target.open("wb") as out:
        out.write(before)
        filesystem, path = _open(place.address)
        with filesystem.open_input_file(path) as file:
            file.seek(start)
            left = place.size - start if size is None else size
            while left > 0 and (chunk := file.read(min(CHUNK, left))):
                out.write(chunk)
                left -= len(chunk)
    return target


def blocks(place: Place) -> Iterator[bytes]:
    """Yield a file's bytes, some at a time."""
    with _said(place.address):
        filesystem, path = _open(place.address)
        with filesystem.open_input_file(path) as file:
            while chunk := file.read(CHUNK):
                yield bytes(chunk)


def store(folder: Path, address: str, last: str, replaced: Iterable[str] = ()) -> None:
    """Copy the files of a folder to an address; the one called `last` comes last and says that all are there.

    Files there that match a pattern of `replaced`, such as `charts/*.svg`, go: they are of an earlier run.
    """
    with _said(address):
        filesystem, path = _open(address)
        filesystem.create_dir(path, recursive=True)
        # What says that all is there must not speak of an earlier run.
        if filesystem.get_file_info(f"{path}/{last}").is_file:
            filesystem.delete_file(f"{path}/{last}")
        for pattern in replaced:
            inside, _, name = f"{path}/{pattern}".rpartition("/")
            for info in filesystem.get_file_info(_fs().FileSelector(inside, allow_not_found=True)):
                if info.is_file and fnmatchcase(info.base_name, name):
                    filesystem.delete_file(info.path)
        for file in sorted(folder.rglob("*"), key=lambda file: (file.name == last, file)):
            target = f"{path}/{file.relative_to(folder).as_posix()}"
            if file.is_dir():
                filesystem.create_dir(target, recursive=True)
            else:
                # The last has another name until it is whole: a worker killed here must not leave half of it.
                written = f"{target}.part" if file.name == last else target
                with file.open("rb") as content, filesystem.open_output_stream(written) as out:
                    while chunk := content.read(CHUNK):
                        out.write(chunk)
                if written != target:
                    filesystem.move(written, target)


def retrieve(address: str, into: Path) -> bool:
    """Copy what is stored at an address into a folder; says whether there is anything."""
    with _said(address):
        filesystem, path = _open(address)
        selector = _fs().FileSelector(path, allow_not_found=True)
        found = [info for info in filesystem.get_file_info(selector) if info.is_file]
        for info in found:
            into.mkdir(parents=True, exist_ok=True)
            with (
                filesystem.open_input_stream(info.path) as content,
                atomic(into / info.base_name) as partial,
                partial.open("wb") as out,
            ):
                while chunk := content.read(CHUNK):
                    out.write(chunk)
        return bool(found)


def _local(request: str) -> list[Place]:
    found = []
    for source in resolve([request]):
        if source.path is None:
            raise TurnwiseError("standard input cannot be shared out to workers; give files or addresses")
        known = source.path.stat()
        found.append(Place(str(source.path), known.st_size, known.st_mtime_ns))
    return found


def _at(request: str) -> list[Place]:
    with _said(request):
        filesystem, path = _open(request)
        kind = filesystem.get_file_info(path)
        if kind.is_file:
            infos = [kind]
        else:
            folder, _, pattern = (path, "", "*") if kind.type == _fs().FileType.Directory else path.rpartition("/")
            inside = filesystem.get_file_info(_fs().FileSelector(folder, allow_not_found=True))
            infos = [info for info in inside if info.is_file and _wanted(info.base_name, pattern)]
        scheme = request.partition(":")[0]
        found = [Place(as_url(f"{scheme}://{info.path}"), info.size, info.mtime_ns or 0) for info in infos]
    if not found:
        raise TurnwiseError(f"{request}: no file there can be read; check the address")
    return sorted(found, key=lambda place: place.address)


def _wanted(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) and not name.startswith((".", "_")) and (pattern != "*" or is_readable(name))


def _open(address: str) -> tuple[fs.FileSystem, str]:
    if is_url(address):
        filesystem, path = _fs().FileSystem.from_uri(address)
        return filesystem, path
    return _fs().LocalFileSystem(), str(Path(address).absolute())


def _fs() -> Any:
    try:
        from pyarrow import fs
    except ImportError:
        raise TurnwiseError("addresses need the package pyarrow: pip install 'turnwise[ray]'") from None
    return fs


@contextmanager
def _said(address: str) -> Iterator[None]:
    """Report a problem with an address in one clear line."""
    try:
        yield
    except (OSError, ValueError, NotImplementedError) as problem:
        reason = in_brief(problem)
        raise TurnwiseError(f"{address}: cannot be used ({reason}); check the address and your access to it") from None


@dataclass(frozen=True, slots=True)
class Partition:
    """Some lines of a file, or all of it where `size` is None. `lines` is how many come before them."""

    place: Place
    start: int = 0
    size: int | None = None
    lines: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the partition as a JSON object."""
        return asdict(self)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Partition:
        """Return the partition of `to_dict`'s facts."""
        return cls(**{**facts, "place": Place(**facts["place"])})

    def rows(self, *, corpus: str | None, mapping: Mapping[str, str] | None) -> Iterator[Row]:
        """Yield the rows, as reading the whole file would have given them."""
        if self.size is None and not is_url(self.place.address):
            yield from read_rows([self.place.address], corpus=corpus, mapping=mapping)
            return
        with TemporaryDirectory() as folder:
            # Lines and ids are those of the whole file. One line before them, empty, so that what opens the part is not
            # taken for what opens a file.
            before = b"\n" if self.lines else b""
            copy = fetch(self.place, Path(folder), self.start, self.size, before)
            for row in read_rows([copy], corpus=corpus, mapping=mapping, lines_before=self.lines - len(before)):
                yield replace(row, file=printable(self.place.address))


def partitions(place: Place, *, whole: bool, most: int = PARTITION_BYTES) -> Iterator[Partition]:
    """Yield a file of JSON Lines in pieces of about `most` bytes; any other file, or one asked for whole, as it is."""
    if whole or place.size <= most or not place.name.lower().endswith(tuple(suffixes(splittable=True))):
        yield Partition(place)
        return
    start = at = lines = seen = 0
    for block in blocks(place):
        begin = 0
        while (end := block.find(b"\n", max(begin, start + most - at))) >= 0:
            seen += block.count(b"\n", begin, end + 1)
            yield Partition(place, start, at + end + 1 - start, lines)
            start, lines, begin = at + end + 1, seen, end + 1
        seen += block.count(b"\n", begin)
        at += len(block)
    if at > start:
        yield Partition(place, start, at - start, lines)
