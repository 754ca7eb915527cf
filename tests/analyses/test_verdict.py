"""The verdict: which system, on which metric and why; the same words wherever a run ends."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import turnwise as tw
from turnwise.analyses.verdict import RECORD, choose_metric, main_quality, markdown

EXAMPLES = Path(__file__).parents[2] / "examples" / "chats.jsonl"
LEADERBOARD = Path(__file__).parents[2] / "docs" / "results" / "reproduce" / "leaderboard.md"


def rows(n: int, *systems: tuple[str, float], seed: int = 0) -> Iterator[dict[str, Any]]:
    """Systems that say a share of the reference's words."""
    rng = Random(seed)
    for number in range(n):
        words = [f"w{rng.randrange(40)}" for _ in range(10)]
        for system, share in systems:
            said = " ".join(word if rng.random() < share else "um" for word in words)
            yield {
                "id": f"{system} {number}",
                "system": system,
                "context": [f"question {number}"],
                "response": said,
                "references": [" ".join(words)],
            }


def one_context() -> list[dict[str, Any]]:
    return list(rows(1, ("old", 0.9), ("new", 0.2)))


def no_difference() -> list[dict[str, Any]]:
    return list(rows(40, ("old", 0.8), ("new", 0.8)))


def one_silent() -> list[dict[str, Any]]:
    found = list(rows(24, ("old", 0.8), ("new", 0.8)))
    return [{**row, "response": ""} if row["system"] == "new" else row for row in found]


def tails_only() -> list[dict[str, Any]]:
    found = list(rows(36, ("old", 0.7), ("new", 0.78), seed=3))
    broken = {f"new {n}" for n in range(4)}
    return [{**row, "response": "xq zz"} if row["id"] in broken else row for row in found]


def contradictory() -> list[dict[str, Any]]:
    # The old one says the right words once, the new one says other words without repeating itself.
    found = []
    for row in rows(30, ("old", 1.0), ("new", 0.0)):
        n = row["id"].split()[1]
        other = " ".join(f"v{n}x{place}" for place in range(10))
        found.append({**row, "response": other if row["system"] == "new" else f"{row['response']} {row['response']}"})
    return found


FILES = {
    "one context": (one_context, "f1", None),
    "no difference": (no_difference, "f1,rouge-l", None),
    "one silent": (one_silent, "f1,rouge-l", "old"),
    "tails only": (tails_only, "f1,meteor", None),
    "contradictory": (contradictory, "f1,distinct-1", "old"),
}


def turnwise(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "turnwise", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_form_says_the_same(name: str, tmp_path: Path) -> None:
    make, metrics, first_choice = FILES[name]
    file, page, summary = tmp_path / "chats.jsonl", tmp_path / "page.html", tmp_path / "summary.md"
    file.write_text("".join(json.dumps(row) + "\n" for row in make()))
    asked = (file, "--metrics", metrics)
    scored = json.loads(turnwise("score", *asked, "--format", "json").stdout)["verdict"]
    compared = json.loads(turnwise("compare", *asked, "--format", "json").stdout)
    assert scored == compared["verdict"]
    assert scored["choose"] == first_choice
    terminal = turnwise("score", *asked, "--report", page, "--summary", summary)
    beside = turnwise("compare", *asked).stdout
    shown = html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))
    plain = re.sub(r"\\(.)", r"\1", html.unescape(summary.read_text(encoding="utf-8")))
    for line in scored["text"].splitlines():
        assert line in terminal.stdout
        assert line in beside
        assert line in shown
        assert line in plain
    for row in compared["rows"]:
        assert f"| {row['verdict']} |" in summary.read_text(encoding="utf-8")
        if row["p"] is not None:
            assert (row["p"] < 0.05) == (row["low"] > 0 or row["high"] < 0)


@pytest.mark.slow
def test_the_example_file_says_the_same_everywhere(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    scored = turnwise("score", EXAMPLES, "--metrics", "f1,meteor,fluency", "--report", page)
    compared = json.loads(turnwise("compare", EXAMPLES, "--metrics", "f1,meteor,fluency", "--format", "json").stdout)
    shown = html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))
    for line in compared["verdict"]["text"].splitlines():
        assert line in scored.stdout
        assert line in shown


def test_a_clear_winner_is_chosen() -> None:
    found = tw.compare(list(rows(30, ("old", 0.3), ("mid", 0.5), ("new", 0.95))), metrics=["f1", "length"]).verdict
    assert (found.choose, found.metric) == ("new", "f1")
    assert found.lines[0] == "Choose new: it is better than old and mid on f1."
    assert "agreed best with people on the leaderboard" in found.why


def test_what_is_open_says_what_would_settle_it() -> None:
    found = tw.compare(no_difference(), metrics=["f1"]).verdict
    assert found.choose is None
    assert found.lines[0] == "No choice yet: old and new cannot be told apart on f1."
    assert "would settle" in found.next[0] or "--fail-unless-as-good" in found.next[0]


