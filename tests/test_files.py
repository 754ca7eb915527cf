"""A file is written whole or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from turnwise.errors import TurnwiseError
from turnwise.files import LOCK, Save, atomic, claim, is_unfinished, write_json, write_text


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


def test_a_claimed_folder_refuses_a_second_run_and_names_the_owner(tmp_path: Path) -> None:
    with claim(tmp_path / "out") as folder:
        second = run_python(f"from turnwise.files import claim\nwith claim({str(folder)!r}): pass")
        assert second.returncode == 1
        assert (
            "folder.owned"
            in run_python(
                "from turnwise.files import claim\nfrom turnwise.errors import TurnwiseError\n"
                f"try:\n    claim({str(folder)!r}).__enter__()\nexcept TurnwiseError as e:\n    print(e.code, e)"
            ).stdout
        )
    assert list(folder.iterdir()) == []
    with claim(folder):
        pass


def test_a_dead_owner_does_not_block_and_its_leftovers_go(tmp_path: Path) -> None:
    run_python(
        f"import os\nfrom turnwise.files import claim, atomic\nwith claim({str(tmp_path)!r}) as folder:\n"
        "    with atomic(folder / 'a') as partial:\n        partial.touch()\n        os._exit(9)"
    )
    assert len(list(tmp_path.iterdir())) == 2
    with claim(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == [LOCK]


DYING = """
import os, pathlib
from turnwise.files import Save, claim

replace, left = pathlib.Path.replace, [{left}]

def replace_or_die(path, target):
    if not left[0]:
        os._exit(9)
    left[0] -= 1
    return replace(path, target)

pathlib.Path.replace = replace_or_die
with claim({folder!r}) as folder:
    save = Save(folder)
    for name in {names!r}:
        save.path(name).write_text("new")
    save.commit("result.json", remove=["gone"])
"""


@pytest.mark.parametrize("renames", range(6))
def test_a_save_that_dies_is_finished_or_discarded_by_the_next_run(tmp_path: Path, renames: int) -> None:
    names = ["a", "charts/b", "result.json"]
    with claim(tmp_path):
        write_all(tmp_path, names, "old")
    died = run_python(DYING.format(left=renames, folder=str(tmp_path), names=names))
    # One rename puts the list in place, three put the files in place.
    assert died.returncode == (9 if renames < 4 else 0)
    assert is_unfinished(tmp_path) == (0 < renames < 4)
    with claim(tmp_path):
        found = {name: (tmp_path / name).read_text() for name in names}
    assert found == dict.fromkeys(names, "new" if renames else "old")
    assert (tmp_path / "gone").exists() == (not renames)
    assert not list(tmp_path.glob(".*"))


def write_all(folder: Path, names: list[str], text: str) -> None:
    """Save files with the same text, and one that a later save removes."""
    save = Save(folder)
    for name in (*names, "gone"):
        save.path(name).write_text(text)
    save.commit("result.json")


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_save_replaces_a_link_and_not_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("theirs")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "result.json").symlink_to(tmp_path / "real")
    with claim(tmp_path / "out") as folder:
        write_all(folder, ["result.json"], "new")
    assert (tmp_path / "real").read_text() == "theirs"
    assert (folder / "result.json").read_text() == "new"
