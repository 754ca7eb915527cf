"""Which files are read, and how: archives, folders, globs and standard input."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from turnwise.dialogue import Row
from turnwise.errors import TurnwiseError
from turnwise.io.read import describe, file_stem, read_rows
from turnwise.io.source import open_bytes, resolve


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def summary(rows: list[Row]) -> list[tuple[int, str | None]]:
    return [(row.line, row.example.response if row.example else None) for row in rows]


# --- archives -------------------------------------------------------------------------------------------

ROWS = b"".join(b'{"response": "row %d", "id": "%d"}\n' % (n, n) for n in range(5000))
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_archives_are_read_as_they_are(tmp_path: Path, suffix: str) -> None:
    rows = list(read_rows(write(tmp_path / f"bot.jsonl{suffix}", PACKERS[suffix](ROWS))))
    assert len(rows) == 5000
    assert rows[4999].example is not None
    assert (rows[4999].example.response, rows[4999].example.system) == ("row 4999", "bot")


@pytest.mark.parametrize("suffix", PACKERS)
def test_archives_may_be_joined(tmp_path: Path, suffix: str) -> None:
    packed = PACKERS[suffix](b'{"response": "a"}\n') + PACKERS[suffix](b'{"response": "b"}\n')
    assert summary(list(read_rows(write(tmp_path / f"bot.jsonl{suffix}", packed)))) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_truncated_archive_gives_its_rows_and_then_says_so(tmp_path: Path, suffix: str) -> None:
    packed = PACKERS[suffix](os.urandom(0) + ROWS + b'{"response": "' + os.urandom(200_000).hex().encode() + b'"}')
    file = write(tmp_path / f"bot.jsonl{suffix}", packed[: len(packed) * 3 // 4])
    seen: list[Row] = []
    with pytest.raises(TurnwiseError, match=r"bot\.jsonl.*: the archive is damaged .*; make it or download it again"):
        seen.extend(read_rows(file))
    assert len(seen) >= 4000


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_file_that_is_no_archive(tmp_path: Path, suffix: str) -> None:
    file = write(tmp_path / f"bot.jsonl{suffix}", ROWS)
    with pytest.raises(TurnwiseError, match=rf"not a {suffix} archive; make it again, or correct its name"):
        list(read_rows(file))


@pytest.mark.parametrize("suffix", PACKERS)
def test_an_archive_of_next_to_nothing_does_not_fill_the_memory(tmp_path: Path, suffix: str) -> None:
    size = 1 << 26
    (source,) = resolve([write(tmp_path / f"bot.jsonl{suffix}", PACKERS[suffix](bytes(size)))])
    tracemalloc.start()
    try:
        with open_bytes(source) as stream:
            assert stream.read(10) == bytes(10)
            found = 10
            while chunk := stream.read(1 << 16):
                found += len(chunk)
        assert found == size
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()


# --- which files ----------------------------------------------------------------------------------------


def test_folders_and_globs_in_order(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", ".hidden.jsonl"):
        write(tmp_path / name, '{"response": "x"}')
    write(tmp_path / "c.csv", "response\nx\n")
    write(tmp_path / "notes.txt", "no rows here")
    (tmp_path / "deeper").mkdir()
    write(tmp_path / "deeper" / "d.jsonl", '{"response": "x"}')

    def stems(request: str | Path) -> list[str]:
        return [file_stem(row.file) for row in read_rows([request])]

    assert stems(tmp_path) == ["a", "b", "c"]
    assert stems(f"{tmp_path}/*.jsonl") == ["a", "b"]
    assert stems(f"{tmp_path}/**/*.jsonl") == ["a", "b", "d"]
    assert [row.example.system for row in read_rows([tmp_path / "b.jsonl", tmp_path / "a.jsonl"]) if row.example] == [
        "b",
        "a",
    ]


def test_a_file_may_have_a_name_like_a_pattern(tmp_path: Path) -> None:
    write(tmp_path / "a[1].jsonl", '{"response": "x"}')
    assert len(list(read_rows(tmp_path / "a[1].jsonl"))) == 1


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ("absent.jsonl", "absent.jsonl: no such file; check the path"),
        ("here.json", r"here.json: no such file; check the path \(did you mean .*here.jsonl\?\)"),
        ("nowhere/x.jsonl", r"no such file; check the path \(there is no folder .*nowhere either\)"),
        ("*.csv", r"\*.csv: no file matches; "),
        ("empty", "empty: no file in this folder can be read; put files named [^']* there$"),
        (
            "outer",
            r"outer: no file in this folder .* or give '.*outer/\*\*/\*.jsonl' for those in folders",
        ),
    ],
)
def test_what_is_not_there(tmp_path: Path, request_: str, error: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    write(tmp_path / "here.jsonl", "")
    with pytest.raises(TurnwiseError, match=error):
        read_rows([tmp_path / request_])


@pytest.mark.parametrize("address", ["s3://bucket/chats.jsonl", Path("gs://bucket/*.jsonl")])
def test_an_address_needs_a_cluster(address: str | Path) -> None:
    with pytest.raises(TurnwiseError, match=r"^[gs][s3]://bucket/.*jsonl: an address, .*; score it with"):
        read_rows([address])


def test_an_unknown_corpus_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(TurnwiseError, match=r"^`corpus=usrr`: format 'usrr' is not known; did you mean 'usr'"):
        read_rows([tmp_path], corpus="usrr")


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    file = write(tmp_path / "a.jsonl", ROWS)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(TurnwiseError, match=r"a.jsonl: cannot be read \(Permission denied\); check the file"):
        list(read_rows(file))


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    names = ("a.jsonl", "a.json", "a.csv", "a.txt")
    assert list(read_rows([write(tmp_path / name, "") for name in names])) == []


# --- standard input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "piped",
    [
        b'{"response": "a"}\n{"response": "b"}\n',
        b'[{"response": "a"}, {"response": "b"}]',
        b"response\na\nb\n",
        b"id\tresponse\n1\ta\n2\tb\n",
        gzip.compress(b'{"response": "a"}\n{"response": "b"}\n', mtime=0),
    ],
)
def test_standard_input(monkeypatch: pytest.MonkeyPatch, piped: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
    rows = list(read_rows(["-"]))
    assert [row.example.response for row in rows if row.example] == ["a", "b"]
    assert {(row.file, row.example.system) for row in rows if row.example} == {("<stdin>", "stdin")}


def test_nonsense_on_standard_input_is_reported_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'garbage\n{"response": "a"}\n')))
    rows = list(read_rows(["-"]))
    assert summary(rows) == [(1, None), (2, "a")]
    assert rows[0].id == "stdin:1"


def test_reading_is_lazy(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", ROWS * 4)
    rows = read_rows(file)
    assert [next(rows).line, next(rows).line] == [1, 2]
    with file.open("a") as more:
        more.write('{"response": "written while it is read"}')
    assert [row.line for row in rows][-1] == 20_001


def test_a_file_name_that_is_not_utf_8_can_be_written_again(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9\n1.jsonl")
    try:
        (tmp_path / name).write_text('{"response": "a"}\n{}\n')
    except OSError:
        pytest.skip("this file system has no such names")
    one, other = read_rows(tmp_path / name)
    assert (one.id, one.system) == (r"caf\xe9\n1:1", r"caf\xe9\n1")
    for text in (one.id, one.file, str(describe(other))):
        assert text.encode().isascii()
        assert "\n" not in text
