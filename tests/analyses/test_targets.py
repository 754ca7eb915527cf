"""Where results may be written: what a command reads, and files of another kind, stay as they are."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.analyses.targets import check_targets
from turnwise.errors import TurnwiseError


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    rows = [
        {"id": f"{n}-{k}", "context": [f"How is day {n}?"], "response": f"it is {k}", "references": ["it is 1"]}
        for n in range(4)
        for k in range(2)
    ]
    file = tmp_path / "chats.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


WRITERS: list[Callable[[Path, Path], Any]] = [
    lambda chats, out: tw.select(chats, "f1", save=out),
    lambda chats, out: tw.select(chats, "f1", against="meteor", ballots=out, key=out.with_name("key.json")),
    lambda chats, out: tw.fit(chats, metrics="f1", save=out),
    lambda chats, out: tw.augment(chats, save=out),
    lambda chats, out: tw.augment([chats], bot="tfidf", save=out),
    lambda chats, out: check_targets([chats.parent], report=out),
]


@pytest.mark.parametrize("write", WRITERS)
def test_an_input_is_never_written_over(chats: Path, write: Callable[[Path, Path], Any]) -> None:
    before = chats.read_bytes()
    linked, hard = chats.with_name("link"), chats.with_name("hard")
    linked.symlink_to(chats)
    os.link(chats, hard)
    for out in (chats, linked, hard, chats.parent / "." / chats.name):
        with pytest.raises(TurnwiseError, match="is read by this command"):
            write(chats, out)
    assert chats.read_bytes() == before


def test_a_folder_of_results_that_is_read_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('[{"response": "hi"}]')
    with pytest.raises(TurnwiseError, match=r"result\.json: is read by this command"):
        check_targets([str(tmp_path)], folder=tmp_path)


def test_two_outputs_need_two_files(chats: Path, tmp_path: Path) -> None:
    with pytest.raises(TurnwiseError, match="wanted for two outputs"):
        tw.select(chats, "f1", against="meteor", ballots=tmp_path / "x", key=tmp_path / "." / "x")
    check_targets(files=[Path(os.devnull), Path(os.devnull)])


def test_a_report_takes_the_place_of_a_page_only(chats: Path, tmp_path: Path) -> None:
    result, report = tw.evaluate(chats, ["length"]), tmp_path / "report.html"
    result.report(report)
    result.report(report)
    other = tmp_path / "votes.csv"
    other.write_text("a,b\n")
    with pytest.raises(TurnwiseError, match="is not a report"):
        result.report(other)
    assert other.read_text() == "a,b\n"


def test_a_configuration_takes_the_place_of_one_only(chats: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text('title = "something else"\n')
    with pytest.raises(TurnwiseError, match="is not a configuration"):
        tw.fit(chats, metrics="f1", save=other)
    earlier = tmp_path / "mine.toml"
    earlier.write_text('name = "mine"\nparts = [{ metric = "f1", weight = 1.0 }]\n')
    check_targets(chats, config=earlier)


def test_answers_are_not_lost_to_queries(chats: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked.jsonl"
    made = tw.augment(chats, save=asked)
    assert tw.augment(chats, save=asked).rows == made.rows
    asked.write_text("".join(json.dumps(row | {"response": "fine"}) + "\n" for row in made.rows))
    with pytest.raises(TurnwiseError, match=r"asked\.jsonl:1: has an answer"):
        tw.augment(chats, save=asked)
    other = tmp_path / "other.csv"
    other.write_text("response\nfine\n")
    with pytest.raises(TurnwiseError, match="holds something else"):
        tw.augment(chats, save=other)
    baseline = tmp_path / "baseline.jsonl"
    for _ in range(2):
        tw.augment(chats, method="baseline", variants=1, save=baseline)
