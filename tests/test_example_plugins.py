"""The package in examples/plugins extends turnwise from outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import turnwise
from tests.conftest import EXAMPLES, add_entry_points

FOLDER = EXAMPLES.parent / "plugins"
PACKAGE = FOLDER / "src" / "turnwise_example"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Install the package into a folder, and return a path with it and turnwise."""
    target = tmp_path_factory.mktemp("target")
    shutil.copytree(PACKAGE, target / PACKAGE.name)
    about = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    add_entry_points(target, PACKAGE.name, about["entry-points"])
    return os.pathsep.join([str(target), str(Path(turnwise.__file__).parents[1])])


def run(path: str, *arguments: str | Path) -> dict:
    command = [sys.executable, "-m", "turnwise", *map(str, arguments), "--format", "json"]
    settings = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=settings)
    assert (done.returncode, done.stderr.count("plugin")) == (0, 0), done.stderr
    return json.loads(done.stdout)


def test_every_example_is_short() -> None:
    for file in PACKAGE.glob("*.py"):
        assert len(file.read_text(encoding="utf-8").splitlines()) < 60, file.name


def test_a_metric(path: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    row = {"context": ["I like green tea", "so do you"], "response": "do you like tea"}
    rows.write_text(json.dumps(row) + "\n", encoding="utf-8")
    scores = run(path, "score", rows, "--metrics", "copied,copied[turns=1]")["turns"][0]["scores"]
    assert scores == {"copied": 1.0, "copied[turns=1]": 0.5}
    listed = run(path, "list", "metrics")["metrics"]
    assert "context" in next(row["needs"] for row in listed if row["name"] == "copied")


def test_a_kind_of_model(path: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"response": "I love lovely soup"}) + "\n", encoding="utf-8")
    pack = FOLDER / "lexicon"
    assert [role["kind"] for role in run(path, "pack", "verify", pack)["roles"]] == ["lexicon"]
    scored = run(path, "score", rows, "--metrics", "warmth", "--models", pack)["turns"][0]["scores"]
    assert scored == {"warmth": 0.5}


def test_a_format(path: str) -> None:
    turns = run(path, "score", FOLDER / "talk.quotes", "--metrics", "length,copied")["turns"]
    assert [turn["scores"]["length"] for turn in turns] == [5.0, 7.0]
    assert "quotes" in {row["format"] for row in run(path, "list", "formats")["formats"]}