def test_equal_replies_leave_either() -> None:
    same = [{**row, "response": row["references"][0]} for row in no_difference()]
    found = tw.compare(same, metrics=["f1"]).verdict
    assert found.lines[0] == "Choose any of old and new: they are equivalent on f1."


def test_against_a_baseline() -> None:
    systems = (("old", 0.6), ("worse", 0.1), ("better", 0.98))
    found = tw.compare(list(rows(30, *systems)), metrics=["f1"], baseline="old").verdict
    assert found.choose == "better"
    assert found.lines[0] == "Choose better: better is better than old; worse is worse than old (on f1)."
    kept = tw.compare(list(rows(30, systems[0], systems[1], ("bad", 0.2))), metrics=["f1"], baseline="old").verdict
    assert kept.choose == "old"
    assert kept.lines[0] == "Keep old: worse and bad are worse than old (on f1)."


def test_a_passed_gate_says_how_narrowly_and_a_failed_one_why() -> None:
    data = list(rows(30, ("old", 0.8), ("new", 0.78)))
    passed = tw.compare(data, metrics=["f1"], baseline="old", fail_if_worse=["f1@0.4"]).verdict
    assert passed.gate.startswith("passed; the closest was new on f1")
    failed = tw.compare(
        list(rows(30, ("old", 0.9), ("new", 0.1))), metrics=["f1"], baseline="old", fail_if_worse=["f1@0.1"]
    ).verdict
    assert failed.gate.startswith("failed (1 condition): new is worse than old on f1")
    unchecked = tw.compare(one_context(), metrics=["f1"], baseline="old", fail_if_worse=["f1@0.1"]).verdict
    assert unchecked.gate.startswith("cannot be checked")


def test_disagreement_and_failures_are_said() -> None:
    found = tw.compare(contradictory(), metrics=["f1", "distinct-1"]).verdict
    assert found.disagree == ("distinct-1 finds new better than old, against f1",)
    silent = tw.compare(one_silent(), metrics=["f1"]).verdict
    assert silent.left_out == ("24 of 24 replies of new that are blank or missing (counted as the worst replies)",)
    assert "find out why replies are missing" in silent.next


def test_own_ratings_choose_the_metric() -> None:
    data = list(rows(40, ("old", 0.5), ("new", 0.6)))
    rng = Random(2)
    for row in data:
        # People like what repeats itself least.
        varied = len(set(row["response"].split())) / 10
        row["ratings"] = {"Natural": [rng.random()], "Overall": [varied + 0.1 * rng.random()]}
    found = tw.compare(data, metrics=["distinct-1", "f1"]).verdict
    assert found.metric == "distinct-1"
    assert "your ratings of Overall" in found.why
    assert not any("rate some replies" in line for line in found.next)
    few = tw.compare(data[:20], metrics=["distinct-1", "f1"]).verdict
    assert few.metric == "f1"


def test_without_a_direction_nothing_is_chosen() -> None:
    result = tw.evaluate(no_difference(), metrics=["length"])
    assert (result.verdict.choose, result.verdict.metric) == (None, None)
    assert choose_metric(result.judged, result.metrics).metric is None
    assert main_quality([]) is None
    alone = tw.evaluate(list(rows(5, ("only", 0.5))), metrics=["f1"])
    assert alone.verdict.lines[0] == "One system: there is nothing to choose between."


def test_markdown_takes_names_literally() -> None:
    data = [{**row, "system": f"{row['system']}|<b>*_"} for row in no_difference()]
    comparison = tw.compare(data, metrics=["f1"])
    text = markdown(comparison.verdict, comparison)
    assert "<b>" not in text
    assert len(text.splitlines()[-1].split(" | ")) == 7


def test_the_record_is_that_of_the_leaderboard() -> None:
    page = LEADERBOARD.read_text(encoding="utf-8")
    sections = {
        "usr_topicalchat": "Overall",
        "usr_personachat": "Overall",
        **dict.fromkeys(("grade_convai2", "grade_dailydialog", "grade_empatheticdialogues"), "coherence"),
        "holistic_coherence": "context_coherence",
        **dict.fromkeys(("zhao_dailydialog", "zhao_personachat"), "appropriateness"),
    }
    found: dict[str, list[float]] = {}
    for section in page.split("\n## ")[1:]:
        name = section.partition("\n")[0].rpartition(", ")[2].strip()
        table = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
        if name in sections:
            heads = [head.strip() for head in table[0]]
            column = heads.index(sections[name]) if sections[name] in heads else 1
            for cells in table[2:]:
                number = re.match(r"-?[\d.]+", cells[column].replace("**", "").strip())
                if number:
                    found.setdefault(cells[0].strip(), []).append(float(number[0]))
    for metric, value in RECORD.items():
        sign = -1 if tw.load_metric(metric).higher_is_better is False else 1
        assert len(found[metric]) >= 7
        assert value == pytest.approx(sign * sum(found[metric]) / len(found[metric]), abs=0.006)
