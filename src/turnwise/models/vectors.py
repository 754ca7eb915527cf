"""Static facts about words: the tables of a pack, and word vectors in a file of one's own.

A file is GloVe or word2vec text, or word2vec binary, compressed or not. It is indexed once, by a hash of each word, and
a vector is read when it is asked for: a file of millions of words takes little memory. Nothing in a file is executed,
so pickled vectors cannot be read.
"""

from __future__ import annotations

import hashlib
import mmap
import re
import shutil
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from turnwise.errors import TurnwiseError
from turnwise.io.source import Source, open_bytes
from turnwise.models.kinds import KINDS, Model, ModelKind, TokenRow
from turnwise.models.requests import Floats, Lookup

if TYPE_CHECKING:
    from turnwise.models.pack import Pack


@dataclass
class VectorTable(Model):
    """Answers `Lookup` from rows of numbers by name; `missing` stands for a name that is not there."""

    values: Mapping[str, Mapping[str, int]]
    numbers: Mapping[str, Floats]
    missing: Mapping[str, float]
    fingerprint: str

    def answer(self, request: Lookup, rows: Sequence[TokenRow], results: Sequence[Any]) -> Floats:
        """Return one row of numbers per item, or one number where the table has only one."""
        names, numbers = self.values[request.unit], self.numbers[request.unit]
        found = np.full((len(request.items), *numbers.shape[1:]), self.missing[request.unit], dtype=np.float32)
        for i, item in enumerate(request.items):
            if (index := names.get(item)) is not None:
                found[i] = numbers[index]
        return found


def _from_pack(pack: Pack, role: str) -> VectorTable:
    from safetensors.numpy import load

    tensors = load(pack.read(pack.manifest.role(role).file))
    names, numbers, missing = {}, {}, {}
    for unit in ("word", "token"):
        if f"{unit}.names" in tensors:
            listed = tensors[f"{unit}.names"].tobytes().decode("utf-8").split("\n")
            names[unit] = {name: i for i, name in enumerate(listed)}
            values = tensors[f"{unit}.values"]
            scales = tensors.get(f"{unit}.scales")
            numbers[unit] = values if scales is None else values.astype(np.float32) * scales[:, None]
            missing[unit] = float(tensors[f"{unit}.missing"][0])
    return VectorTable(names, numbers, missing, pack.fingerprint(role))


KINDS.add(
    "table",
    ModelKind("table", Lookup, _from_pack, probe=lambda role: Lookup(("music", "the"), role=role)),
    module=__name__,
)


