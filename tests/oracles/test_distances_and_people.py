"""With the bundled models fbd and prd order systems as people do, on the corpora of the paper."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from turnwise.analyses.metaevaluate import metaevaluate
from turnwise.models.pack import DEFAULT_PACK, installed_packs

DOCS = Path(__file__).parents[2] / "docs" / "metrics"
OVERALL = {
    "personam": "Overall",
    "dailyh": "coherence",
    "convai2": "coherence",
    "dailyz": "appropriateness",
    "personaz": "appropriateness",
}


@pytest.fixture(scope="module")
def found(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """The correlation on every corpus, by metric."""
    if DEFAULT_PACK not in installed_packs():
        pytest.skip("the pack turnwise-mini is not installed")
    values: dict[str, list[float]] = {"fbd": [], "prd": []}
    for corpus, quality in OVERALL.items():
        file = data_dir / "human" / f"fbd_{corpus}.jsonl"
        cache = tmp_path_factory.mktemp("cache")
        for row in metaevaluate(file, "fbd,prd", qualities=[quality], level="system", cache=cache).rows:
            assert row.spearman is not None
            values[row.metric].append(row.spearman)
    return values


@pytest.mark.slow
def test_distances_fall_with_people_s_opinion(found: dict[str, list[float]]) -> None:
    assert np.mean(found["fbd"]) <= -0.75
    assert max(found["fbd"]) <= 0


@pytest.mark.xfail(reason="over the trunk of twelve layers prd agrees less, as its page says", strict=True)
def test_overlap_rises_with_people_s_opinion(found: dict[str, list[float]]) -> None:
    assert np.mean(found["prd"]) >= 0.75
    assert min(found["prd"]) >= 0


@pytest.mark.parametrize("metric", ["fbd", "prd"])
def test_the_pages_say_so(metric: str, found: dict[str, list[float]]) -> None:
    page = (DOCS / f"{metric}.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| `{metric}`, bundled models \|(.*)\|$", page, re.MULTILINE)
    assert row is not None
    shown = [float(cell.strip().replace("−", "-")) for cell in row[1].split("|")]
    assert shown[:5] == pytest.approx(found[metric], abs=0.0051)
    assert shown[5] == pytest.approx(np.mean(found[metric]), abs=0.0051)
