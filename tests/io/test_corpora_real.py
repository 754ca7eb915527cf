"""The authors' release formats on real items, where they are at hand."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from turnwise.dialogue import Example, Row
from turnwise.io.read import read_rows


def both_ways(file: Path, corpus: str) -> list[Example]:
    """The examples of a file, which must be the same whether the corpus is named or recognised."""
    named, recognised = list(read_rows(file, corpus=corpus)), list(read_rows(file))
    assert named == recognised
    assert [row.error for row in named] == [None] * len(named)
    return [row.example for row in named if row.example]


def faults(rows: list[Row]) -> list[str]:
    return [str(row.error) for row in rows if row.error]


REAL = [
    ("usr_tc_usr_data.json", "tc_usr_data.json", "usr", "usr_topicalchat", 6),
    ("usr_pc_usr_data.json", "pc_usr_data.json", "usr", "usr_personachat", 5),
    ("fbd.json", "personam_annotation.json", "fbd", "fbd_personam", 8),
    ("grade_human_judgement.json", "human_judgement.json", "grade", "grade_dailydialog", 2),
    ("holistic_context.csv", "context_data_release.csv", "holistic-coherence", "holistic_coherence", 5),
    ("holistic_fluency.csv", "fluency_data_release.csv", "holistic-fluency", "holistic_fluency", 5),
    ("zhao_dstc10_eval.json", "dailydialog-zhao_eval.json", "zhao", "zhao_dailydialog", 1),
]


@pytest.mark.parametrize(("raw", "name", "corpus", "normalised", "count"), REAL)
def test_real_items_equal_the_normalised_rows(
    tmp_path: Path, data_dir: Path, raw: str, name: str, corpus: str, normalised: str, count: int
) -> None:
    shutil.copy(data_dir / "formats" / raw, tmp_path / name)
    found = both_ways(tmp_path / name, corpus)
    expected = [row.example for row in read_rows(data_dir / "human" / f"{normalised}.jsonl") if row.example][:count]
    if corpus == "grade":
        # Its references come from another file of the release.
        expected = [replace(example, references=()) for example in expected]
    assert found == expected


def test_real_fed_items(data_dir: Path) -> None:
    found = both_ways(data_dir / "formats" / "fed_data.json", "fed")
    turn, dialogue = found[0], found[1:]
    assert turn.response == "It's probably boring, isn't it?"
    assert (len(turn.context), turn.rated, turn.ratings["Overall"]) == (9, "turn", (2.0, 1.0, 3.0, 3.0, 4.0))
    assert [example.response for example in dialogue][-1] == "What can you tell me?"
    assert len(dialogue) == 7
    assert dialogue[0].ratings["Error recovery"] == (None, 1.0, 1.0, None, 2.0)


def test_real_dstc9_items(data_dir: Path) -> None:
    found = both_ways(data_dir / "formats" / "dstc9_chatbot1.json", "dstc9")
    text = json.loads((data_dir / "formats" / "dstc9_chatbot1.json").read_text())[0]["context"]
    assert len(found) == text.count("System:")
    assert found[-1].response == "you can't say that. snakes are awesome."
    assert found[0].ratings["Overall"] == (4.0,)
    assert len(found[0].ratings) == 11


def test_every_normalised_corpus_reads_without_fault(data_dir: Path) -> None:
    rows = list(read_rows([data_dir / "human"]))
    assert faults(rows) == []
    assert len(rows) == sum(len(file.read_text().splitlines()) for file in (data_dir / "human").glob("*.jsonl"))
