"""USR's regression: the specification's oracles and the authors' own scores."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from turnwise.dialogue import mean_rating
from turnwise.metrics.usr import PUBLISHED, usr_score

SYSTEMS_IN_ROW_ORDER = (3.745425, 3.561365, 2.998631, 3.051458, 4.630498)
TABLES = ("10", "12", "14", "16", "18", "20")
PARTS = {"USR-MLM": "usr_mlm", "USR-DR (x = c)": "usr_dr_c", "USR-DR (x = f)": "usr_dr_f"}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((-1.012293440649907, 0.8604811806918587, 0.8472124995904354), 3.597475447630256),
        ((-1, 1, 1), 4.505073094277),
        ((-1, 0.5, 0.5), 1.433020626343),
        ((0, 1, 1), 7.228613788655),
        ((-2, 0, 0), -4.362572535970),
        ((-0.7196698188781738, 0.9959796667098999, 0.0029846488032490015), 3.979281073516),
        ((-0.8504355549812317, 0.8241819739341736, 0.996877908706665), 4.05210220),
        ((-0.6818488836288452, 0.998267412185669, 0.005143187008798122), 4.09617953),
        ((-0.5878857374191284, 0.9983152151107788, 0.9971087574958801), 5.61559514),
        ((-0.8527643084526062, 0.9985180497169495, 0.9971197843551636), 4.89518954),
    ],
)
def test_oracles(parts: tuple[float, float, float], expected: float) -> None:
    assert usr_score(*parts).item() == pytest.approx(expected, abs=1e-8)


def test_collapsed_form() -> None:
    slopes = PUBLISHED.slopes()
    assert slopes == pytest.approx({"mlm": 2.7235406944, "dr_c": 4.8706027486, "dr_f": 1.2735021873}, abs=1e-9)
    assert usr_score(0, 0, 0).item() == pytest.approx(1.0845088528, abs=1e-9)
    weights = np.exp([term.weight for term in PUBLISHED.terms])
    assert weights / weights.sum() == pytest.approx([0.2116, 0.1637, 0.1827, 0.2858, 0.1562], abs=5e-5)


def test_many_at_once_equal_one_by_one() -> None:
    columns = np.random.default_rng(0).normal(size=(3, 7))
    assert usr_score(*columns) == pytest.approx([usr_score(*column).item() for column in columns.T])
    assert usr_score(columns[0], 1, [[1], [0]]).shape == (2, 7)


def test_a_part_that_does_not_vary_adds_nothing() -> None:
    regression = PUBLISHED.standardised_on({"mlm": [-1, -2], "dr_c": [1, 1], "dr_f": [0, 1]})
    assert usr_score(-1.5, 1, 0.5, regression).item() == pytest.approx(PUBLISHED.intercept)


@pytest.fixture(scope="module")
def published_scores(data_dir: Path) -> dict[str, dict[str, float]]:
    with (data_dir / "published" / "usr_topicalchat_scores.csv").open() as lines:
        rows = {row["id"]: {part: float(row[part]) for part in PARTS.values()} for row in csv.DictReader(lines)}
    for row in rows.values():
        row["usr"] = usr_score(*row.values()).item()
    return rows


def test_statistics_of_the_published_rows(published_scores) -> None:
    values = np.array([row["usr"] for row in published_scores.values()])
    assert len(values) == 300
    assert (values.mean(), values.std()) == pytest.approx((3.5974754476, 2.0448107976), abs=1e-9)
    assert (values.min(), values.max()) == pytest.approx((-3.3188434, 6.2285596), abs=1e-6)
    assert [values[system::5].mean() for system in range(5)] == pytest.approx(SYSTEMS_IN_ROW_ORDER, abs=1e-6)


def test_published_constants_are_the_moments_of_the_published_rows(published_scores) -> None:
    columns = {part.removeprefix("usr_"): [row[part] for row in published_scores.values()] for part in PARTS.values()}
    again = PUBLISHED.standardised_on(columns)
    for term, published in zip(again.terms, PUBLISHED.terms, strict=True):
        assert (term.mean, term.std) == pytest.approx((published.mean, published.std), abs=1e-12)


def test_every_turn_level_cell_of_the_topical_chat_tables(corpus, data_dir: Path, published_scores) -> None:
    rows = [row for row in corpus("usr_topicalchat") if row.id in published_scores]
    assert len(rows) == 300
    with (data_dir / "published" / "paper_tables.csv").open(encoding="utf-8") as lines:
        cells = [
            cell
            for cell in csv.DictReader(lines)
            if cell["paper"] == "usr" and cell["table"] in TABLES and cell["level"] == "turn"
            if cell["metric"] in {"USR", *PARTS}
        ]
    assert len(cells) == 48
    for cell in cells:
        scores = [published_scores[row.id][PARTS.get(cell["metric"], "usr")] for row in rows]
        humans = [mean_rating(row.ratings[cell["quality"]]) for row in rows]
        correlate = {"pearson": pearsonr, "spearman": spearmanr}[cell["statistic"]]
        assert f"{correlate(scores, humans).statistic:.4f}" == f"{float(cell['value']):.4f}", cell
