"""Standard output that is full, closed or of another encoding: said in one line, and never with a gate's status."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES

FULL = Path("/dev/full")
GATE = ("compare", EXAMPLES, "--metrics", "f1", "--baseline", "juniper", "--fail-if-worse")
NAMES = ("Zoë", "机器人", "🙂")


def finished(
    *arguments: str | Path, stdout: int | io.IOBase = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONIO", "LC_", "LANG"))}
    return subprocess.run(
        [sys.executable, "-m", "turnwise", *map(str, arguments)],
        stdout=stdout,  # type: ignore[arg-type]
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
        env=known | environment,
    )


@pytest.mark.slow
@pytest.mark.skipif(not FULL.exists(), reason="there is no full device here")
@pytest.mark.parametrize("form", ["table", "json"])
def test_an_output_that_is_full_is_said_in_one_line(form: str) -> None:
    with FULL.open("wb") as full:
        passed = finished(*GATE, "f1@0.9", "--format", form, stdout=full)
        failed = finished(*GATE, "f1@0", "--format", form, stdout=full)
    assert (passed.returncode, failed.returncode) == (2, 1)
    assert "the output: cannot be read or written" in passed.stderr.decode()
    assert b"Traceback" not in passed.stderr + failed.stderr
    report = finished("score", EXAMPLES, "--metrics", "length", "--report", FULL)
    assert (report.returncode, report.stderr.count(b"\n")) == (2, 1)
    assert b"/dev/full: cannot be written" in report.stderr


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_a_reader_that_has_gone_is_no_failed_gate_and_hides_none(form: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        passed = finished(*GATE, "f1@0.9", "--format", form, stdout=nobody)
        failed = finished(*GATE, "f1@0", "--format", form, stdout=nobody)
    assert (passed.returncode, failed.returncode) == (141, 1)
    assert b"Error" not in passed.stderr + failed.stderr
    assert b"Exception" not in passed.stderr + failed.stderr


def test_a_fault_of_ours_is_no_failed_gate() -> None:
    broken = "import turnwise.cli.app as app, turnwise.cli as cli; app.run = lambda: 1 / 0; cli.main()"
    done = subprocess.run([sys.executable, "-c", broken], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "a fault of turnwise" in done.stderr
    assert "ZeroDivisionError" in done.stderr


@pytest.fixture
def names(tmp_path: Path) -> Path:
    rows = [{"id": name, "response": "hi there", "references": ["hi"], "system": name} for name in NAMES]
    file = tmp_path / "chats.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_tables_show_what_the_encoding_can(encoding: str, names: Path) -> None:
    done = finished("score", names, "--metrics", "f1", PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    table = done.stdout.decode(encoding)
    assert "f1 ^" in table
    assert ("Zoë" in table) == (encoding != "ascii")


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONUTF8": "0", "LC_ALL": "POSIX"}, {}])
def test_machines_read_every_name(environment: dict[str, str], names: Path) -> None:
    done = finished("score", names, "--metrics", "f1", "--format", "json", **environment)
    assert done.returncode == 0, done.stderr
    assert [turn["id"] for turn in json.loads(done.stdout)["turns"]] == list(NAMES)
    done = finished("score", names, "--metrics", "f1", "--format", "csv", **environment)
    assert done.returncode == 0, done.stderr
    found = [row["id"] for row in csv.DictReader(io.StringIO(done.stdout.decode()))]
    told = "PYTHONIOENCODING" in environment
    assert found == [name.encode("ascii", "backslashreplace").decode() if told else name for name in NAMES]
