"""Published numbers as data, cells, grids, and the small mathematics of the reproduction."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from turnwise.analyses.metaevaluate import MetaRow
from turnwise.reproduce import leaderboard
from turnwise.reproduce.cells import Cell, Figure, Ours, Paper, Stand, Table, from_record, to_record
from turnwise.reproduce.leaderboard import BOARDS, COVERED, best_published
from turnwise.reproduce.maude_probe import discriminant
from turnwise.reproduce.pages import grid
from turnwise.reproduce.published import COLLECTION, Key, everything, of_table
from turnwise.reproduce.run import papers
from turnwise.reproduce.workspace import PAPER_MODELS, Workspace

KEY = Key("c", "turn", "q", "m", "spearman")


def test_every_published_table_has_a_specification() -> None:
    printed = {(one.paper, one.table) for one in everything() if one.paper != COLLECTION}
    known = papers(["all"])
    blanks = [spec.blank for paper in known for spec in paper.specs]
    assert printed <= {(blank.paper, blank.number) for blank in blanks if isinstance(blank, Table)}
    numbers = [(blank.paper, blank.number) for blank in blanks]
    assert len(numbers) == len(set(numbers))
    assert all(isinstance(paper, Paper) for paper in known)


def test_published_numbers_are_numbers_and_unique() -> None:
    for one in everything():
        assert math.isfinite(one.value)
    for paper, table in {(one.paper, one.table) for one in everything() if one.paper != COLLECTION}:
        keys = [one.key for one in of_table(paper, table)]
        assert len(keys) == len(set(keys)), (paper, table)


@pytest.mark.parametrize(("corpus", "text", "by"), [
    ("USR Topical-Chat", "0.423", "USR"),
    ("USR PersonaChat", "0.6087", "USR-DR (x = c)"),
    ("Holistic coherence", "0.764", "HolisticEval"),
])  # fmt: skip
def test_the_best_published_number(corpus: str, text: str, by: str) -> None:
    best = best_published(corpus, BOARDS[corpus].main)
    assert best is not None
    assert (best.text, best.key.metric) == (text, by)
    assert len(COVERED) == 6


def test_same_means_every_printed_digit() -> None:
    assert Cell(KEY, Ours(0.41384), "0.4138").same
    assert not Cell(KEY, Ours(0.41386), "0.4138").same
    assert not Cell(KEY, Ours(0.34), "0.3").same
    assert not Cell(KEY, Ours(why_not="no"), "0.3").same
    assert not Cell(KEY, Ours(0.3)).same


def test_a_table_comes_back_from_json() -> None:
    cells = (Cell(KEY, Ours(0.5, 0.1, 0.9, 7, "usr", notes=("a",)), "0.5", ("b",)), Cell(KEY, Ours(math.nan)))
    table = Table("usr", "1", "t", ("metric",), ("statistic",), cells, ("n",))
    back = from_record(to_record(table))
    assert isinstance(back, Table)
    assert back.cells[0] == cells[0]
    assert back.cells[1].ours.value is None
    figure = Figure("usr", "Fig. 1", "t", "bars", "x", "y", ({"x": 1, "y": 2.0, "group": "g"},))
    assert from_record(to_record(figure)) == figure


def test_footnotes_are_said_once_and_a_constant_heading_not_at_all() -> None:
    why = Ours(why_not="there is no model")
    cells = [
        Cell(KEY._replace(metric=name, statistic=s), why, "0.50") for name in "ab" for s in ("pearson", "spearman")
    ]
    shown = grid(Table("usr", "1", "t", ("metric",), ("corpus", "statistic"), tuple(cells)))
    assert shown.columns == ["pearson", "spearman"]
    assert shown.footnotes == ["not computable, because there is no model"]
    first = shown.rows[0][1][0]
    assert first is not None
    assert not shown.signs
    assert (first.ours, first.published, first.marks) == ("—", "0.50", ("1",))


def test_discriminants_are_those_of_scikit_learn() -> None:
    """With equal groups and hardly any shrinkage the same points are named, and the plane is the same."""
    rng = np.random.default_rng(3)
    means = rng.normal(size=(3, 5)) * 3
    groups = np.repeat(np.arange(3), 40)
    points = means[groups] + rng.normal(size=(120, 5))
    ours = discriminant(points, groups)
    theirs = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1, n_components=2).fit(points, groups)
    assert (ours.nearest(points) == theirs.predict(points)).mean() > 0.98
    left, right = ours.project(points), theirs.transform(points)
    for column in range(2):
        assert abs(np.corrcoef(left[:, column], right[:, column])[0, 1]) > 0.98


def test_a_mark_stands_at_its_cell_and_the_best_of_ours_is_read_the_right_way_round() -> None:
    def row(metric: str, value: float, low: float) -> MetaRow:
        return MetaRow("c", metric, "q", "turn", 9, value, value, value, low, 0.99, 0.1, 0.1)

    best = best_published("GRADE ConvAI2", "coherence")
    assert best is not None
    above, below = (leaderboard._ours(row("nup", 0.7, low), best) for low in (best.value + 1e-6, best.value))
    cells = (Cell(KEY, above, best.text), Cell(KEY._replace(metric="n"), below, best.text))
    shown = grid(Table("leaderboard", "c", "t", ("metric",), ("quality",), cells))
    assert [cell and cell.marks for _, (cell,) in shown.rows] == [("▲",), ()]
    assert list(shown.signs) == ["▲"]
    assert not shown.footnotes
    rows = {name: row(name, value, 0.0) for name, value in (("mlm-ppl", 0.9), ("length", 0.8), ("nup", 0.3))}
    chosen = leaderboard._best(rows)
    assert chosen is not None
    assert chosen.metric == "nup"


def test_what_the_models_change_is_said_unless_they_are_the_papers(tmp_path: Path) -> None:
    way = Stand("nup", "another rule", models="other models")
    assert way.said(Workspace(tmp_path, tmp_path)) == ("another rule", "other models")
    assert way.said(Workspace(tmp_path, tmp_path, models=PAPER_MODELS)) == ("another rule",)
