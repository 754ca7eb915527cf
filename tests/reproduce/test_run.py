"""The whole command on miniature corpora: every published number is there, and a second run goes on with the first."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import turnwise as tw
from tests.conftest import turnwise
from turnwise.errors import TurnwiseError
from turnwise.metrics.registry import entries, load_metric
from turnwise.models.pack import Pack
from turnwise.reproduce import leaderboard, workspace
from turnwise.reproduce.cells import Table
from turnwise.reproduce.published import COLLECTION, everything
from turnwise.reproduce.run import MODULES, Reproduced, papers, reproduce
from turnwise.reproduce.workspace import Workspace

# The notes of these tables say it.
SAID_ABOVE = {("holistic", "independence")}
PEOPLE = {("usr", "1"), ("usr", "2"), ("holistic", "9"), ("fbd", "2")}
WITHOUT_MODELS = {"F-1", "ROUGE-L", *(f"BLEU-{n}" for n in range(1, 5)), "Inter-Rater (mean)", "Inter-Rater (max)"}


@pytest.fixture(scope="module")
def out(mini_data: Path, toy_pack: Pack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything, by the command itself."""
    folder = tmp_path_factory.mktemp("out")
    asked = (
        "--data",
        mini_data,
        "--out",
        folder,
        "--limit",
        "3",
        "--models",
        toy_pack.folder,
        "--cache",
        folder / "cache",
    )
    done = turnwise("reproduce", "all", *asked)
    assert done.returncode == 0, done.stderr
    return folder


def made_again(mini_data: Path, toy_pack: Pack, out: Path, told: list[str] | None = None) -> list[Reproduced]:
    space = Workspace(mini_data, out / "work", str(toy_pack.folder), "auto", str(out / "cache"), 0, 3)
    return reproduce(papers(["all"]), space, out, tell=(told if told is not None else []).append)


@pytest.mark.slow
def test_every_published_number_is_there_with_ours_or_a_reason(out: Path) -> None:
    printed = [one for one in everything() if one.paper != COLLECTION]
    shown = 0
    filled = 0
    for paper in dict.fromkeys(one.paper for one in printed):
        document = json.loads((out / f"{paper}.json").read_text())
        (found,) = document["papers"]
        for made in found["made"]:
            for cell in made.get("cells", ()):
                shown += cell["published"] is not None
                filled += cell["published"] is not None and cell["ours"]["value"] is not None
                assert cell["ours"]["value"] is not None or cell["ours"]["why_not"], cell
    assert shown == len(printed)
    assert filled > len(printed) / 3


def test_what_differs_is_said_at_every_number_that_differs(out: Path) -> None:
    """Of USL-H's tables the page says it once for all: their data are others."""
    for paper in ("usr", "maude", "holistic", "fbd"):
        (found,) = json.loads((out / f"{paper}.json").read_text())["papers"]
        for made in found["made"]:
            # Agreement and means of miniature ratings are not the published ones, nor should they be.
            if made["kind"] == "figure" or (paper, made["number"]) in PEOPLE | SAID_ABOVE:
                continue
            for cell in made["cells"]:
                if cell["published"] and cell["ours"]["value"] is not None and not cell["notes"]:
                    assert cell["ours"]["notes"] or cell["key"]["metric"] in WITHOUT_MODELS, cell


def test_pages_are_written_in_every_form(out: Path) -> None:
    names = [paper.name for paper in papers(["all"])]
    assert len(names) == len(MODULES)
    for name in (*names, "index"):
        assert (out / f"{name}.md").read_text().startswith("# ")
        assert "{" not in (out / f"{name}.md").read_text()
        assert (out / f"{name}.html").read_text().startswith("<!doctype html>")
    counts = re.findall(r"<td>([\d,—]+)</td>", (out / "index.html").read_text())
    assert counts == re.findall(r" ([\d,—]+) \|", (out / "index.md").read_text())
    assert len(counts) == 3 * len(MODULES)
    page = (out / "usr.md").read_text()
    assert "| Understandable | " in page
    assert "not computable, because" in page
    assert (out / "figures" / "usr-fig-2.svg").read_text().startswith("<svg")
    for link in (out / "figures").glob("*.svg"):
        assert any(f"figures/{link.name}" in (out / f"{name}.md").read_text() for name in names)


def test_two_footnotes_of_a_cell_do_not_read_as_one_number(out: Path) -> None:
    for name in ("usr", "leaderboard"):
        for form in ("md", "html"):
            page = (out / f"{name}.{form}").read_text()
            assert re.search(r"<sup>\d+, \d+</sup>", page), (name, form)
            assert not re.search(r"</sup>\s*<sup>", page), (name, form)


def test_every_page_leads_to_its_tables(out: Path) -> None:
    page = (out / "usr.html").read_text()
    linked = re.findall(r'href="#([^"]+)"', page)
    assert len(linked) == 21
    assert linked == re.findall(r'<h2 id="([^"]+)"', page)


