"""Metrics of whole systems in every verb: under systems alone, compared on common resamples, held against ratings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.conftest import WORDS, checkpoints, full_pack  # noqa: F401  (fixtures)
from turnwise.analyses.compare import compare
from turnwise.analyses.evaluate import Result, evaluate
from turnwise.analyses.fit import fit
from turnwise.analyses.gate import Gate
from turnwise.analyses.metaevaluate import metaevaluate
from turnwise.analyses.select import select
from turnwise.errors import TurnwiseError
from turnwise.report.charts import all_charts
from turnwise.report.digest import digest
from turnwise.report.drawing import to_svg

Rows = list[dict[str, Any]]
# The recommended layer is one of a trained trunk; of a small random one the upper layers know the most.
UPPER = "fbd[layer=-2,pooling=mean],prd[layer=-2,pooling=mean]"


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Thirty contexts; `human` talks as the references do, `dull` says one thing, `odd` spells nonsense."""
    rng = np.random.default_rng(0)

    def say() -> str:
        return " ".join(rng.choice(WORDS, size=rng.integers(2, 9)))

    found = []
    for number in range(30):
        context, reference = say(), say()
        answers = {"human": (say(), 5), "dull": (f"yes {say()}", 3), "odd": ("z z z z z " * 5, 1)}
        for system, (response, rating) in answers.items():
            found.append({"id": f"{number}-{system}", "context_id": str(number), "context": [context], "system": system,
                          "response": response, "references": [reference],
                          "ratings": {"Overall": [rating]}})  # fmt: skip
    return found


@pytest.fixture(scope="module")
def result(rows: Rows, full_pack: Path) -> Result:  # noqa: F811
    return evaluate(rows, "fbd,prd,length", models=full_pack, cache="off")


def test_only_systems_have_them(result: Result) -> None:
    document = json.loads(json.dumps(result.to_dict()))
    assert all(turn["scores"].keys() == {"length"} and not turn["notes"] for turn in document["turns"])
    assert {"fbd", "prd"}.isdisjoint(result.turns.columns)
    for system in document["systems"]:
        fbd, prd = system["scores"]["fbd"], system["scores"]["prd"]
        assert fbd["n"] == prd["n"] == 30
        assert 0 <= fbd["low"] < fbd["value"] < fbd["high"]
        assert 0 <= prd["low"] <= prd["value"] <= prd["high"] <= 1
        assert fbd["higher_is_better"] is False
        assert {"mean", "spread", "debiased", "references"} == fbd["parts"].keys()
        assert len(prd["curve"]) == 101
    assert result.systems.height == 9


def test_the_order_of_the_systems(rows: Rows, full_pack: Path) -> None:  # noqa: F811
    found = evaluate(rows, UPPER, models=full_pack, cache="off").system_values
    values = {(value.system, value.metric.partition("[")[0]): value.value for value in found}
    assert values["human", "fbd"] < values["dull", "fbd"] < values["odd", "fbd"]
    assert values["human", "prd"] > values["odd", "prd"]


def test_what_the_values_rest_on_is_said(result: Result) -> None:
    said = {(value.system, value.metric): value.made_of for value in result.system_values}
    assert said["human", "fbd"].startswith("30 responses and 30 references: mean ")
    assert "debiased" in said["human", "fbd"]
    assert "F1/8" in said["human", "prd"]
    assert said["human", "length"] == ""


def test_dialogues_and_groups_do_not_have_them(rows: Rows, full_pack: Path) -> None:  # noqa: F811
    named = [{**row, "dialogue_id": f"d{i % 7}", "group": "g"} for i, row in enumerate(rows)]
    document = evaluate(named, "fbd,length", models=full_pack, cache="off").to_dict()
    for means in (*document["dialogues"], *document["groups"]):
        assert "fbd" not in means["scores"]


