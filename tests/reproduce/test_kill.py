"""A run that is killed has lost nothing of what it had finished."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from turnwise.models.pack import Pack


def test_a_killed_run_goes_on(mini_data: Path, toy_pack: Pack, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "turnwise", "reproduce", "usr", "--data", str(mini_data), "--out", str(tmp_path),
               "--models", str(toy_pack.folder), "--limit", "3", "--cache", str(tmp_path / "cache")]  # fmt: skip
    first = tmp_path / "tables" / "usr-1.json"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 60
        while not first.is_file() and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        running.kill()
    assert running.returncode < 0
    assert not (tmp_path / "usr.md").exists()
    before = first.stat().st_mtime_ns
    again = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("usr: 1036 published numbers")
    assert first.stat().st_mtime_ns == before
    assert (tmp_path / "usr.md").is_file()
    assert not list((tmp_path / "tables").glob("*.partial"))
