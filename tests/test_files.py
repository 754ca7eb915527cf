"""A file is written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnwise.errors import TurnwiseError
from turnwise.files import atomic, write_json, write_text


def test_a_file_appears_whole_and_nothing_else_stays(tmp_path: Path) -> None:
    target = tmp_path / "new" / "a.txt"
    with atomic(target) as partial:
        partial.write_text("whole")
        assert partial.parent == target.parent
        assert not target.exists()
    assert target.read_text() == "whole"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("kind", ["file", "folder", "nothing"])
def test_after_an_error_the_earlier_file_is_as_it_was(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def fail() -> None:
        with atomic(target) as partial:
            partial.mkdir() if kind == "folder" else partial.write_text("half") if kind == "file" else None
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    with atomic(tmp_path / "folder") as partial:
        partial.mkdir()
        (partial / "a").touch()
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["a"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    write_text(link, "x")
    assert link.is_symlink()
    assert (tmp_path / "real").read_text() == "x"
    assert write_text("/dev/null", "x").is_char_device()


def test_texts_and_json_are_utf_8_and_return_their_path(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a", (line for line in ("é\n", "b\n")))
    assert path.read_bytes() == "é\nb\n".encode()
    assert json.loads(write_json(tmp_path / "b", {"é": [1]}).read_text(encoding="utf-8")) == {"é": [1]}


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TurnwiseError, match=r"file.a: cannot be written \("):
        write_text(tmp_path / "file" / "a", "x")
