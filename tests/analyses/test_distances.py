"""Perturbation curves and normality, on toy models and, where there is a pack, on DailyDialog."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from tests.models.conftest import WORDS, checkpoints, full_pack  # noqa: F401  (fixtures)
from turnwise.analyses.distances import normality, perturb
from turnwise.cli.app import app
from turnwise.engine.answer import answer_requests
from turnwise.errors import TurnwiseError
from turnwise.models.pack import DEFAULT_PACK, installed_packs, load_pack
from turnwise.models.requests import Embed
from turnwise.text.corrupt import TRANSFORMS
from turnwise.train.dialogues import read

Rows = list[dict[str, Any]]
RATIOS = (0.0, 0.5, 1.0)


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Forty answers to forty contexts; the odd ones as references of two systems' responses."""
    rng = np.random.default_rng(0)
    said = [" ".join(rng.choice(WORDS, size=rng.integers(2, 9))) for _ in range(80)]
    found: Rows = []
    for context, answer in zip(said[:40], said[40:], strict=True):
        if len(found) % 3:
            found.append({"context": [context], "response": answer})
        else:
            for system in ("a", "b"):
                found.append({"context": [context], "response": "tea", "references": [answer], "system": system})
    return found


def test_curves(rows: Rows, full_pack: Path) -> None:  # noqa: F811
    found = perturb(rows, "fbd,length", ratios=RATIOS, seeds=2, models=full_pack, cache="off")
    assert len(found.rows) == 2 * 4 * 3
    assert {row.n for row in found.rows} == {40}
    values = {(row.metric, row.transform, row.ratio): row.value for row in found.rows}
    for transform in TRANSFORMS:
        assert values["fbd", transform, 0.0] == pytest.approx(0, abs=1e-6)
        assert values["fbd", transform, 1.0] > 0
    trends = {(trend.metric, trend.transform): trend.trend for trend in found.trends}
    assert trends["fbd", "repeat"] == "rises"
    assert trends["length", "noise"] == "rises"
    # Neither changes how many words are said in all.
    assert trends["length", "mismatch"] == trends["length", "permutate"] == "neither"
    again = perturb(rows, "fbd,length", ratios=RATIOS, seeds=2, models=full_pack, cache="off")
    assert again.rows == found.rows


def test_a_sample_is_taken_and_told(rows: Rows) -> None:
    found = perturb(rows, "length", ratios=[0.5], seeds=1, sample=10)
    assert {row.n for row in found.rows} == {10}
    assert found.notes == ["a sample of 10 of 40 answers; take more with `sample`"]
    assert {row.deviation for row in found.rows} == {None}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"transforms": ["shout"]}, "no transform is called 'shout'; choose among noise, mismatch, permutate, repeat"),
        ({"ratios": [2.0]}, "a ratio of 2 is no share"),
        ({"seeds": 0}, "at least one"),
    ],
)
def test_requests_that_make_no_sense(options: dict[str, Any], problem: str, rows: Rows) -> None:
    with pytest.raises(TurnwiseError, match=problem):
        perturb(rows, "length", **options)


def test_one_answer_is_too_few() -> None:
    with pytest.raises(TurnwiseError, match="1 answers are too few"):
        perturb([{"context": ["hi"], "response": "hello"}], "length")


