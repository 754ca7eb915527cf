"""The commands around models, on tiny packs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def turnwise(*arguments: str | Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "turnwise", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def test_a_sound_pack_is_verified_and_described(small_pack: Path) -> None:
    verified = turnwise("pack", "verify", small_pack)
    assert verified.returncode == 0, verified.stderr
    assert all(role in verified.stdout for role in ("encoder", "masked-lm", "causal-lm"))
    roles = json.loads(turnwise("pack", "verify", small_pack, "--format", "json").stdout)["roles"]
    assert {"encoder", "masked-lm", "causal-lm"} <= {role["role"] for role in roles}
    assert all(role["size"] > 0 for role in roles)
    card = turnwise("pack", "card", small_pack)
    assert card.stdout.startswith("# ")
    assert "Licence of the pack" in card.stdout


def test_installed_packs_are_listed_for_people_and_programs() -> None:
    shown, read = turnwise("pack", "list"), json.loads(turnwise("pack", "list", "-f", "json").stdout)["packs"]
    for pack in read:
        assert pack["name"] in shown.stdout
        assert f"{pack['size'] / 1e6:.1f}" in shown.stdout
    assert turnwise("pack", "list", "-f", "csv").stdout.startswith("name,version,roles,licence,size\n")


def test_models_leave_nothing_in_the_home_of_their_user(small_pack: Path, tmp_path: Path) -> None:
    hidden = ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    home = {name: value for name, value in os.environ.items() if name not in hidden} | {"HOME": str(tmp_path)}
    verified = turnwise("pack", "verify", small_pack, environment=home)
    assert verified.returncode == 0, verified.stderr
    assert not list(tmp_path.rglob("*"))


def test_a_damaged_pack_is_refused_in_one_line(small_pack: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in small_pack.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    victim = next(copy.glob("*.onnx"))
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    finished = turnwise("pack", "verify", copy)
    assert finished.returncode == 2
    assert finished.stderr.count("\n") == 1
    assert "damaged or swapped" in finished.stderr


def test_a_pack_is_built_from_checkpoints(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    dialogues = tmp_path / "chats.jsonl"
    turns = [{"speaker": "A", "text": "do you like tea"}, {"speaker": "B", "text": "yes i like tea"}]
    dialogues.write_text(json.dumps({"dialogue_id": "1", "turns": turns}) + "\n")
    out = tmp_path / "pack"
    built = turnwise(
        *("pack", "build", checkpoints["masked-lm"], "--out", out, "--licence", "CC0", "--texts", dialogues)
    )
    assert built.returncode == 0, built.stderr
    assert turnwise("pack", "verify", out).returncode == 0
    again = turnwise("pack", "build", checkpoints["masked-lm"], "--out", out, "--licence", "CC0")
    assert again.returncode == 2
    assert "exists already" in again.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("pack", "verify", "nowhere"), "pack 'nowhere' is not known"),
        (("train", "sing", "chats.jsonl", "--base", "nowhere", "--out", "out"), "objective: expected"),
        (("data", "decontaminate", "absent.jsonl", "--evaluation", "absent.jsonl", "--out", "out"), "absent.jsonl"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    arguments: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    finished = turnwise(*arguments)
    assert finished.returncode == 2, finished.stderr
    assert words in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_decontamination_removes_and_names(tmp_path: Path) -> None:
    said = "I have been planting tomatoes all day long"
    chats, rated = tmp_path / "chats.jsonl", tmp_path / "rated.jsonl"
    rows = [{"dialogue_id": n, "turns": [{"speaker": "A", "text": text}]} for n, text in (("a", said), ("b", "hi"))]
    chats.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rated.write_text(json.dumps({"context": [said.lower() + " ."], "response": "nice"}) + "\n")
    finished = turnwise("data", "decontaminate", chats, "--evaluation", rated, "--out", tmp_path / "clean")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == f"chats/a\t{said}\n"
    assert [json.loads(line)["dialogue_id"] for line in (tmp_path / "clean" / "chats.jsonl").open()] == ["b"]