def test_rows_without_references_are_left_out_and_told(rows: Rows, full_pack: Path) -> None:  # noqa: F811
    found = evaluate([*rows, {"response": "hello", "system": "human"}], "fbd", models=full_pack, cache="off")
    assert next(value.n for value in found.system_values if value.system == "human") == 30
    assert any("no score from fbd for 1 of 91 rows" in str(problem) for problem in found.problems)


def test_too_few_responses_are_told(rows: Rows, full_pack: Path) -> None:  # noqa: F811
    found = evaluate(rows[:30], "prd", models=full_pack, cache="off")
    assert all(value.value is None for value in found.system_values)
    assert "human: 10 vectors are fewer than the 20 clusters: no value of prd" in map(str, found.problems)


def test_compared_on_the_same_resamples(rows: Rows, full_pack: Path) -> None:  # noqa: F811
    found = compare(rows, metrics="fbd,prd", baseline="human", models=full_pack, cache="off")
    by = {(row.metric, row.system): row for row in found.rows}
    odd = by["fbd", "odd"]
    assert odd.verdict == "worse"
    assert odd.difference is not None
    assert odd.low is not None
    assert odd.low > 0
    assert by["prd", "odd"].verdict == "worse"
    assert all(share == 0 for share in found.unscored.values())
    assert Gate("fail_if_worse", "fbd", 0.0).failures(found)
    twins = [{**row, "system": system} for row in rows if row["system"] == "dull" for system in ("dull", "twin")]
    (same,) = compare(twins, metrics="fbd", baseline="dull", models=full_pack, cache="off").rows
    assert (same.difference, same.p, same.verdict) == (0, 1, "equivalent")


def test_held_against_people_as_systems_only(rows: Rows, full_pack: Path) -> None:  # noqa: F811
    found = metaevaluate(rows, f"{UPPER},length", level="all", models=full_pack, cache="off")
    assert {row.level for row in found.rows if row.metric.startswith("fbd")} == {"system"}
    (fbd,) = (row for row in found.rows if row.metric.startswith("fbd"))
    assert fbd.n == 3
    assert fbd.spearman == pytest.approx(-1)
    result = evaluate(rows, UPPER, models=full_pack, cache="off")
    values = [value.value for value in result.system_values if value.metric.startswith("fbd")]
    assert fbd.pearson == pytest.approx(np.corrcoef(values, [5, 3, 1])[0, 1])
    with pytest.raises(TurnwiseError, match="fbd: of whole systems, not of single turns; use `level=system`"):
        metaevaluate(rows, "fbd", models=full_pack, cache="off")


def test_analyses_that_need_turns_say_so(rows: Rows, full_pack: Path, tmp_path: Path) -> None:  # noqa: F811
    with pytest.raises(TurnwiseError, match="no metric judges single turns"):
        fit(rows, "fbd", target="Overall", save=tmp_path / "x.toml", models=full_pack, cache="off")
    with pytest.raises(TurnwiseError, match="fbd"):
        select(rows, "fbd", models=full_pack, cache="off")


def test_the_report_draws_the_curves(result: Result, tmp_path: Path) -> None:
    found = digest(result)
    charts = all_charts(found)
    (text,) = charts["prd-curves"].to_dict()["datasets"].values()
    points = [row for row in json.loads(text) if row["kind"] == "point"]
    assert {row["system"] for row in points} == {"human", "dull", "odd"}
    expected = {value.system: value.curve for value in result.system_values if value.metric == "prd"}
    drawn = [(row["recall"], row["precision"]) for row in points if row["system"] == "odd"]
    assert tuple(drawn) == expected["odd"]
    assert to_svg(charts["prd-curves"]).count("mark-line") >= 1
    page = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="chart-prd-curves"' in page
    assert "bootstrap without replacement" in page
    assert "30 responses and 30 references: mean " in page
    turns = page.partition('id="data">')[2].partition("</script>")[0]
    assert [metric["key"] for metric in json.loads(turns)["metrics"]] == ["length"]
