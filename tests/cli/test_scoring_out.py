"""An output folder holds one whole result, whatever ends the run and whoever else writes there."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from turnwise.files import claim, sha256_of

COMMAND = [sys.executable, "-m", "turnwise"]


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    rows = [{"response": f"one two {n}", "system": "ab"[n % 2], "context": [f"hi {n // 2}"]} for n in range(60)]
    file = tmp_path / "chats.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def run(*command: object, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command, with files of `limit` bytes at most."""

    def before() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    words = [*COMMAND, *map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120, preexec_fn=before)


def test_a_result_names_its_state_and_the_hashes_of_its_files(chats: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "charts").mkdir(parents=True)
    (out / "charts" / "learning.svg").write_text("mine")
    (out / "charts" / "ranking.svg").write_text("old")
    (out / "turns.partial.jsonl").write_text("old")
    assert run("score", chats, "-m", "length", "--out", out).returncode == 0
    result = json.loads((out / "result.json").read_text())
    assert result["state"] == "complete"
    assert {"turns.parquet", "systems.csv", "charts/ranking.svg"} <= result["files"].keys()
    assert result["files"] == {name: sha256_of(out / name) for name in result["files"]}
    there = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert there == {"result.json", "charts/learning.svg", *result["files"]}


def test_a_folder_of_another_run_is_refused_before_any_work(chats: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("score", chats, "-m", "length", "--out", out).returncode == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with claim(out):
        for command in (("score", chats, "-m", "length,nothing-such"), ("merge", tmp_path / "none")):
            finished = run(*command, "--out", out)
            assert finished.returncode == 2
            assert finished.stderr.count("\n") == 1
            assert f"process {os.getpid()} since" in finished.stderr
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["result.json", "turns.partial.jsonl"])
def test_a_folder_in_the_place_of_a_file_is_refused_before_any_work(chats: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "out" / name).mkdir(parents=True)
    finished = run("score", chats, "-m", "nothing-such", "--out", tmp_path / "out")
    assert finished.returncode == 2
    assert "has the name of an output file" in finished.stderr


@pytest.mark.parametrize("name", ["result.json", "turns.partial.jsonl"])
def test_a_link_is_replaced_and_what_it_points_to_stays(chats: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "out" / name).symlink_to(tmp_path / "theirs")
    assert run("score", chats, "-m", "length", "--out", tmp_path / "out").returncode == 0
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert not (tmp_path / "out" / name).is_symlink()


@pytest.mark.parametrize("limit", [200, 4000])
def test_a_full_disk_leaves_the_last_good_result(chats: Path, tmp_path: Path, limit: int) -> None:
    out = tmp_path / "out"
    assert run("score", chats, "-m", "length", "--out", out).returncode == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    finished = run("score", chats, "-m", "length", "--cache", "off", "--out", out, limit=limit)
    assert finished.returncode == 2
    assert len(finished.stderr.splitlines()) == 1, finished.stderr
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_a_consistent_partial_result(tmp_path: Path, number: signal.Signals, status: int) -> None:
    out = tmp_path / "out"
    command = [*COMMAND, "score", "-", "-m", "length", "--out", str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdin is not None
        running.stdin.write("".join(json.dumps({"response": "one " * (n % 7 + 1)}) + "\n" for n in range(40_000)))
        running.stdin.flush()
        ready = out / "turns.partial.jsonl"
        while not ready.exists() or ready.stat().st_size < 100:
            time.sleep(0.02)
        running.send_signal(number)
        err = running.communicate(timeout=60)[1]
    assert running.returncode == status
    assert f"to resume: turnwise score - -m length --out {out}" in err
    result = json.loads((out / "result.json").read_text())
    assert result["state"] == "partial"
    lengths = [turn["scores"]["length"] for turn in result["turns"]]
    value = result["systems"][0]["scores"]["length"]
    assert 0 < value["n"] == len(lengths) < 40_000
    assert value["value"] == pytest.approx(sum(lengths) / len(lengths), rel=1e-12)
    assert not ready.exists()


def test_what_a_killed_run_left_is_cleared_by_the_next(chats: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [*COMMAND, "score", "-", "-m", "length", "--out", str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as running:
        while not list(out.glob(".turns.*.partial")):
            time.sleep(0.02)
        running.kill()
    assert run("score", chats, "-m", "length", "--out", out).returncode == 0
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


EXAMPLES = Path(__file__).parents[2] / "examples" / "chats.jsonl"
SELECT = ("select", EXAMPLES, "--metric", "meteor", "--against", "f1")
# Commands that write files which people fill in or edit, with these files.
WORK: dict[tuple[object, ...], tuple[str, ...]] = {
    ("fit", EXAMPLES, "-m", "length,distinct-1", "--save", "mine.toml"): ("mine.toml",),
    (*SELECT, "--ballots", "ballots.csv", "--key", "key.json"): ("ballots.csv", "key.json"),
    (*SELECT, "--ballots", "other.csv", "--key", "key.json"): ("key.json",),
    (*SELECT[:4], "--save", "ratings.jsonl"): ("ratings.jsonl",),
}


@pytest.mark.parametrize("command", WORK)
def test_peoples_work_survives_a_command_run_twice(tmp_path: Path, command: tuple[object, ...]) -> None:
    words = [*COMMAND, *map(str, command)]

    def again(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*words, *more], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    for name in WORK[command]:
        (tmp_path / name).write_text("filled in by people" if name != "mine.toml" else "parts = [] # mine")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    refused = again()
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1
    assert "exists and may hold people's work" in refused.stderr
    assert "--overwrite" in refused.stderr
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert again("--overwrite").returncode == 0
    assert all((tmp_path / name).read_bytes() != before[tmp_path / name] for name in WORK[command])