_ARCHIVES = (b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")
_HEADER = re.compile(rb"(\d{1,12}) (\d{1,6})\s*")
_LONGEST = 1 << 20
_KINDS = "GloVe text, word2vec text and word2vec binary files can be read"


class Layout(NamedTuple):
    """What a file is: numbers as text or binary, how many to a word, where they start, how many words are promised."""

    binary: bool
    width: int
    start: int
    promised: int | None


class VectorFile:
    """The vectors of a file, by word. Where a word stands twice, the first counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = _mapped(path)
        self._layout = _layout(self._bytes, path)
        self._known: dict[str, Floats] = {}

    @property
    def width(self) -> int:
        """Return how many numbers a vector has."""
        return self._layout.width

    def __len__(self) -> int:
        return len(self._index[0])

    @cached_property
    def label(self) -> str:
        """Return the file's name and the beginning of its content's SHA-256, for signatures."""
        return f"{self.path.name}#{hashlib.sha256(self._bytes).hexdigest()[:8]}"

    @cached_property
    def mean(self) -> npt.NDArray[np.float64]:
        """Return the mean of all vectors; it takes reading the whole file."""
        total = np.zeros(self.width)
        for place in np.sort(self._index[1]):
            total += self._read(int(place))[1]
        return total / len(self)

    def rows(self, words: Iterable[str]) -> Floats:
        """Return one row per word; NaN for words that the file lacks."""
        found = [self._vector(word) for word in words]
        return np.stack(found) if found else np.empty((0, self.width), dtype=np.float32)

    def _vector(self, word: str) -> Floats:
        if word not in self._known:
            self._known[word] = self._find(word.encode("utf-8", "replace"))
        return self._known[word]

    def _find(self, word: bytes) -> Floats:
        hashes, places = self._index
        wanted = hash(word)
        for index in range(int(np.searchsorted(hashes, wanted)), len(hashes)):
            if hashes[index] != wanted:
                break
            name, vector = self._read(int(places[index]))
            if name == word:
                return vector
        return np.full(self.width, np.nan, dtype=np.float32)

    @cached_property
    def _index(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the sorted hashes of all words and their offsets; a dictionary would take ten times the memory."""
        hashes, places = array("q"), array("q")
        names = _binary_names if self._layout.binary else _text_names
        for place, name in names(self._bytes, self._layout):
            hashes.append(hash(name))
            places.append(place)
        promised = self._layout.promised
        if not hashes or (promised is not None and len(hashes) < promised):
            wanted = "at least one" if promised is None else str(promised)
            raise TurnwiseError(f"{self.path}: {len(hashes)} words where there should be {wanted}; download it again")
        keys = np.frombuffer(hashes, dtype=np.int64)
        order = np.argsort(keys, kind="stable")
        return keys[order], np.frombuffer(places, dtype=np.int64)[order]

    def _read(self, place: int) -> tuple[bytes, Floats]:
        """Return the word and the vector at an offset."""
        width, content = self.width, self._bytes
        if self._layout.binary:
            gap = content.find(b" ", place)
            name, vector = content[place:gap], np.frombuffer(content[gap + 1 : gap + 1 + 4 * width], dtype="<f4")
        else:
            name, vector = _parsed(content[place : _line_end(content, place)], width)
        if not _is_vector(vector, width):
            shown = name.decode("utf-8", "replace")[:40]
            raise TurnwiseError(f"{self.path}: '{shown}' does not have {width} numbers; mend the line, or drop it")
        return name, vector


def open_vectors(path: str) -> VectorFile:
    """Return the vectors in a file, opened once for all metrics that name it, and again when it has changed."""
    file = Path(path).expanduser()
    facts = file.stat() if file.is_file() else None
    return _opened(file, facts.st_mtime_ns if facts else 0, facts.st_size if facts else 0)


@lru_cache(maxsize=8)
def _opened(path: Path, _changed: int, _size: int) -> VectorFile:
    return VectorFile(path)


def _mapped(path: Path) -> mmap.mmap:
    """Return the content of a file; an archive is unpacked into a temporary file that vanishes with the process."""
    try:
        with path.open("rb") as file:
            packed = file.read(8).startswith(_ARCHIVES)
            if not packed:
                return _map(file)
        with tempfile.TemporaryFile() as unpacked:
            with open_bytes(Source(str(path), path.stem, path.stem, path)) as stream:
                shutil.copyfileobj(stream, unpacked)
            unpacked.flush()
            return _map(unpacked)
    except FileNotFoundError:
        raise TurnwiseError(f"{path}: no such file; give vectors= the path of a file of word vectors") from None
    except (OSError, ValueError) as problem:
        raise TurnwiseError(f"{path}: cannot be read as word vectors ({problem}); {_KINDS}") from None


def _map(file: BinaryIO) -> mmap.mmap:
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _layout(content: mmap.mmap, path: Path) -> Layout:
    """Find out what a file is from its beginning: word2vec's has a line with the two sizes, GloVe's has not."""
    end = _line_end(content, 0)
    first = content[: min(end, _LONGEST)]
    header = _HEADER.fullmatch(first)
    if header is None:
        width = len(first.split()) - 1
        if width < 1 or not _is_vector(_parsed(first, width)[1], width):
            raise TurnwiseError(f"{path}: its first line is not a word and its numbers; {_KINDS}")
        return Layout(False, width, 0, None)
    promised, width = map(int, header.groups())
    if not promised or not width:
        raise TurnwiseError(f"{path}: its first line promises no vectors; {_KINDS}")
    start = end + 1
    line = content[start : min(_line_end(content, start), start + _LONGEST)]
    return Layout(not _is_vector(_parsed(line, width)[1], width), width, start, promised)


def _is_vector(numbers: Floats, width: int) -> bool:
    return len(numbers) == width and bool(np.isfinite(numbers).all())


def _parsed(line: bytes, width: int) -> tuple[bytes, Floats]:
    """Return the word and the numbers of a line of text; no numbers if they do not parse.

    >>> _parsed(b"new york 1 2.5", 2)
    (b'new york', array([1. , 2.5], dtype=float32))
    """
    name, *numbers = line.rsplit(maxsplit=width) or [b""]
    try:
        return name, np.array([float(number) for number in numbers], dtype=np.float32)
    except ValueError:
        return name, np.empty(0, dtype=np.float32)


def _line_end(content: mmap.mmap, place: int) -> int:
    end = content.find(b"\n", place)
    return len(content) if end < 0 else end


def _text_names(content: mmap.mmap, layout: Layout) -> Iterator[tuple[int, bytes]]:
    place = layout.start
    while place < len(content):
        end = _line_end(content, place)
        # A word with a space in it is rare, and would need the whole line to be taken apart.
        gap = content.find(b" ", place, end)
        if gap > place:
            yield place, content[place:gap]
        place = end + 1


def _binary_names(content: mmap.mmap, layout: Layout) -> Iterator[tuple[int, bytes]]:
    place, size = layout.start, 4 * layout.width
    for _ in range(layout.promised or 0):
        # The original program ends each vector with a new line, later ones do not.
        place += content[place : place + 1] == b"\n"
        gap = content.find(b" ", place, place + 4096)
        if gap < 0 or gap + 1 + size > len(content):
            return
        yield place, content[place:gap]
        place = gap + 1 + size
