"""The leaderboard among the pages is what the bundled models give, and the README says what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from turnwise.analyses.metaevaluate import metaevaluate
from turnwise.models.pack import DEFAULT_PACK, installed_packs

ROOT = Path(__file__).parents[2]
NAMED, CORPUS, QUALITY = "usl-h", "USR PersonaChat", "Overall"


@pytest.fixture(scope="module")
def summary() -> list[dict[str, Any]]:
    """The cells of its first table."""
    table = json.loads((ROOT / "docs/results/reproduce/leaderboard-summary.json").read_text(encoding="utf-8"))
    cells: list[dict[str, Any]] = table["cells"]
    return cells


@pytest.mark.slow
def test_the_named_metric_has_the_value_that_the_page_has(
    summary: list[dict[str, Any]], data_dir: Path, tmp_path: Path
) -> None:
    if DEFAULT_PACK not in installed_packs():
        pytest.skip("the pack turnwise-mini is not installed")
    (cell,) = (cell for cell in summary if (cell["key"]["corpus"], cell["key"]["metric"]) == (CORPUS, NAMED))
    file = data_dir / "human" / "usr_personachat.jsonl"
    excluded = ["Original Ground Truth"]
    (row,) = metaevaluate(file, NAMED, qualities=[QUALITY], exclude_systems=excluded, cache=tmp_path).rows
    assert row.spearman is not None
    assert row.spearman == pytest.approx(cell["ours"]["value"], abs=0.002)
    assert row.spearman >= float(cell["published"])


def test_the_readme_counts_as_the_page_does(summary: list[dict[str, Any]]) -> None:
    (count,) = (cell["ours"] for cell in summary if cell["key"]["statistic"] == "count")
    said = re.search(r"at or above that best on (\d) of (\d) corpora", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert said is not None
    assert [float(said[1]), int(said[2])] == [count["value"], count["n"]]
