"""Packs are distributions of their own: several may be installed, or none."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest

import turnwise
from tests.conftest import EXAMPLES, add_entry_points
from turnwise.models.pack import DEFAULT_PACK, installed_packs, pack_card

ROOT = Path(__file__).parents[2]


def command(*arguments: str | Path, path: list[Path], alone: bool = False) -> subprocess.CompletedProcess[str]:
    """Run turnwise with these folders on the path; `alone` leaves out what is installed."""
    search = [*path, Path(turnwise.__file__).parents[1]]
    settings = {"PYTHONPATH": os.pathsep.join(map(str, search))}
    called = [sys.executable, *(["-S"] if alone else []), "-m", "turnwise", *map(str, arguments)]
    return subprocess.run(called, capture_output=True, text=True, timeout=300, check=False, env=os.environ | settings)


@pytest.fixture
def second(small_pack: Path, tmp_path: Path) -> Path:
    """Install a small pack under the name `tiny`, as an installer does; returns the folder on the path."""
    target = tmp_path / "target"
    shutil.copytree(small_pack, target / "tiny_pack")
    (target / "tiny_pack" / "__init__.py").touch()
    add_entry_points(target, "tiny_pack", {"turnwise.packs": {"tiny": "tiny_pack"}})
    return target


@pytest.fixture
def no_pack(tmp_path: Path) -> Path:
    """Return a folder with every installed package except packs."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for place in site.getsitepackages():
        for entry in Path(place).iterdir():
            if not (entry / "entry_points.txt").is_file() or "turnwise.packs" not in (
                entry / "entry_points.txt"
            ).read_text(encoding="utf-8"):
                (folder / entry.name).symlink_to(entry)
    return folder


def systems(done: subprocess.CompletedProcess[str]) -> object:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["systems"]


@pytest.mark.slow
def test_two_packs_stand_side_by_side(second: Path, small_pack: Path) -> None:
    listed = json.loads(command("pack", "list", "--format", "json", path=[second]).stdout)["packs"]
    assert len(listed) == len(installed_packs()) + 1
    score = ("score", EXAMPLES, "--metrics", "nup", "--format", "json", "--cache", "off")
    by_name = systems(command(*score, "--models", "tiny", path=[second]))
    assert by_name == systems(command(*score, "--models", small_pack, path=[]))
    if DEFAULT_PACK in installed_packs():
        assert by_name != systems(command(*score, path=[second]))


def test_only_an_installed_pack_may_link_to_files_elsewhere(second: Path, tmp_path: Path) -> None:
    words = second / "tiny_pack" / "words.bin"
    moved = words.rename(tmp_path / "words.bin")
    words.symlink_to(moved)
    assert command("pack", "verify", "tiny", path=[second]).returncode == 0
    refused = command("pack", "verify", second / "tiny_pack", path=[])
    assert (refused.returncode, "not a plain file" in refused.stderr) == (2, True)
    moved.write_bytes(bytes([moved.read_bytes()[0] ^ 1]) + moved.read_bytes()[1:])
    damaged = command("pack", "verify", "tiny", path=[second])
    assert (damaged.returncode, "words.bin: damaged or swapped" in damaged.stderr) == (2, True)


def test_a_package_that_is_no_pack_is_named(second: Path) -> None:
    (second / "tiny_pack" / "manifest.json").unlink()
    done = command("pack", "verify", "tiny", path=[second])
    assert done.returncode == 2
    assert "plugin 'tiny'" in done.stderr
    assert "expected manifest.json" in done.stderr


@pytest.mark.slow
def test_without_a_pack_the_classic_metrics_are_computed(no_pack: Path) -> None:
    done = command("score", EXAMPLES, "--metrics", "classic", path=[no_pack], alone=True)
    assert (done.returncode, "pip install" in done.stderr) == (0, False)
    done = command("score", EXAMPLES, path=[no_pack], alone=True)
    assert (done.returncode, done.stderr.count("Fix: pip install ./packs/turnwise-mini")) == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("score", EXAMPLES, "--metrics", "f1,usr"),
        ("pack", "verify"),
        ("augment", EXAMPLES, "--method", "ctg"),
        ("score", EXAMPLES, "--models", DEFAULT_PACK),
    ],
)
def test_without_a_pack_one_line_says_what_to_install(no_pack: Path, arguments: tuple[str | Path, ...]) -> None:
    done = command(*arguments, path=[no_pack], alone=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "Fix: pip install ./packs/turnwise-mini" in done.stderr


def test_the_readme_of_the_pack_is_its_card() -> None:
    if DEFAULT_PACK not in installed_packs():
        pytest.skip("the pack turnwise-mini is not installed")
    card = (ROOT / "packs" / DEFAULT_PACK / "README.md").read_text(encoding="utf-8")
    assert card == pack_card(brief=True), "run: turnwise pack card --brief > packs/turnwise-mini/README.md"
