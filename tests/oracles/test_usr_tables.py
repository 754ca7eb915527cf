"""USR's published tables, recomputed from the authors' ratings through the public functions."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import pytest

import turnwise as tw

METRICS = {
    "F-1": "f1:released",
    **{f"BLEU-{n}": f"bleu-{n}:released" for n in range(1, 5)},
    "ROUGE-L": "rouge-l:released",
}
FILES = {"Topical-Chat": "usr_topicalchat", "PersonaChat": "usr_personachat"}
# The tables say Interesting where the released ratings say Engaging.
QUALITIES = {"Interesting": "Engaging"}
MISPRINT = ("PersonaChat", "Engaging", "spearman")

Key = tuple[str, str, str, str, str]


@cache
def published(data_dir: Path) -> list[dict[str, str]]:
    with (data_dir / "published" / "paper_tables.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["paper"] == "usr"]


@cache
def recomputed(data_dir: Path) -> dict[Key, float | None]:
    """Correlations by corpus, level, quality, metric and statistic."""
    cells: dict[Key, float | None] = {}
    for corpus, file in FILES.items():
        result = tw.metaevaluate(
            data_dir / "human" / f"{file}.jsonl",
            metrics=list(METRICS.values()),
            exclude_systems=["Original Ground Truth"],
            level="all",
        )
        for row in result.rows:
            for statistic in ("pearson", "spearman"):
                cells[corpus, row.level, row.quality, row.metric, statistic] = getattr(row, statistic)
    return cells


def overlap_cells(data_dir: Path, level: str) -> list[dict[str, str]]:
    tables = {str(number) for number in range(10, 22)}
    return [
        row
        for row in published(data_dir)
        if row["table"] in tables and row["level"] == level and row["metric"] in METRICS
    ]


def wrong(cells: list[dict[str, str]], data_dir: Path) -> list[tuple[str, ...]]:
    """The cells that do not come out to four decimals."""
    found = []
    for row in cells:
        quality = QUALITIES.get(row["quality"], row["quality"])
        key = row["corpus"], row["level"], quality, METRICS[row["metric"]], row["statistic"]
        ours = f"{recomputed(data_dir)[key]:.4f}"
        if ours != f"{float(row['value']):.4f}":
            found.append((row["table"], *key, row["value"], ours))
    return found


def test_all_144_turn_level_cells(data_dir: Path) -> None:
    cells = overlap_cells(data_dir, "turn")
    assert len(cells) == 144
    assert wrong(cells, data_dir) == []


def test_system_level_cells(data_dir: Path) -> None:
    """Topical-Chat and PersonaChat's Overall are right; the other PersonaChat tables repeat Overall by mistake."""
    cells = overlap_cells(data_dir, "system")
    repeated = [row for row in cells if row["corpus"] == "PersonaChat" and row["table"] != "11"]
    right = [row for row in cells if row not in repeated]
    assert (len(right), len(repeated)) == (72 + 12, 60)
    assert wrong(right, data_dir) == []
    assert len(wrong(repeated, data_dir)) == 48


def test_table_1_agreement_with_its_one_misprint(data_dir: Path) -> None:
    ours = {
        (corpus, row.quality, row.method.rpartition("-")[2]): row.value
        for corpus, file in FILES.items()
        for row in tw.agreement(data_dir / "human" / f"{file}.jsonl").rows
        if row.method.startswith("slot-pairs")
    }
    cells = {
        (row["corpus"], row["quality"], row["statistic"]): f"{float(row['value']):.4f}"
        for row in published(data_dir)
        if row["table"] == "1"
    }
    assert len(cells) == 24
    found = {key: f"{ours[key[0], QUALITIES.get(key[1], key[1]), key[2]]:.4f}" for key in cells}
    assert {key for key in cells if cells[key] != found[key]} == {MISPRINT}
    assert (cells[MISPRINT], found[MISPRINT]) == ("0.4318", "0.4138")


@pytest.mark.parametrize(("file", "raters"), [("usr_topicalchat", 6), ("usr_personachat", 6)])
def test_raters_are_people_not_slots(data_dir: Path, file: str, raters: int) -> None:
    """Three slots, but more people than slots: what goes by rater must not go by slot."""
    rows = tw.agreement(data_dir / "human" / f"{file}.jsonl", qualities=["Overall"]).rows
    by_method = {row.method: row.n_raters for row in rows}
    assert by_method["slot-pairs-spearman"] == 3
    assert 3 < by_method["rater-pairs-spearman"] <= raters
