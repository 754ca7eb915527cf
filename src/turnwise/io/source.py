"""Where rows come from: which files a request means, and their bytes, decompressed as they are read."""

from __future__ import annotations

import glob
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from turnwise.errors import TurnwiseError
from turnwise.io.base import suffixes

BUFFER = 1 << 16
# Four bytes of Zstandard may stand for 128 KiB, and a piece is unpacked at once: into 8 MiB at most.
ZSTD_PIECE = 1 << 8
ARCHIVES = (".gz", ".xz", ".zst")
STDIN = "-"
# A path folds the slashes of an address into one; a single letter before the colon is a drive.
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.IGNORECASE | re.DOTALL)
_MAGIC = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}


@dataclass(frozen=True, slots=True)
class Source:
    """One thing to read: how it is called in reports, and what its rows inherit from it."""

    file: str
    stem: str
    system: str
    path: Path | None = None

    @property
    def suffix(self) -> str:
        """Return the suffix that tells the format, without the archive's: `.csv` of `a.csv.gz`."""
        return suffix_of(self.path.name) if self.path else ""


PYTHON = Source(file="<python>", stem="row", system="system")
STANDARD_INPUT = Source(file="<stdin>", stem="stdin", system="stdin")


def suffix_of(name: str) -> str:
    """Return the suffix that tells a file's format.

    >>> suffix_of("a.csv.gz"), suffix_of("notes")
    ('.csv', '')
    """
    found = [suffix.lower() for suffix in Path(name).suffixes]
    while found and found[-1] in ARCHIVES:
        found.pop()
    return found[-1] if found else ""


def is_readable(name: str) -> bool:
    """Return whether a file's name has the suffix of a format."""
    return suffix_of(name) in suffixes()


def printable(name: str) -> str:
    """Return the name of a file as a terminal and a UTF-8 file can bear it.

    >>> printable("caf\\udce9.jsonl"), printable("two\\nlines.jsonl")
    ('caf\\\\xe9.jsonl', 'two\\\\nlines.jsonl')
    """
    if name.isprintable():
        return name
    decoded = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in decoded)


def stem_of(path: Path) -> str:
    """Return a file's name without the suffixes that tell its format.

    >>> stem_of(Path("runs/bot-1.2.jsonl.gz")), stem_of(Path("notes.txt"))
    ('bot-1.2', 'notes')
    """
    name = path.name
    known = suffixes().union(ARCHIVES)
    while (suffix := Path(name).suffix).lower() in known:
        name = name[: -len(suffix)]
    return (name if name != path.name else path.stem) or path.name


def resolve(requests: Sequence[str | Path]) -> list[Source]:
    """Return the sources that paths, folders, globs and `-` stand for, in order."""
    sources = [source for request in requests for source in _resolve_one(request)]
    seen: set[Path | None] = set()
    for source in sources:
        if source.path in seen:
            raise TurnwiseError(f"{source.file}: given twice; name each file once")
        seen.add(source.path)
    return sources


def _resolve_one(request: str | Path) -> list[Source]:
    if request == STDIN:
        return [STANDARD_INPUT]
    if not str(request).strip():
        raise TurnwiseError("an empty path cannot be read; give a file, a folder, a glob or '-'")
    path = Path(request)
    if not path.exists() and (scheme := _ADDRESS.match(str(request))):
        what = "an address, which only the workers of a cluster read"
        raise TurnwiseError(f"{scheme[1]}://{scheme[2]}: {what}; score it with `engine=ray`, or fetch it first")
    if path.is_dir():
        found = [file for file in sorted(path.iterdir()) if _is_input(file)]
        if not found:
            readable = ", ".join(sorted(suffixes()))
            deeper = f", or give '{path / '**' / '*.jsonl'}' for those in folders of it" if _has_folders(path) else ""
            also = f"{readable}, also as {', '.join(ARCHIVES)}"
            raise TurnwiseError(f"{path}: no file in this folder can be read; put files named {also} there{deeper}")
    elif path.exists():
        found = [path]
    elif glob.has_magic(str(path)):
        # Unlike pathlib's, this glob leaves hidden files alone.
        matches = glob.glob(str(path), recursive=True)  # noqa: PTH207
        found = sorted(file for file in map(Path, matches) if file.is_file())
        if not found:
            raise TurnwiseError(f"{path}: no file matches; check the pattern and the folder it starts from")
    else:
        raise TurnwiseError(f"{path}: no such file; check the path{_hint(path)}")
    stems = [printable(stem_of(file)) for file in found]
    return [Source(printable(str(file)), stem, stem, file) for file, stem in zip(found, stems, strict=True)]


