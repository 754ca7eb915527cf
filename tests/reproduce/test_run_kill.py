"""A run that is killed has lost nothing of what it had finished."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from turnwise.models.pack import Pack


@pytest.mark.slow
def test_a_killed_run_goes_on(mini_data: Path, toy_pack: Pack, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "turnwise", "reproduce", "usr", "--data", str(mini_data), "--out", str(tmp_path),
               "--models", str(toy_pack.folder), "--limit", "3", "--cache", str(tmp_path / "cache")]  # fmt: skip
    first = tmp_path / "tables" / "usr-1.json"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        while not first.is_file() and running.poll() is None:
            time.sleep(0.01)
        running.kill()
    assert running.returncode < 0
    assert not (tmp_path / "usr.md").exists()
    before = first.stat().st_mtime_ns
    published = tmp_path / "published"
    (published / "figures").mkdir(parents=True)
    for old in ("fbd.md", "figures/usr-old.svg"):
        (published / old).write_text("old")
    command += ["--publish", str(published)]
    again = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("usr: 1036 published numbers")
    assert first.stat().st_mtime_ns == before
    assert (tmp_path / "usr.md").is_file()
    assert not list((tmp_path / "tables").glob("*.partial"))
    assert (published / "usr.md").read_text() == (tmp_path / "usr.md").read_text()
    assert (tmp_path / "usr.json").is_file()
    assert not (published / "usr.json").exists()
    assert (published / "fbd.md").exists()
    assert not (published / "figures" / "usr-old.svg").exists()


def children_of(pid: int) -> set[int]:
    """The processes that a process started; only Linux tells."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return {int(one) for one in listed.read_text().split()} if listed.is_file() else set()


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux tells what a process started")
def test_what_a_killed_run_started_ends_with_it(mini_data: Path, toy_pack: Pack, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "turnwise", "reproduce", "all", "--data", str(mini_data), "--out", str(tmp_path),
               "--models", str(toy_pack.folder), "--limit", "3", "--cache", str(tmp_path / "cache")]  # fmt: skip
    alone = {"TURNWISE_THREADS": "2"}
    with subprocess.Popen(command, env={**os.environ, **alone}, stderr=subprocess.DEVNULL) as running:
        while not list(tmp_path.glob("tables/*.json")) and running.poll() is None:
            time.sleep(0.02)
        started = children_of(running.pid)
        running.kill()
    assert len(started) >= 2
    deadline = time.monotonic() + 30
    while (left := {pid for pid in started if alive(pid)}) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
