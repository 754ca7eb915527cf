"""Data that are absent or damaged: a reason in the cells that need them, and numbers in all others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from turnwise.errors import TurnwiseError
from turnwise.reproduce import holistic, usr
from turnwise.reproduce.cells import UNSAID, Ours, Spec, Table, by_corpus
from turnwise.reproduce.published import Key
from turnwise.reproduce.run import papers
from turnwise.reproduce.workspace import RATED, Workspace, fault


@pytest.fixture
def data(mini_data: Path, tmp_path: Path) -> Path:
    """The miniature corpora, to do harm to."""
    return Path(shutil.copytree(mini_data, tmp_path / "data"))


def made(data: Path, paper: str, number: str) -> Table:
    (spec,) = (spec for one in papers([paper]) for spec in one.specs if spec.blank.number == number)
    table = spec.made(Workspace(data, data / "work", cache="off"))
    assert isinstance(table, Table)
    return table


@pytest.mark.parametrize(
    ("paper", "number", "gone", "corpus"),
    [
        ("usr", "1", "usr_topicalchat", "Topical-Chat"),
        ("usr", "2", "usr_topicalchat", "Topical-Chat"),
        ("usl-h", "6", "usr_personachat", "PersonaChat (USR)"),
        ("holistic", "9", "holistic_logic_ctg", "DailyDialog (CTG)"),
        ("fbd", "2", "fbd_convai2", "Convai2"),
    ],
)
def test_a_missing_corpus_takes_no_other_with_it(data: Path, paper: str, number: str, gone: str, corpus: str) -> None:
    (data / "human" / f"{gone}.jsonl").unlink()
    table = made(data, paper, number)
    others = [cell for cell in table.cells if cell.key.corpus != corpus]
    assert any(cell.ours.value is not None for cell in others)
    assert not any(gone in cell.ours.why_not for cell in others)
    if its_own := [cell for cell in table.cells if cell.key.corpus == corpus]:
        assert all(gone in cell.ours.why_not for cell in its_own)
    else:  # nothing was published of it: the table says why it has nothing of it
        assert any(gone in note for note in table.notes)


def test_a_table_of_our_own_says_why_it_is_empty(data: Path) -> None:
    (data / "human" / "grade_convai2.jsonl").unlink()
    table = made(data, "leaderboard", "GRADE ConvAI2")
    assert any(note.startswith("Not computable, because human/grade_convai2.jsonl is not") for note in table.notes)


@pytest.mark.parametrize("harm", [b'{"response": "half a r', b"\x8a\xff\x00", b'{"context": ["Hi!"]}'])
def test_nothing_is_computed_from_what_is_left_of_a_damaged_corpus(data: Path, harm: bytes) -> None:
    file = data / "human" / "usr_topicalchat.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], harm + b"\n", *lines[2:]]))
    space = Workspace(data, data / "work", cache="off")
    with pytest.raises(TurnwiseError, match=r"^human/usr_topicalchat\.jsonl:3: [^\n]+$"):
        space.corpus("usr_topicalchat")
    (key,) = (key for key in usr.mean_cells(space) if key.corpus == "Topical-Chat")
    assert key.metric == ""


@pytest.mark.parametrize(("paper", "number"), [("usr", "regression"), ("usl-h", "6"), ("maude", "protocols")])
def test_ratings_that_are_not_there_are_a_reason(data: Path, paper: str, number: str) -> None:
    file = data / "human" / "usr_topicalchat.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    del rows[1]["ratings"]["Overall"]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = made(data, paper, number)
    why = [*(cell.ours.why_not for cell in table.cells), *table.notes]
    assert any("human/usr_topicalchat.jsonl:2: no rating of 'Overall'" in one for one in why)


def test_what_ratings_every_corpus_must_have(data_dir: Path) -> None:
    assert set(RATED) == {file.stem for file in (data_dir / "human").glob("*.jsonl")} - {
        "holistic_diversity_ws",
        "holistic_diversity_ctg",
    }
    assert not any(fault(file) for file in (data_dir / "human").glob("*.jsonl"))


def test_damaged_files_of_the_authors_are_a_reason_in_their_own_rows(data: Path) -> None:
    (data / "published").mkdir()
    space = Workspace(data, data / "work", cache="off")
    scores, predictions = "usr_topicalchat_scores.csv", "holistic_logic_ws_mnli.pred"
    for text in (
        None,
        "id,usr_mlm,usr_dr_c,usr_dr_f\n0_1,x,0.5,0.5\n",
        "id,usr_mlm,usr_dr_c,usr_dr_f\n0_1,-1,0.5,0.5\n",
        "0\tx\n",
    ):
        if text is not None:
            (data / "published" / scores).write_text(text)
            (data / "published" / predictions).write_text(text)
        rows = usr.authors_cells(space, {"Overall": "Overall"})
        assert {key.statistic for key in rows} == {"pearson", "spearman"}
        assert len(rows) == 16
        stored = holistic._stored_predictions(space, "logical_consistency")
        assert len(stored) == 2
        for ours, file in [*((one, scores) for one in rows.values()), *((one, predictions) for one in stored.values())]:
            assert ours.value is None
            assert file in ours.why_not
    (data / "published" / predictions).write_text("0\t0.5\n" * 3)
    (why, _) = (ours.why_not for ours in holistic._stored_predictions(space, "logical_consistency").values())
    assert "has 3 predictions" in why


def test_reasons_of_a_corpus_reach_its_published_cells_only() -> None:
    @by_corpus(("Topical-Chat", "PersonaChat"))
    def of(_: Workspace, corpus: str) -> dict[Key, Ours]:
        if corpus == "Topical-Chat":
            raise TurnwiseError("it is lost")
        return {Key(corpus, "human", "Natural", "Inter-annotator", "pearson"): Ours(0.5)}

    table = Spec(Table("usr", "1", "t"), of).made(None)  # type: ignore[arg-type]
    reasons = {cell.key.corpus: cell.ours.why_not for cell in table.cells if cell.key.quality == "Overall"}
    assert reasons == {"Topical-Chat": "it is lost", "PersonaChat": UNSAID}
    assert not table.notes
    assert json.dumps([cell.key for cell in table.cells]).count("it is lost") == 0
