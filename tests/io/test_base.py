"""Readers of other packages, found by name, suffix and content."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from turnwise.errors import TurnwiseError
from turnwise.io.base import READERS, Reader, readers

PLUGIN = """
import json
from turnwise.io.base import Reader
from turnwise.problems import Problem

def records(source):
    for number, line in enumerate(source.stream, start=1):
        try:
            question, answer = json.loads(line)
        except ValueError:
            yield number, Problem.of("json.deep", "json")
        else:
            yield number, {"context": [question], "response": answer}

def failing(source):
    yield 1, {"response": "a"}
    raise KeyError("oops")

sniff = lambda source: source.head.startswith(b'["')
PAIRS = Reader("pairs", (".pairs",), sniff, records, splittable=True, what="pairs")
BROKEN = Reader("broken", (".broken",), None, failing)
"""
LINES = '["Hi!", "Hello."]\n["How?", \n["And you?", "Fine."]\n'


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return a folder that holds an installed package with two readers."""
    (tmp_path / "pair_readers.py").write_text(PLUGIN)
    about = tmp_path / "pair_readers-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pair-readers\nVersion: 1\n")
    points = "[turnwise.readers]\npairs = pair_readers:PAIRS\nbroken = pair_readers:BROKEN\n"
    (about / "entry_points.txt").write_text(points)
    return tmp_path


def turnwise(folder: Path, *arguments: str, typed: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "turnwise", *arguments]
    # With -m, Python looks for packages in the folder that it is started in.
    return subprocess.run(command, cwd=folder, input=typed, capture_output=True, text=True, check=False)


SCORE = ("score", "--metrics", "length", "--format", "csv")


@pytest.mark.parametrize(("name", "more"), [("a.pairs", ()), ("a.txt", ()), ("a.txt", ("--corpus", "pairs"))])
def test_a_reader_of_another_package(installed: Path, name: str, more: tuple[str, ...]) -> None:
    (installed / name).write_text(LINES)
    done = turnwise(installed, *SCORE, name, *more)
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["a:1", "a:2", "a:3"]
    assert f"{name}:2: json: " in done.stderr


def test_it_reads_folders_standard_input_and_is_listed(installed: Path) -> None:
    (installed / "runs").mkdir()
    (installed / "runs" / "a.pairs").write_text(LINES)
    assert len(turnwise(installed, *SCORE, "runs").stdout.splitlines()) == 4
    assert len(turnwise(installed, *SCORE, "-", typed=LINES).stdout.splitlines()) == 4
    assert "pairs" in turnwise(installed, "list", "formats", "--format", "csv").stdout


def test_a_reader_that_fails_is_one_line(installed: Path) -> None:
    (installed / "a.broken").write_text("x")
    done = turnwise(installed, *SCORE, "a.broken")
    assert done.returncode == 2
    assert done.stderr == "turnwise: a.broken: the reader 'broken' failed (KeyError: 'oops')\n"


def test_every_reader_has_a_suffix_and_a_description() -> None:
    assert all(reader.suffixes and reader.what for reader in readers())
    assert [reader.name for reader in readers() if reader.splittable] == ["jsonl"]


def test_an_entry_point_must_name_a_reader() -> None:
    with pytest.raises(TypeError, match=r"expected a turnwise\.io\.base\.Reader, got a number"):
        READERS._adapt("x", 3)
    with pytest.raises(TurnwiseError, match="the name belongs to turnwise"):
        READERS.add("usr", Reader("usr", (), None, lambda _: iter(())))
