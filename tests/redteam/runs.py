"""Kill, signal, crowd and starve whole commands: the output folder holds a whole result, and every status is right."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnwise.analyses.verify import verify
from turnwise.errors import TurnwiseError
from turnwise.files import claim

EXAMPLES = Path(__file__).parents[2] / "examples" / "chats.jsonl"
# What `verify` may find in a folder, by how the run ended.
WHOLE: tuple[list[str], ...] = ([],)
ASKED = (*WHOLE, ["result.partial"])
KILLED = (*ASKED, ["result.running"], ["result.unfinished"], ["result.partial", "result.running"])
KILLED = (*KILLED, ["result.running", "result.partial"])
ENDINGS = {
    "killed": (signal.SIGKILL,),
    "interrupted": (signal.SIGINT,),
    "terminated": (signal.SIGTERM,),
    "interrupted twice": (signal.SIGINT, signal.SIGINT),
}
# A shell reports 128 and the number; Python itself, before our first line, ends by the signal.
STATUSES = {"killed": {-9}, "interrupted": {130, -2}, "terminated": {143, -15}, "interrupted twice": {130, -2}}


def attack_signals(rounds: int, rng: random.Random, work: Path) -> Counter[str]:
    """End commands at random moments: the earlier result stays, or a new one is whole or says that it is partial."""
    counts: Counter[str] = Counter()
    rows = work / "rows.jsonl"
    rows.write_text("".join(_row(number) for number in range(6_000)))
    good = work / "good"
    seconds = _timed([*_score(rows, good)])
    shards = [work / "one", work / "two"] if rounds > 2 else []
    for number, folder in enumerate(shards, 1):
        _timed([*_score(rows, folder), "--shard", f"{number}/2"])
    for _ in range(rounds):
        out = work / "out"
        shutil.rmtree(out, ignore_errors=True)
        if rng.random() < 0.7:
            shutil.copytree(good, out)
        command = _score(rows, out)
        if shards and rng.random() < 0.25:
            command = ["merge", *map(str, shards), "--out", str(out)]
        how = rng.choice([*ENDINGS])
        counts["commands ended by a signal"] += 1
        status, err = _ended(command, how, rng, seconds)
        for fault in _faults(out, how, status, err):
            counts[f"HARM {command[0]} {how}: {fault}"] += 1
        counts[f"{how}: exit {status}"] += 1
    return counts


def attack_others(rounds: int, rng: random.Random, work: Path) -> Counter[str]:
    """End commands that write single files: each file is whole, and is the earlier one or the new one."""
    counts: Counter[str] = Counter()
    commands = {
        "fit": ["-m", "length,distinct-1", "--overwrite", "--save", "{}/fit.json"],
        "select": ["--metric", "meteor", "--save", "{}/picks.jsonl", "--overwrite"],
        "augment": ["--save", "{}/asked.jsonl"],
        "compare": ["-m", "length"],
        "metaeval": ["-m", "length"],
    }
    for number in range(rounds):
        name = [*commands][number % len(commands)]
        out = work / name
        out.mkdir(exist_ok=True)
        command = [name, str(EXAMPLES), *(word.format(out) for word in commands[name])]
        how = rng.choice([*ENDINGS])
        counts["commands ended by a signal"] += 1
        status, err = _ended(command, how, rng, 2.5)
        if status not in STATUSES[how] | {0}:
            counts[f"HARM {name} {how}: exit {status}: {err[-200:]}"] += 1
        for file in out.iterdir():
            if file.name.startswith("."):
                continue
            try:
                text = file.read_text()
                [json.loads(line) for line in (text.splitlines() if file.suffix == ".jsonl" else [text])]
            except ValueError:
                counts[f"HARM {name} {how}: {file.name} is torn"] += 1
        counts[f"{how}: exit {status}"] += 1
    return counts


def attack_crowds(rounds: int, rng: random.Random, work: Path) -> Counter[str]:
    """Start several processes on one folder and one cache: one writes, the others are refused, nothing is mixed."""
    counts: Counter[str] = Counter()
    rows = work / "rows.jsonl"
    rows.write_text("".join(_row(number) for number in range(40)))
    for number in range(rounds):
        many = 8 if number % 7 == 6 else 2
        out, cache = work / "out", work / "cache"
        if rng.random() < 0.5:
            shutil.rmtree(cache, ignore_errors=True)
        shutil.rmtree(out, ignore_errors=True)
        command = ["score", str(rows), "-m", "length,vup", "--cache", str(cache), "--out", str(out)]
        running = [_start(command) for _ in range(many)]
        ends = [(process.communicate()[1], process.returncode) for process in running]
        counts["groups of eight" if many == 8 else "pairs"] += 1
        if not any(status == 0 for _, status in ends):
            counts[f"HARM no process finished: {ends[0][0][-200:]}"] += 1
        for err, status in ends:
            if status != 0 and (status != 2 or "another run writes here" not in err):
                counts[f"HARM exit {status}: {err[-200:]}"] += 1
        for folder in (out, cache):
            if found := _found(folder):
                counts[f"HARM {folder.name}: {found}"] += 1
    return counts


def attack_full_disks(rounds: int, rng: random.Random, work: Path) -> Counter[str]:
    """Let the disk run full at random sizes: the earlier result stays, one line says so, the status is 2."""
    counts: Counter[str] = Counter()
    rows = work / "rows.jsonl"
    rows.write_text("".join(_row(number) for number in range(400)))
    good, small = work / "good", work / "small"
    _timed(_score(rows, good))
    small.mkdir()
    for number in range(rounds):
        size = rng.choice((300, 1_000, 5_000, 20_000, 60_000, 100_000))
        # A file takes whole pages.
        held = sum(-(-file.stat().st_size // 4096) * 4096 + 4096 for file in good.rglob("*"))
        mounted = number % 2 == 1 and _mounted(small, held + 16_384 + size)
        kind = "a small tmpfs" if mounted else "RLIMIT_FSIZE"
        out = small / "out" if mounted else work / "out"
        shutil.rmtree(out, ignore_errors=True)
        try:
            shutil.copytree(good, out)
            process = _start(_score(rows, out), None if mounted else size)
            err = process.communicate()[1]
            counts[f"full disks: {kind}"] += 1
            counts[f"{kind}: exit {process.returncode}"] += 1
            if process.returncode not in (0, 2) or len(err.splitlines()) > 2:
                counts[f"HARM exit {process.returncode}: {err[-200:]}"] += 1
            if found := _found(out):
                counts[f"HARM {kind}: {found}"] += 1
        finally:
            if mounted:
                subprocess.run(["umount", str(small)], check=True)
    return counts


def _row(number: int) -> str:
    response = " ".join(["word"] * (number % 9 + 1))
    return json.dumps({"response": response, "system": "abc"[number % 3], "context": [f"hi {number // 3}"]}) + "\n"


def _score(rows: Path, out: Path) -> list[str]:
    return ["score", str(rows), "-m", "length,distinct-1", "--cache", "off", "--out", str(out)]


def _start(command: Sequence[str], limit: int | None = None) -> subprocess.Popen[str]:
    def before() -> None:
        # What started us in the background may have told its children to ignore interrupts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-m", "turnwise", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
    )


def _timed(command: Sequence[str]) -> float:
    started = time.monotonic()
    process = _start(command)
    if process.communicate()[1] and process.returncode:
        raise RuntimeError(f"{command}: exit {process.returncode}")
    return time.monotonic() - started


def _ended(command: Sequence[str], how: str, rng: random.Random, seconds: float) -> tuple[int, str]:
    """Run a command, send it signals at random moments, and return its status and what it wrote on stderr."""
    process = _start(command)
    time.sleep(rng.uniform(0.3, 1.1) * seconds)
    for number in ENDINGS[how]:
        if process.poll() is None:
            process.send_signal(number)
            time.sleep(rng.uniform(0, 0.3))
    try:
        err = process.communicate(timeout=120)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return 999, "does not end"
    return process.returncode, err


def _faults(out: Path, how: str, status: int, err: str) -> list[str]:
    """Return what is wrong with a folder after its run was ended, and after the next run has claimed it."""
    if status not in STATUSES[how] | {0}:
        return [f"exit {status}: {err[-200:]}"]
    if not out.exists():
        return []
    allowed = KILLED if how in ("killed", "interrupted twice") or status < 0 else ASKED
    faults = []
    if (found := _found(out)) not in allowed:
        faults.append(f"{found} with exit {status}")
    with claim(out):
        pass
    if left := [path.name for path in out.iterdir() if path.name.startswith(".")]:
        faults.append(f"left {left}")
    if (found := _found(out)) not in allowed or "result.unfinished" in found:
        faults.append(f"{found} after the next run")
    if (out / "result.json").exists():
        faults += _inconsistent(json.loads((out / "result.json").read_text()))
    return faults


def _found(folder: Path) -> list[str]:
    try:
        return sorted(problem.code if problem.code != "other" else str(problem) for problem in verify(folder))
    except TurnwiseError as problem:
        return [] if problem.code == "verify.nothing" else [str(problem)]


def _inconsistent(result: dict[str, Any]) -> list[str]:
    """Return whether a system's value is not that of the turns in the same file."""
    lengths: dict[str, list[float]] = {}
    for turn in result["turns"]:
        lengths.setdefault(turn["system"], []).append(turn["scores"]["length"])
    for entry in result["systems"]:
        mine, value = lengths[entry["system"]], entry["scores"]["length"]
        if value["n"] != len(mine) or abs(value["value"] - sum(mine) / len(mine)) > 1e-9:
            return ["values of other turns"]
    return []


def _mounted(folder: Path, size: int) -> bool:
    """Mount a small file system, if we may."""
    if os.name == "nt" or os.geteuid() != 0:
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
