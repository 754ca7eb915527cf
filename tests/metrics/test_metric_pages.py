"""The pages about these metrics say what the code does: their examples run, their correlations are recomputed."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
from scipy.stats import spearmanr

from turnwise.dialogue import mean_rating
from turnwise.metrics.registry import load_metric

PAGES = Path(__file__).parents[2] / "docs" / "metrics"
NAMES = ("length", "distinct", "entropy", "f1", "bleu", "rouge-l", "meteor")
ROW = re.compile(r"^\| `([^`]+)` \| (-?\.\d{3}) \| (-?\.\d{3}) \|$", re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_examples_run(name: str) -> None:
    result = doctest.testfile(str(PAGES / f"{name}.md"), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", NAMES)
def test_correlations_are_those_of_the_code(name: str, corpus) -> None:
    rows = ROW.findall((PAGES / f"{name}.md").read_text(encoding="utf-8"))
    assert rows
    for request, *expected in rows:
        found = [spearman_with_overall(request, corpus(file)) for file in ("usr_topicalchat", "usr_personachat")]
        assert found == pytest.approx([float(value) for value in expected], abs=5.1e-4), request


def spearman_with_overall(request: str, examples) -> float:
    metric = load_metric(request)
    rows = [row for row in examples if row.system != "Original Ground Truth"]
    pairs = [(metric.judge(row).value, mean_rating(row.ratings["Overall"])) for row in rows]
    scored = [pair for pair in pairs if pair[0] is not None]
    return float(spearmanr(*zip(*scored, strict=True)).statistic)
