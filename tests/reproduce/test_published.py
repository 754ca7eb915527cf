"""What needs no model comes out as it was published, to every digit: the check that the protocols are the papers'."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnwise.reproduce import fbd, holistic, usr
from turnwise.reproduce.cells import Ours, Spec, Table, correlations
from turnwise.reproduce.published import Key, of_table
from turnwise.reproduce.workspace import Workspace


@pytest.fixture(scope="module")
def space(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(data_dir, tmp_path_factory.mktemp("work"), cache="off")


def same(table: tuple[str, str], found: dict[Key, Ours], suffix: str = "") -> tuple[int, int]:
    """How many published cells come out the same, of those that were computed."""
    named = {key._replace(metric=key.metric.removesuffix(suffix)): ours for key, ours in found.items()}
    spec = Spec(Table(*table, ""), lambda _: named)
    cells = [cell for cell in spec.made(None).cells if cell.published and cell.ours.value is not None]  # type: ignore[arg-type]
    return sum(cell.same for cell in cells), len(cells)


def test_agreement_has_one_misprint(space: Workspace) -> None:
    assert same(("usr", "1"), usr.agreement_cells(space)) == (23, 24)


@pytest.mark.parametrize("number", ["10", "12", "14", "16", "18", "20"])
def test_the_authors_own_scores_give_all_their_cells(space: Workspace, number: str) -> None:
    quality = of_table("usr", number)[0].key.quality
    found = usr.authors_cells(space, {quality: quality})
    assert same(("usr", number), found, f", {usr.AUTHORS}") == (16, 16)


def test_mean_ratings(space: Workspace) -> None:
    right, computed = same(("usr", "2"), usr.mean_cells(space))
    assert computed == 66
    assert right >= 60


def test_holistic_raters_and_stored_predictions(space: Workspace) -> None:
    assert same(("holistic", "9"), holistic.logic_agreement(space)) == (12, 12)
    stored = holistic._stored_predictions(space, "logical_consistency")
    assert same(("holistic", "8"), stored, ", authors' stored predictions") == (2, 2)


def test_the_corpora_of_fbd(space: Workspace) -> None:
    assert same(("fbd", "2"), fbd.counts(space)) == (6, 6)


def test_entropies_of_the_released_groups(space: Workspace) -> None:
    found = {
        (key.corpus, key.metric): ours.value
        for key, ours in holistic.entropy_cells(space).items()
        if key.statistic == "mean entropy"
    }
    assert found["DailyDialog (WS)", "2-Gram Entropy"] == pytest.approx(3.1457, abs=5e-5)
    assert found["DailyDialog (CTG)", "3-Gram Entropy"] == pytest.approx(3.1538, abs=5e-5)


def test_regression_on_item_means(space: Workspace) -> None:
    values = [ours.value for ours in usr.regression_cells(space).values()]
    assert values == pytest.approx([0.9687, 0.9627], abs=5e-5)


def test_overlap_metrics_give_all_their_cells(space: Workspace) -> None:
    """Except system-level cells of PersonaChat's qualities, which the paper fills with those of Overall."""
    names = ("F-1", *(f"BLEU-{n}" for n in range(1, 5)), "ROUGE-L")
    right = computed = 0
    for number in range(10, 22):
        _, _, quality, _, _ = (key := of_table("usr", str(number))[0].key)
        levels = ("turn",) if key.corpus == "PersonaChat" and number > 11 else ("turn", "system")
        stands = {name: usr.METRICS[name] for name in names}
        file, left_out = usr.FILES[key.corpus], [usr.REFERENCE]
        found = correlations(
            space, key.corpus, file, stands, levels=("turn", "system"), qualities={quality: quality}, exclude=left_out
        )
        some = {key: ours for key, ours in found.items() if key.level in levels}
        one, all_of_them = same(("usr", str(number)), some)
        right, computed = right + one, computed + all_of_them
    assert (right, computed) == (228, 228)
