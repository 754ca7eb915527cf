"""Files of word vectors: every format gives the same vectors, and a bad file is refused in one line."""

from __future__ import annotations

import gzip
import lzma
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import TurnwiseError
from turnwise.models.vectors import VectorFile, open_vectors

VECTORS = {"tea": (1.0, -0.5, 0.25), "café": (0.0, 2.0, 1e-3), "'s": (3.0, 0.0, -1.0), ",": (0.5, 0.5, 0.5)}


def as_text(vectors, header: bool, end: str = "\n") -> bytes:
    first = f"{len(vectors)} {len(next(iter(vectors.values())))}\n" if header else ""
    lines = [f"{word} " + " ".join(map(repr, numbers)) + end for word, numbers in vectors.items()]
    return (first + "".join(lines)).encode()


def as_binary(vectors, end: bytes) -> bytes:
    width = len(next(iter(vectors.values())))
    rows = (word.encode() + b" " + struct.pack(f"<{width}f", *numbers) + end for word, numbers in vectors.items())
    return f"{len(vectors)} {width}\n".encode() + b"".join(rows)


FORMS = {
    "glove.txt": as_text(VECTORS, header=False),
    "unfinished.txt": as_text(VECTORS, header=False).rstrip(),
    "windows.txt": as_text(VECTORS, header=False, end="\r\n"),
    "word2vec.txt": as_text(VECTORS, header=True, end=" \n"),
    "word2vec.bin": as_binary(VECTORS, b"\n"),
    "gensim.bin": as_binary(VECTORS, b""),
    "glove.txt.gz": gzip.compress(as_text(VECTORS, header=False)),
    "word2vec.bin.xz": lzma.compress(as_binary(VECTORS, b"\n")),
    "word2vec.vec.zst": zstandard.compress(as_text(VECTORS, header=True)),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_format_gives_the_same_vectors(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FORMS[name])
    file = VectorFile(tmp_path / name)
    assert (len(file), file.width) == (4, 3)
    rows = file.rows(["café", "nothing", "tea", "'s", "tea"])
    expected = [VECTORS["café"], (np.nan,) * 3, VECTORS["tea"], VECTORS["'s"], VECTORS["tea"]]
    np.testing.assert_array_equal(rows, np.array(expected, dtype=np.float32))
    assert rows.dtype == np.float32
    assert file.mean == pytest.approx(np.mean(list(VECTORS.values()), axis=0), rel=1e-6)
    assert file.rows([]).shape == (0, 3)


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=5)
NUMBERS = st.lists(st.floats(-1e3, 1e3, width=32), min_size=4, max_size=4)


@given(st.dictionaries(NAMES, NUMBERS, min_size=1, max_size=20))
def test_any_words_are_found_again(tmp_path_factory: pytest.TempPathFactory, vectors) -> None:
    folder = tmp_path_factory.mktemp("vectors")
    for name, content in (("a.txt", as_text(vectors, header=True)), ("a.bin", as_binary(vectors, b"\n"))):
        (folder / name).write_bytes(content)
        rows = VectorFile(folder / name).rows(list(vectors))
        np.testing.assert_array_equal(rows, np.array(list(vectors.values()), dtype=np.float32))


def test_of_a_word_that_stands_twice_the_first_counts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("tea 1 2\ncar 3 4\ntea 5 6\n")
    assert VectorFile(tmp_path / "a.txt").rows(["tea"]).tolist() == [[1.0, 2.0]]


def test_words_with_spaces_are_not_taken_for_others(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("tea 1 2\nnew york 3 4\n. . . 5 6\n")
    file = VectorFile(tmp_path / "a.txt")
    assert np.isnan(file.rows(["new", "."])).all()
    assert file.mean.tolist() == [3.0, 4.0]


def test_the_label_names_the_content_and_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("tea 1 2\n")
    first = open_vectors(str(path))
    assert open_vectors(str(path)) is first
    label = first.label
    path.write_text("tea 1 3\ncar 1 1\n")
    second = open_vectors(str(path))
    assert second.label != label
    assert second.label.startswith("a.txt#")
    assert second.rows(["tea"]).tolist() == [[1.0, 3.0]]
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert open_vectors(str(tmp_path / "a.txt.gz")).label.partition("#")[2] == second.label.partition("#")[2]


BAD = {
    "empty.txt": (b"", "cannot be read"),
    "csv.txt": (b"tea,1,2\n", "first line"),
    "words.txt": (b"tea is good\n", "first line"),
    "blank.txt": (b"\ntea 1 2\n", "first line"),
    "pickled.bin": (pickle.dumps({"tea": [1.0, 2.0]}), "first line"),
    "none.txt": (b"0 3\n", "promises no vectors"),
    "short.txt": (as_text(VECTORS, header=True).rsplit(b"\n", 2)[0], "3 words where there should be 4"),
    "short.bin": (as_binary(VECTORS, b"\n")[:-6], "3 words where there should be 4"),
    "uneven.txt": (b"car 1 2\ntea 1\n", "'tea' does not have 2 numbers"),
    "infinite.txt": (b"car 1 2\ntea 1 inf\n", "'tea' does not have 2 numbers"),
    "damaged.txt.gz": (gzip.compress(b"tea 1 2\n" * 99)[:-12], "damaged"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    content, words = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TurnwiseError, match=words) as caught:
        VectorFile(tmp_path / name).rows(["tea"])
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TurnwiseError, match="no such file"):
        open_vectors(str(tmp_path / "none.txt"))
    with pytest.raises(TurnwiseError, match="cannot be read"):
        open_vectors(str(tmp_path))
