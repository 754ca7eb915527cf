"""`turnwise fit`, `turnwise select` and `score --config`, through the command itself."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import EXAMPLES, turnwise

THREE = "length,distinct-1,meteor"


def document(*arguments: str | Path) -> Any:
    finished = turnwise(*arguments, "--format", "json")
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


@pytest.mark.slow
def test_a_fit_is_written_and_scored_with(tmp_path: Path) -> None:
    config = tmp_path / "raters.toml"
    found = document("fit", EXAMPLES, "--target", "Overall", "--metrics", THREE, "--save", config)
    assert (found["target"], found["config"]) == ("Overall", str(config))
    assert [weight["metric"] for weight in found["weights"]] == THREE.split(",")
    assert all(weight["low"] <= weight["weight"] <= weight["high"] for weight in found["weights"])
    assert found["cross_validated"]["pearson"] < found["in_sample"]["pearson"]
    scored = document("score", EXAMPLES, "--metrics", "f1", "--config", config)
    assert list(scored["turns"][0]["scores"]) == ["f1", "raters"]
    assert {entry["system"] for entry in scored["systems"]} == {"juniper", "kestrel", "marble", "tin-can"}
    judged = document("metaeval", EXAMPLES, "--metrics", "f1", "--config", config, "--qualities", "Overall")
    assert [row["metric"] for row in judged["rows"]] == ["f1", "raters"]
    compared = document("compare", EXAMPLES, "--metrics", "raters", "--config", config, "--baseline", "kestrel")
    assert {row["metric"] for row in compared["rows"]} == {"raters"}
    gate = ("--baseline", "juniper", "--fail-if-worse", "raters@0.01")
    failed = turnwise("compare", EXAMPLES, "--config", config, *gate)
    assert failed.returncode == 1, failed.stderr
    assert "gate failed: tin-can is worse than juniper on raters" in failed.stderr


@pytest.mark.slow
def test_fit_shows_the_fit_beside_each_metric(tmp_path: Path) -> None:
    options = ("--non-negative", "--ridge", "2", "--per-rater", "--folds", "5", "--exclude-system", "tin-can")
    finished = turnwise("fit", EXAMPLES, "--metrics", THREE, "--save", tmp_path / "x.json", *options)
    assert finished.returncode == 0, finished.stderr
    assert "the fit, held out (5 folds)" in finished.stdout
    assert all(name in finished.stdout for name in THREE.split(","))
    assert f"turnwise score FILE --config {tmp_path / 'x.json'}" in finished.stderr


@pytest.mark.slow
def test_select_writes_picks_and_ballots_and_counts_votes(tmp_path: Path) -> None:
    best, ballots, key = tmp_path / "best.jsonl", tmp_path / "ballots.csv", tmp_path / "key.json"
    files = ("--save", best, "--ballots", ballots, "--key", key)
    found = document("select", EXAMPLES, "--metric", "meteor", "--against", "distinct-1", *files)
    assert len(found["picks"]) == 15 == len(best.read_text().splitlines())
    assert sum(entry["picked"] for entry in found["systems"]) == 15
    with ballots.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == found["against"]["differ"] > 0
    sides = json.loads(key.read_text())["ballots"]
    with ballots.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(
            row | dict.fromkeys(("vote 1", "vote 2", "vote 3"), sides[row["ballot"]]["metric"]) for row in rows
        )
    counted = document("select", "--votes", ballots, "--key", key)
    assert (counted["wins"], counted["losses"], counted["win_rate"]) == (len(rows), 0, 1.0)
    shown = turnwise("select", "--votes", ballots, "--key", key)
    assert "meteor against distinct-1" in shown.stdout


def test_select_shows_how_often_each_system_was_picked() -> None:
    finished = turnwise("select", EXAMPLES, "--metric", "meteor")
    assert finished.returncode == 0, finished.stderr
    assert "tin-can" in finished.stdout
    assert "%" in finished.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fit", EXAMPLES, "--target", "Fun", "--save", "{tmp}/x.toml"), "Overall"),
        (("fit", EXAMPLES, "--folds", "1"), "--folds"),
        (("fit", EXAMPLES, "--ridge", "-1"), "--ridge"),
        (("fit", EXAMPLES, "--metrics", THREE, "--save", "/proc/none/x.toml"), "cannot be written"),
        (("score", EXAMPLES, "--config", "absent.toml"), "absent.toml"),
        (("select", EXAMPLES), "--metric"),
        (("select", "--votes", "v.csv"), "--key"),
        (("select", EXAMPLES, "--metric", "length"), "no better or worse"),
    ],
)
def test_what_cannot_be_done_exits_with_two_and_one_line(
    arguments: tuple[Any, ...], words: str, tmp_path: Path
) -> None:
    finished = turnwise(*(str(argument).replace("{tmp}", str(tmp_path)) for argument in arguments))
    assert finished.returncode == 2
    assert words in finished.stderr
    assert finished.stderr.count("\n") == 1
    assert finished.stdout == ""
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_the_names_of_0_1_still_work_and_say_so(tmp_path: Path) -> None:
    done = turnwise("fit", EXAMPLES, "--metrics", "length,distinct-1", "--config", tmp_path / "old.toml")
    assert (done.returncode, (tmp_path / "old.toml").exists()) == (0, True)
    assert "note: --config is called --save from 0.2 on" in done.stderr
    done = turnwise("select", EXAMPLES, "--metric", "f1", "--out", tmp_path / "old.jsonl")
    assert (done.returncode, (tmp_path / "old.jsonl").exists()) == (0, True)
    assert "note: --out is called --save from 0.2 on" in done.stderr