def _has_folders(path: Path) -> bool:
    return any(inside.is_dir() and not inside.name.startswith(".") for inside in path.iterdir())


def _is_input(file: Path) -> bool:
    return is_readable(file.name) and file.is_file() and not file.name.startswith(".")


def _hint(path: Path) -> str:
    """Return the file that was probably meant: the same stem with another suffix."""
    if not path.parent.is_dir():
        return f" (there is no folder {path.parent} either)"
    near = [file for file in path.parent.iterdir() if file.is_file() and stem_of(file) == stem_of(path)]
    return f" (did you mean {near[0]}?)" if near else ""


@contextmanager
def open_bytes(source: Source) -> Iterator[io.BufferedReader]:
    """Yield the source's bytes, decompressed; a broken file or archive becomes one clear line."""
    raw: BinaryIO | None = None
    try:
        raw = source.path.open("rb") if source.path else sys.stdin.buffer
        yield _decompressed(_peekable(raw), source)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as problem:
        found = f"the archive is damaged ({problem})"
        raise TurnwiseError(f"{source.file}: {found}; make it or download it again") from None
    except OSError as problem:
        found = problem.strerror or str(problem)
        raise TurnwiseError(f"{source.file}: cannot be read ({found}); check the file") from None
    finally:
        if raw is not None and source.path:
            raw.close()


def _peekable(stream: BinaryIO) -> io.BufferedReader:
    if isinstance(stream, io.BufferedReader):
        return stream
    return io.BufferedReader(cast(io.RawIOBase, stream), BUFFER)


def _decompressed(stream: io.BufferedReader, source: Source) -> io.BufferedReader:
    """Return the stream behind an archive's magic number, whatever the file is called."""
    head = stream.peek(8)
    archive = next((suffix for magic, suffix in _MAGIC.items() if head.startswith(magic)), "")
    named = source.path.suffix.lower() if source.path else ""
    if named in ARCHIVES and named != archive:
        raise TurnwiseError(f"{source.file}: not a {named} archive; make it again, or correct its name")
    if archive == ".gz":
        stream = io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=stream)), BUFFER)
    elif archive == ".xz":
        stream = io.BufferedReader(cast(io.RawIOBase, lzma.LZMAFile(stream)), BUFFER)  # noqa: SIM115
    elif archive == ".zst":
        stream = io.BufferedReader(_ZstdFile(stream), BUFFER)
    start = stream.peek(4)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TurnwiseError(f"{source.file}: written as UTF-16; save it as UTF-8")
    if start.startswith(b"PAR1"):
        raise TurnwiseError(f"{source.file}: Parquet cannot be read like this; save it as a file named .parquet")
    return stream


class _ZstdFile(io.RawIOBase):
    """Decompressed Zstandard that, unlike the library's own reader, notices a file that stops half-way."""

    def __init__(self, stream: io.BufferedReader) -> None:
        try:
            import zstandard
        except ImportError:
            raise TurnwiseError("reading .zst needs the package zstandard: pip install zstandard") from None
        self._stream, self._error = stream, zstandard.ZstdError
        self._start = zstandard.ZstdDecompressor().decompressobj
        self._frame, self._ready = self._start(), memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            if self._frame.eof:
                packed = self._frame.unused_data or self._stream.read(ZSTD_PIECE)
                if not packed:
                    return 0
                self._frame = self._start()
            elif not (packed := self._stream.read(ZSTD_PIECE)):
                raise EOFError("it ends too early")
            try:
                self._ready = memoryview(self._frame.decompress(packed))
            except self._error as problem:
                raise EOFError(str(problem)) from None
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size