def test_boards_have_every_metric_of_turns_by_every_quality(out: Path, mini_data: Path) -> None:
    (found,) = json.loads((out / "leaderboard.json").read_text())["papers"]
    boards = {made["number"]: made["cells"] for made in found["made"] if made["kind"] == "table"}
    assert {board.file for board in leaderboard.BOARDS.values()} == {
        file.stem
        for file in (mini_data / "human").glob("*.jsonl")
        if '"ratings": {}' not in file.read_text() and not file.stem.startswith("fbd_")
    }
    for corpus in leaderboard.BOARDS:
        keys = [(cell["key"]["metric"], cell["key"]["quality"]) for cell in boards[corpus]]
        names = [name for name in entries() if load_metric(name).per_turn]
        assert sorted({metric for metric, _ in keys}) == sorted(names)
        assert len(keys) == len(set(keys)) == len(names) * len({quality for _, quality in keys})
    reasons = {cell["key"]["metric"]: cell["ours"]["why_not"] for cell in boards["Holistic fluency"]}
    assert "have no context" in reasons["usl-h"]
    assert not reasons["length"]
    (named,) = (
        cell
        for cell in boards["summary"]
        if cell["key"]["corpus"] == "Holistic fluency" and cell["key"]["metric"] == "usl-h"
    )
    assert named["published"] == "0.81"
    assert "have no context" in named["ours"]["why_not"]


def test_logs_of_conversations_are_read_by_both_protocols(out: Path) -> None:
    table = json.loads((out / "tables" / "maude-2.json").read_text())
    ours = [
        cell for cell in table["cells"] if cell["key"]["metric"] == "nup (ours)" and cell["ours"]["value"] is not None
    ]
    levels = [cell["key"]["level"] for cell in ours]
    assert levels.count("system") == 9
    assert levels.count("dialogue") == 8
    assert {cell["ours"]["n"] for cell in ours if cell["key"]["level"] == "dialogue"} == {12}
    assert {cell["ours"]["n"] for cell in ours if cell["key"]["level"] == "system"} == {3, None}


def test_ours_is_what_the_analyses_say(out: Path, mini_data: Path, tmp_path: Path) -> None:
    table = json.loads((out / "tables" / "usr-1.json").read_text())
    ours = {
        (cell["key"]["quality"], cell["key"]["statistic"]): cell["ours"]["value"]
        for cell in table["cells"]
        if cell["key"]["corpus"] == "PersonaChat"
    }
    found = tw.agreement(Workspace(mini_data, tmp_path, limit=3).corpus("usr_personachat")).rows
    expected = {
        (row.quality, statistic): pytest.approx(row.value)
        for row in found
        for form, _, statistic in [row.method.rpartition("-")]
        if form == "slot-pairs" and (row.quality, statistic) in ours
    }
    assert len(expected) == 12
    assert {key: ours[key] for key in expected} == expected


def test_a_second_run_takes_what_is_there_and_makes_what_is_missing(mini_data: Path, toy_pack: Pack, out: Path) -> None:
    kept, gone, damaged = (out / "tables" / f"{name}.json" for name in ("fbd-3", "usr-1", "usr-2"))
    before = kept.stat().st_mtime_ns, gone.read_text(), damaged.read_text()
    gone.unlink()
    damaged.write_text("{")
    told: list[str] = []
    found = made_again(mini_data, toy_pack, out, told)
    assert (kept.stat().st_mtime_ns, gone.read_text(), damaged.read_text()) == before
    assert "usr: Table 1" in told
    tables = [made for one in found for made in one.made if isinstance(made, Table)]
    assert {table.paper for table in tables} == {paper.name for paper in papers(["all"])}


def test_without_data_nothing_is_ours(tmp_path: Path, toy_pack: Pack) -> None:
    (tmp_path / "data").mkdir()
    space = Workspace(tmp_path / "data", tmp_path / "work", str(toy_pack.folder), cache="off")
    for one in reproduce(papers(["usr", "fbd", "holistic"]), space, tmp_path):
        for table in one.tables:
            for cell in table.cells:
                assert cell.ours.value is None
                assert cell.ours.why_not


def test_another_seed_is_another_run(mini_data: Path, toy_pack: Pack, tmp_path: Path) -> None:
    spaces = [Workspace(mini_data, tmp_path, str(toy_pack.folder), seed=seed) for seed in (0, 0, 1)]
    first, same, other = (space.made_from for space in spaces)
    assert first == same != other


def test_another_version_is_another_run(
    mini_data: Path, toy_pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Workspace(mini_data, tmp_path, str(toy_pack.folder)).made_from
    monkeypatch.setattr(workspace, "VERSION", "another")
    assert Workspace(mini_data, tmp_path, str(toy_pack.folder)).made_from != before
    (paper,) = papers(["fbd"])
    space = Workspace(mini_data, tmp_path, str(toy_pack.folder), cache="off", limit=3)
    told: list[str] = []
    for version in ("1", "1", "2"):
        reproduce([replace(paper, version=version)], space, tmp_path / "out", only=["2"], tell=told.append)
    assert told == ["fbd: Table 2", "fbd: Table 2"]


def test_numbers_depend_on_trained_weights(mini_data: Path, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "models" / "encoder"
    shutil.copytree(checkpoints["encoder"], folder)
    before = Workspace(mini_data, tmp_path, str(folder.parent)).made_from
    assert Workspace(mini_data, tmp_path, str(folder.parent)).made_from == before
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\1")
    assert Workspace(mini_data, tmp_path, str(folder.parent)).made_from != before


def test_what_cannot_be_asked_for_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TurnwiseError, match="'grade' cannot be reproduced; choose usr"):
        papers(["grade"])
    monkeypatch.delenv("TURNWISE_DATA", raising=False)
    assert "--data DIR" in turnwise("reproduce", "usr", "--out", tmp_path).stderr
    assert "no such folder" in turnwise("reproduce", "usr", "--data", tmp_path / "none", "--out", tmp_path).stderr
    (tmp_path / "empty").mkdir()
    asked = ("--data", tmp_path / "empty", "--out", tmp_path / "out")
    assert "no human/ or test/" in turnwise("reproduce", "usr", *asked).stderr
    assert not (tmp_path / "out").exists()
