"""Downloads against a server of our own: whole, after a break, of a file that changed, and of a wrong one."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from turnwise.cli import models as cli
from turnwise.data import get
from turnwise.data.download import download
from turnwise.data.get import PublicCorpus, RemoteFile, find_corpus, get_corpus, public_corpora
from turnwise.errors import TurnwiseError


class Served(BaseHTTPRequestHandler):
    """Files by path, in ranges; one that is called `broken` ends too early."""

    files: ClassVar[dict[str, bytes]] = {}
    version = '"1"'
    asked: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        content = self.files.get(self.path)
        wanted = self.headers.get("Range")
        self.asked.append(wanted)
        if content is None:
            self.send_error(404)
            return
        start = 0
        if wanted and self.headers.get("If-Range") == self.version:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start and start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            where = start if "elsewhere" not in self.path else start - 1
            self.send_header("Content-Range", f"bytes {where}-{len(content) - 1}/{len(content)}")
        self.send_header("ETag", self.version)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        part = content[start:]
        self.wfile.write(part[: len(part) // 2] if "broken" in self.path and not start else part)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@pytest.fixture
def server() -> Iterator[str]:
    Served.files, Served.version, Served.asked = {}, '"1"', []
    running = ThreadingHTTPServer(("127.0.0.1", 0), Served)
    Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


CONTENT = bytes(range(256)) * 2000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def test_a_file_comes_whole_and_with_progress(server: str, tmp_path: Path) -> None:
    Served.files["/a.bin"] = CONTENT
    told: list[tuple[int, int | None]] = []
    target = tmp_path / "deep" / "a.bin"
    assert download(f"{server}/a.bin", target, DIGEST, lambda done, whole: told.append((done, whole))) == DIGEST
    assert target.read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert [path.name for path in target.parent.iterdir()] == ["a.bin"]


def test_a_broken_download_goes_on_where_it_stopped(server: str, tmp_path: Path) -> None:
    Served.files["/broken.bin"] = CONTENT
    target = tmp_path / "broken.bin"
    with pytest.raises(TurnwiseError, match=r"broken\.bin: cannot be fetched .* put it at"):
        download(f"{server}/broken.bin", target, DIGEST)
    assert not target.exists()
    half = (tmp_path / "broken.bin.partial").stat().st_size
    assert 0 < half < len(CONTENT)
    assert download(f"{server}/broken.bin", target, DIGEST) == DIGEST
    assert Served.asked == [None, f"bytes={half}-"]
    assert target.read_bytes() == CONTENT


def test_another_part_than_was_asked_for_is_not_glued_on(server: str, tmp_path: Path) -> None:
    Served.files["/broken-elsewhere.bin"] = CONTENT
    target = tmp_path / "a.bin"
    for _ in range(2):
        with pytest.raises(TurnwiseError, match="cannot be fetched"):
            download(f"{server}/broken-elsewhere.bin", target)
    assert not target.exists()


def test_a_file_that_has_changed_is_not_glued_to_the_old_one(server: str, tmp_path: Path) -> None:
    Served.files["/broken.bin"] = CONTENT
    target = tmp_path / "new.bin"
    with pytest.raises(TurnwiseError):
        download(f"{server}/broken.bin", target)
    Served.files["/new.bin"], Served.version = CONTENT[::-1], '"2"'
    download(f"{server}/new.bin", target)
    assert target.read_bytes() == CONTENT[::-1]


def test_a_wrong_checksum_leaves_nothing_in_place(server: str, tmp_path: Path) -> None:
    Served.files["/a.bin"] = b"something else"
    with pytest.raises(TurnwiseError, match="SHA-256"):
        download(f"{server}/a.bin", tmp_path / "a.bin", DIGEST)
    assert not (tmp_path / "a.bin").exists()
    Served.files["/a.bin"] = CONTENT
    assert download(f"{server}/a.bin", tmp_path / "a.bin", DIGEST) == DIGEST


def test_what_is_not_there_is_said_in_one_line(server: str, tmp_path: Path) -> None:
    with pytest.raises(TurnwiseError, match="cannot be fetched") as problem:
        download(f"{server}/none", tmp_path / "none")
    assert "\n" not in str(problem.value)
    with pytest.raises(TurnwiseError, match="not a web address"):
        download("file:///etc/passwd", tmp_path / "none")


def test_a_release_is_read_into_native_rows_and_an_archive_unpacked(server: str, tmp_path: Path) -> None:
    item = {
        "context": "hi there \n how are you ?\n", "fact": "_nofact\n", "annotators": ["a", "b", "c"],
        "responses": [{"response": "fine .", "model": "Original Ground Truth", "Overall": [4, 5, 4]}],
    }  # fmt: skip
    Served.files["/tc_usr_data.json"] = json.dumps([item]).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("logs/one.jsonl")
        entry.size = 2
        archive.addfile(entry, io.BytesIO(b"{}"))
    Served.files["/logs.tar.gz"] = packed.getvalue()
    corpus = PublicCorpus("mini", "a corpus", "none", "", (
        RemoteFile(f"{server}/tc_usr_data.json", "raw/tc_usr_data.json", native="human/tc.jsonl", corpus="usr"),
        RemoteFile(f"{server}/logs.tar.gz", "raw/logs.tar.gz", unpack="see"),
    ))  # fmt: skip
    got = list(get_corpus(corpus, tmp_path))
    assert [one.checked for one in got] == [False, False]
    row = json.loads((tmp_path / "human" / "tc.jsonl").read_text())
    assert (row["context"], row["ratings"]) == (["hi there", "how are you ?"], {"Overall": [4, 5, 4]})
    assert (tmp_path / "see" / "logs" / "one.jsonl").read_text() == "{}"
    list(get_corpus(corpus, tmp_path))
    assert len(Served.asked) == 2


def test_every_file_that_cannot_be_had_is_named_and_the_others_come(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Served.files["/b.bin"] = CONTENT
    files = tuple(RemoteFile(f"{server}/{name}", f"raw/{name}") for name in ("a.bin", "b.bin", "c.bin"))
    monkeypatch.setattr(get, "public_corpora", lambda: {"mini": PublicCorpus("mini", "m", "none", "", files)})
    with pytest.raises(TurnwiseError, match="1 of 1 corpora are not whole"):
        cli.get(["mini"], tmp_path)
    said = capsys.readouterr()
    assert [name for name in ("a.bin", "b.bin", "c.bin") if f"put it at {tmp_path}/raw/{name}" in said.err] == [
        "a.bin", "c.bin"
    ]  # fmt: skip
    assert said.out.startswith(f"{tmp_path}/raw/b.bin\tsha256 {DIGEST}")
    assert (tmp_path / "raw" / "b.bin").read_bytes() == CONTENT


def test_the_registry_says_what_is_unknown() -> None:
    for corpus in public_corpora().values():
        assert corpus.licence
        for file in corpus.files:
            assert file.url.startswith("http")
            assert file.sha256 is None or len(file.sha256) == 64
            assert not Path(file.to).is_absolute()
    assert find_corpus("grade").to_dict()["files"][0]["sha256"] == "unknown"  # type: ignore[index]
    with_files, without = find_corpus("usr").file_records(), find_corpus("frames").file_records()
    assert [record["to"] for record in with_files] == ["raw/usr/tc_usr_data.json", "raw/usr/pc_usr_data.json"]
    assert [record["url"] for record in without] == [""]
    assert with_files[0].keys() == without[0].keys()
    with pytest.raises(TurnwiseError, match="fetch it by hand"):
        next(get_corpus(find_corpus("frames"), Path("nowhere")))
    with pytest.raises(TurnwiseError, match="no public corpus"):
        find_corpus("nothing")


@pytest.mark.parametrize("name", ["../outside.txt", "/outside.txt"])
def test_an_archive_that_reaches_outside_is_refused(server: str, tmp_path: Path, name: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO(b""))
    Served.files["/bad.tar.gz"] = packed.getvalue()
    file = RemoteFile(f"{server}/bad.tar.gz", "raw/bad.tar.gz", unpack="bad")
    with pytest.raises(TurnwiseError, match="outside its folder"):
        list(get_corpus(PublicCorpus("bad", "a corpus", "none", "", (file,)), tmp_path))
    assert not (tmp_path / "outside.txt").exists()