def test_rows_that_cannot_be_read_are_named(full_pack: Path, tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "chats.jsonl"
    file.write_text('{"turns": [{"text": "hi"}]}\n')
    why = "; the first problem: .*chats.jsonl:1: response: missing"
    with pytest.raises(TurnwiseError, match=f"too few to be perturbed; give more{why}"):
        perturb(file, "length")
    with pytest.raises(TurnwiseError, match=f"nothing to test{why}"):
        normality(file, models=full_pack)


def test_the_command(rows: Rows, tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    plot = tmp_path / "curves.svg"
    asked = ["perturb", str(file), "-m", "length,distinct-1", "--ratios", "0,1", "--seeds", "2"]
    table = CliRunner().invoke(app, [*asked, "--plot", str(plot)])
    assert table.exit_code == 0, table.output
    assert "Value by share of perturbed answers, n = 40, 2 seeds" in " ".join(table.output.split())
    assert plot.read_text().startswith("<svg")
    document = json.loads(CliRunner().invoke(app, [*asked, "--format", "json"]).stdout)
    assert document.keys() == {"rows", "trends"}
    assert len(document["rows"]) == 2 * 4 * 2
    listed = list(csv.DictReader(CliRunner().invoke(app, [*asked, "--format", "csv"]).stdout.splitlines()))
    assert float(listed[0]["value"]) == document["rows"][0]["value"]
    wrong = CliRunner().invoke(app, ["perturb", str(file), "--ratios", "few"])
    assert "--ratios: 'few' is not a list of numbers" in str(wrong.exception)


def test_normality_is_of_each_dimension(rows: Rows, full_pack: Path) -> None:  # noqa: F811
    given = [row for row in rows if "references" in row]
    found = normality(given, "fbd:released", models=full_pack, cache="off")
    assert [row.set for row in found.rows] == ["references", "a", "b"]
    # Two systems answered each context; a reference is one vector all the same.
    pairs = list(dict.fromkeys((row["context"][0], row["references"][0]) for row in given))
    assert found.rows[0].n == len(pairs)
    requests = [Embed(*pair, pooling="cls") for pair in pairs]
    answers = answer_requests(requests, load_pack(full_pack))
    table = np.array([answers[request] for request in requests], dtype=np.float64)
    tested = [stats.shapiro(column) for column in table.T]
    assert found.rows[0].w_mean == pytest.approx(np.mean([t.statistic for t in tested]))
    assert found.rows[0].p_mean == pytest.approx(np.mean([t.pvalue for t in tested]))
    with pytest.raises(TurnwiseError, match="length compares no distributions"):
        normality(given, "length", models=full_pack)
    with pytest.raises(TurnwiseError, match="nothing to test"):
        normality([{"response": "hello"}], models=full_pack)


def test_normality_takes_a_pair_as_often_as_it_occurs(rows: Rows, full_pack: Path) -> None:  # noqa: F811
    given = [row for row in rows if row.get("system") == "a"]
    found = normality([*given, given[0], {**given[0], "system": "b"}], "fbd:released", models=full_pack, cache="off")
    assert [(row.set, row.n) for row in found.rows] == [("references", len(given) + 1), ("a", len(given) + 1)]


def test_the_normality_command(rows: Rows, full_pack: Path, tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "chats.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows if "references" in row))
    asked = ["normality", str(file), "--models", str(full_pack), "--cache", "off"]
    assert "not normal" in CliRunner().invoke(app, asked).output
    document = json.loads(CliRunner().invoke(app, [*asked, "--format", "json"]).stdout)
    assert {"w_mean", "p_mean", "w_deviation", "p_deviation"} < document["rows"][0].keys()


@pytest.fixture(scope="module")
def real_pack() -> str:
    """A pack with an encoder that was trained on something."""
    given = os.environ.get("TURNWISE_MODELS")
    if given is None and DEFAULT_PACK not in installed_packs():
        pytest.skip("the pack turnwise-mini is not installed; set TURNWISE_MODELS to run this test")
    return given or DEFAULT_PACK


@pytest.mark.slow
def test_every_step_is_for_the_worse_on_dailydialog(data_dir: Path, real_pack: str, tmp_path: Path) -> None:
    rows = [
        {"context": [dialogue.turns[place - 1].text], "response": dialogue.turns[place].text}
        for dialogue in read([data_dir / "test" / "dailydialog_test.jsonl.xz"])
        for place in range(1, len(dialogue.turns))
    ]
    found = perturb(rows, "fbd,prd", sample=150, models=real_pack, cache=tmp_path)
    assert {row.seeds for row in found.rows} == {5}
    assert [row.ratio for row in found.rows[::2][:5]] == [0, 0.25, 0.5, 0.75, 1]
    wanted = {"fbd": "rises", "prd": "falls"}
    assert {(t.metric, t.transform): t.trend for t in found.trends} == {
        (metric, transform): trend for metric, trend in wanted.items() for transform in TRANSFORMS
    }


def test_a_metric_that_waits_for_the_whole_run_has_no_curve(rows: Rows) -> None:
    with pytest.raises(TurnwiseError, match="perturb: fluency:paper compares each response with the whole run; leave"):
        perturb(rows, "length,fluency:paper", ratios=RATIOS, seeds=2)
