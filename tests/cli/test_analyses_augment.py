"""`turnwise augment`, through the command itself."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, turnwise

BOT = """
import json, sys
for line in sys.stdin:
    prompt = json.loads(line)
    print(json.dumps({"response": f"{len(prompt['context'])} turns, and then: {prompt['context'][-1]}"}), flush=True)
"""


@pytest.fixture
def command(tmp_path: Path) -> str:
    (tmp_path / "bot.py").write_text(BOT)
    return f"command:'{sys.executable}' '{tmp_path / 'bot.py'}'"


@pytest.mark.slow
def test_rows_go_to_stdout_or_to_a_file(tmp_path: Path) -> None:
    printed = turnwise("augment", EXAMPLES, "--limit", "3")
    assert printed.returncode == 0, printed.stderr
    rows = [json.loads(line) for line in printed.stdout.splitlines()]
    assert {row["group"] for row in rows} == {"c01", "c02", "c03"}
    written = turnwise("augment", EXAMPLES, "--limit", "3", "--save", tmp_path / "asked.jsonl")
    assert written.stdout == ""
    assert (tmp_path / "asked.jsonl").read_text() == printed.stdout
    assert f"{len(rows)} rows written to" in written.stderr


@pytest.mark.slow
def test_one_command_drives_a_bot_scores_and_reports(tmp_path: Path, command: str) -> None:
    out, report = tmp_path / "answers.jsonl", tmp_path / "report.html"
    arguments = ("augment", EXAMPLES, "--limit", "4", "--bot", command, "--save", out, "--system", "my-bot")
    found = turnwise(*arguments, "--format", "json", "--report", report)
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    assert [entry["system"] for entry in document["systems"]] == ["my-bot"]
    assert document["systems"][0]["scores"]["diversity"]["n"] == 4
    assert report.stat().st_size > 10_000
    answers = out.read_text()
    table = turnwise(*arguments)
    assert "diversity" in table.stdout
    assert "answers were in" in table.stderr
    assert out.read_text() == answers


def test_a_function_from_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "polite.py").write_text("def reply(prompt):\n    return 'Thank you.'\n")
    found = turnwise(
        *("augment", EXAMPLES, "--limit", "3", "--bot", "python:polite:reply", "--save", "a.jsonl", "-f", "json"),
        folder=tmp_path,
    )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["systems"][0]["system"] == "reply"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--bot", "parrot", "--save", "x.jsonl"), "--bot parrot: not known"),
        (("--bot", "tfidf"), "give --save FILE.jsonl"),
        (("--report", "x.html"), "add --bot"),
        (("--metrics", "diversity"), "add --bot"),
        (("--bot", "command:/nowhere/bot", "--save", "x.jsonl"), "cannot be run"),
        (("--method", "nonsense"), "nonsense"),
    ],
)
def test_a_request_that_cannot_be_met(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    found = turnwise("augment", EXAMPLES, *arguments, folder=tmp_path)
    assert (found.returncode, found.stdout) == (2, "")
    assert words in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1


def test_an_interrupt_keeps_the_answers(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, signal\nasked = []\n"
        "def reply(prompt):\n"
        "    asked.append(1)\n"
        "    if len(asked) == 4:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        __import__('time').sleep(5)\n"
        "    return 'ok'\n"
    )
    if os.name != "posix":
        pytest.skip("signals are sent otherwise here")
    found = turnwise("augment", EXAMPLES, "--bot", "python:slow:reply", "--save", "a.jsonl", folder=tmp_path)
    assert found.returncode == 130
    assert "the same command goes on from there" in found.stderr
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 3
