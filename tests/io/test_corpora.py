"""The authors' release formats on miniatures of their shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from turnwise.dialogue import Example, Row
from turnwise.errors import TurnwiseError
from turnwise.io.base import corpus_exclusions, format_table, readers
from turnwise.io.read import read_rows

RELEASES = [reader.name for reader in readers() if not reader.general]


def write(path: Path, items: Any, *, lines: bool = False) -> Path:
    path.write_text("\n".join(map(json.dumps, items)) if lines else json.dumps(items, indent=1))
    return path


def both_ways(file: Path, corpus: str) -> list[Example]:
    """The examples of a file, which must be the same whether the corpus is named or recognised."""
    named, recognised = list(read_rows(file, corpus=corpus)), list(read_rows(file))
    assert named == recognised
    assert [row.error for row in named] == [None] * len(named)
    return [row.example for row in named if row.example]


def faults(rows: list[Row]) -> list[str]:
    return [str(row.error) for row in rows if row.error]


# --- miniatures -----------------------------------------------------------------------------------------

USR_ITEM = {
    "context": "hi there \n how are you ?\n\n",
    "fact": "your persona: i like tea.\nyour persona: i have a dog.\n",
    "annotators": ["Ann", "Bob", "Cy"],
    "responses": [
        {"response": "fine\n", "model": "Original Ground Truth", "Natural": [3, 3, 2], "Overall": [5, 4, 4]},
        {"response": "tea !\n", "model": "Seq2Seq", "Natural": [1, 2, 1], "Overall": [2, 1, 1]},
    ],
}


def test_usr(tmp_path: Path) -> None:
    second = {**USR_ITEM, "fact": "_nofact\n", "annotators": ["Bob", "Cy", "Di"]}
    found = both_ways(write(tmp_path / "pc_usr_data.json", [USR_ITEM, second]), "usr")
    assert found[1] == Example(
        "tea !",
        context=("hi there", "how are you ?"),
        references=("fine",),
        facts=("i like tea.", "i have a dog."),
        id="pc_000_1",
        system="Seq2Seq",
        context_id="0",
        ratings={"Natural": (1.0, 2.0, 1.0), "Overall": (2.0, 1.0, 1.0)},
        raters=("r1", "r2", "r3"),
    )
    assert [e.id for e in found] == ["pc_000_0", "pc_000_1", "pc_001_0", "pc_001_1"]
    assert (found[2].facts, found[2].raters, found[2].context_id) == ((), ("r2", "r3", "r4"), "1")


def fbd_item(systems: int, qualities: int) -> dict[str, Any]:
    return {
        "src": "hi there . how are you ? ",
        "refs": ["fine"],
        "hyps": [f"reply {n}" for n in range(systems)],
        "human_scores": [[n + q / 10 for q in range(qualities)] for n in range(systems)],
    }


def test_fbd(tmp_path: Path) -> None:
    found = both_ways(write(tmp_path / "personam_annotation.json", [fbd_item(4, 6)] * 2, lines=True), "fbd")
    assert found[5] == Example(
        "reply 1",
        context=("hi there . how are you ?",),
        references=("fine",),
        id="personam_001_01",
        system="Seq2Seq",
        context_id="1",
        ratings={
            "Understandable": (1.0,),
            "Natural": (1.1,),
            "Maintains Context": (1.2,),
            "Engaging": (1.3,),
            "Uses Knowledge": (1.4,),
            "Overall": (1.5,),
        },
    )


@pytest.mark.parametrize(
    ("stem", "systems", "qualities", "expected"),
    [
        ("dailyz_annotation", 8, 4, ["relevance", "grammar", "content", "appropriateness"]),
        ("convai2_annotation", 4, 1, ["coherence"]),
        ("personaz_annotation", 5, 1, ["appropriateness"]),
        ("mine", 3, 1, ["Overall"]),
    ],
)
def test_fbd_qualities(tmp_path: Path, stem: str, systems: int, qualities: int, expected: list[str]) -> None:
    found = both_ways(write(tmp_path / f"{stem}.json", [fbd_item(systems, qualities)], lines=True), "fbd")
    assert list(found[0].ratings) == expected
    assert (found[-1].system == "negative-sample") == stem.endswith("z_annotation")
    assert len({e.system for e in found}) == systems


def test_grade(tmp_path: Path) -> None:
    item = {
        "ID": 7,
        "Dataset": "convai2_EVAL",
        "DialogModel": "bert_ranker",
        "Context": "hi !|||hello .",
        "Response": "bye .",
        "HumanScores": "[3, 5, 2]",
    }
    other = {**item, "ID": 8, "Dataset": "dailydialog_EVAL"}
    found = both_ways(write(tmp_path / "human_judgement.json", [item, {**item, "ID": 9}, other]), "grade")
    assert found[0] == Example(
        "bye .",
        context=("hi !", "hello ."),
        id="grade_convai2_7",
        system="bert_ranker",
        context_id="c0",
        ratings={"coherence": (3.0, 5.0, 2.0)},
    )
    assert [e.id for e in found] == ["grade_convai2_7", "grade_convai2_9", "grade_dailydialog_8"]
    assert {e.context_id for e in found} == {"c0"}


def test_holistic(tmp_path: Path) -> None:
    ratings = ",".join("1234512345")
    coherence = tmp_path / "context_data_release.csv"
    coherence.write_text(f'0,"Hey , you ?",Sure .,{ratings}\n111,Well ?,"No ,\nreally .",{ratings}\n')
    found = both_ways(coherence, "holistic-coherence")
    assert found[1] == Example(
        "No ,\nreally .",
        context=("Well ?",),
        id="holistic_ctx_1",
        system="transformer_OpenNMT_dailydialog",
        context_id="c1",
        ratings={"context_coherence": (1.0, 2.0, 3.0, 4.0, 5.0) * 2},
    )
    fluency = tmp_path / "fluency_data_release.csv"
    fluency.write_text(f"110,Sure .,{ratings}\n")
    (only,) = both_ways(fluency, "holistic-fluency")
    assert (only.response, only.context, list(only.ratings)) == ("Sure .", (), ["fluency"])


ZHAO_ITEM = {
    "dialogue_id": "dailydialog-zhao_00000",
    "model": "ground-truth",
    "context": "hi .\nhello .",
    "response": "cash ?",
    "reference": ["cash ?"],
    "annotations": {"content": [4, 5], "grammar": [5, 5]},
}


def test_zhao(tmp_path: Path) -> None:
    second = {**ZHAO_ITEM, "dialogue_id": "dailydialog-zhao_00001", "model": "GPT2", "reference": "NO REF"}
    found = both_ways(write(tmp_path / "dailydialog-zhao_eval.json", [ZHAO_ITEM, second]), "zhao")
    assert found[0] == Example(
        "cash ?",
        context=("hi .", "hello ."),
        references=("cash ?",),
        id="dailydialog-zhao_00000",
        system="ground-truth",
        context_id="c0",
        ratings={"content": (4.0, 5.0), "grammar": (5.0, 5.0)},
    )
    assert (found[1].references, found[1].context_id) == ((), "c0")


def test_fed(tmp_path: Path) -> None:
    transcript = "User: Hi!\nSystem: Hello: you?\nUser: Fine"
    turn = {
        "context": transcript,
        "response": "System: Good.",
        "system": "Meena",
        "annotations": {"Fluent": [2, 1], "Overall": [4, "N/A (why)"]},
    }
    dialogue = {
        "context": f"{transcript}\nSystem: Good.\nUser: Bye",
        "system": "Human",
        "annotations": {"Error recovery": ["N/A (no errors)", 2]},
    }
    found = both_ways(write(tmp_path / "fed_data.json", [turn, dialogue]), "fed")
    context = ("Hi!", "Hello: you?", "Fine")
    assert found[0] == Example(
        "Good.",
        context=context,
        id="fed_000",
        system="Meena",
        context_id="c0",
        speakers=("user", "assistant", "user", "assistant"),
        ratings={"Fluent": (2.0, 1.0), "Overall": (4.0, None)},
    )
    assert [(e.id, e.response, e.context) for e in found[1:]] == [
        ("fed_001:1", "Hello: you?", ("Hi!",)),
        ("fed_001:3", "Good.", context),
    ]
    assert {(e.dialogue_id, e.rated, e.system) for e in found[1:]} == {("fed_001", "dialogue", "Human")}
    assert found[1].ratings == {"Error recovery": (None, 2.0)}


def test_dstc9(tmp_path: Path) -> None:
    first = {"coherent": 3, "topic depth": 1, "human (overall)": 4, "context": "User: hola\nSystem: hi\nagain\n"}
    again = {**first, "human (overall)": 2, "topic depth": ""}
    other = {**first, "context": "User: a\nSystem: b\nUser: c\nSystem: d\n"}
    found = both_ways(write(tmp_path / "chatbot1.json", [first, again, other]), "dstc9")
    assert [e.id for e in found] == ["chatbot1_000:1", "chatbot1_001:1", "chatbot1_001:3"]
    assert found[0] == Example(
        "hi\nagain",
        context=("hola",),
        id="chatbot1_000:1",
        system="chatbot1",
        dialogue_id="chatbot1_000",
        speakers=("user", "assistant"),
        ratings={"coherent": (3.0, 3.0), "topic depth": (1.0, None), "Overall": (4.0, 2.0)},
        rated="dialogue",
    )


SEE_ITEM = {
    "model_name": "repetition_setting12",
    "model_type": "repetition",
    "model_bucket": "12",
    "assignment_id_hashed": "abc",
    "evaluator_id_hashed": "eva",
    "oz_id_hashed": None,
    "dialog": [
        {"speaker": "model", "text": "Hello!"},
        {"speaker": "human_evaluator", "text": "Hi. How are you?"},
        {"speaker": "model", "text": "Fine."},
    ],
    "evaluation_results": {
        **{"enjoy": 3, "interest": 2, "listen": 4, "turing": 1, "avoid_rep": 3, "make_sense": 4},
        **{"fluency": 4, "inquisitive": 2, "persona_guess": True},
    },
    "model_persona": "i like tea.\ni have a dog.",
    "human_persona": "i run.",
}


def test_see(tmp_path: Path) -> None:
    (found,) = both_ways(write(tmp_path / "log.jsonl", [SEE_ITEM], lines=True), "see")
    assert found == Example(
        "Fine.",
        context=("Hello!", "Hi. How are you?"),
        facts=("i like tea.", "i have a dog."),
        id="abc:2",
        system="repetition_setting12",
        dialogue_id="abc",
        speakers=("assistant", "user", "assistant"),
        ratings={
            "enjoy": (3.0,),
            "interest": (2.0,),
            "listen": (4.0,),
            "avoid_rep": (3.0,),
            "make_sense": (4.0,),
            "fluency": (4.0,),
            "inquisitive": (2.0,),
            "humanness": (1.0,),
            "persona_guess": (1.0,),
        },
        raters=("eva",),
        rated="dialogue",
    )


# --- what they share ------------------------------------------------------------------------------------


def test_native_rows_are_not_mistaken_for_a_release(tmp_path: Path) -> None:
    native = {"response": "a", "context": "User: hi", "annotations": {"x": [1]}, "model": "m", "dialogue_id": "d"}
    del native["annotations"]
    other = {"response": "a", "context": ["b"], "annotators": ["r"], "annotations": {}}
    for item in (native, other):
        (row,) = read_rows([item])
        assert (row.id, row.example and row.example.response) == ("row:1", "a")


def test_a_faulty_item_costs_itself_only(tmp_path: Path) -> None:
    file = write(tmp_path / "tc_usr_data.json", [{"context": "a"}, {**USR_ITEM, "context": 3}, USR_ITEM])
    rows = list(read_rows(file, corpus="usr"))
    assert faults(rows) == [
        "annotators: missing. Fix: check that the corpus named is this file's.",
        "context: expected text, got a number. Fix: take the file as its authors released it.",
    ]
    assert [row.id for row in rows if row.example] == ["tc_002_0", "tc_002_1"]


def test_an_item_of_another_shape_costs_itself_only(tmp_path: Path) -> None:
    blank = {"context": "", "response": "", "system": "Meena", "annotations": {}}
    turn = {**blank, "context": "User: Hi!", "response": "System: Hello."}
    rows = list(read_rows(write(tmp_path / "fed_data.json", [turn, blank, turn]), corpus="fed"))
    assert [row.example is None for row in rows] == [False, True, False]
    assert faults(rows) == ["response: blank, as is the context. Fix: take the file as its authors released it."]

    for wrong in ({"model_persona": ["i run."]}, {"evaluator_id_hashed": {}, "dialog": [None]}):
        log = write(tmp_path / "log.jsonl", [{**SEE_ITEM, **wrong}, SEE_ITEM], lines=True)
        assert [row.example is None for row in read_rows(log, corpus="see")] == [True, False]

    unhashable = {**USR_ITEM, "annotators": [["Ann"], "Bob", "Cy"]}
    rows = list(read_rows(write(tmp_path / "tc_usr_data.json", [unhashable, USR_ITEM]), corpus="usr"))
    assert [row.example is None for row in rows] == [True, False, False]
    assert "item: not as this format has it (TypeError" in faults(rows)[0]


@pytest.mark.parametrize("name", RELEASES)
def test_the_wrong_corpus_is_a_clear_fault_and_no_crash(tmp_path: Path, name: str) -> None:
    items: list[Any] = [
        {"response": "a", "context": ["b"]},
        {"context": "no speaker", "annotations": {}, "system": "x"},
    ]
    file = write(tmp_path / "a.jsonl", items, lines=True)
    rows = list(read_rows(file, corpus=name))
    assert len(faults(rows)) == len(rows) == 2


def test_exclusions() -> None:
    assert corpus_exclusions("usr") == ("Original Ground Truth",)
    assert corpus_exclusions("zhao") == ("ground-truth",)
    assert corpus_exclusions("fed") == ()
    with pytest.raises(TurnwiseError, match=r"^`corpus=x`: format 'x' is not known"):
        corpus_exclusions("x")


def test_the_table_of_formats_names_every_corpus() -> None:
    rows = format_table()
    assert set(RELEASES) <= {row["format"] for row in rows}
    assert len({tuple(row) for row in rows}) == 1
    assert all(row["files"] and row["what"] for row in rows)


def test_an_item_without_responses_is_a_row(tmp_path: Path) -> None:
    items = [USR_ITEM, {**USR_ITEM, "responses": []}, USR_ITEM]
    rows = list(read_rows(write(tmp_path / "tc_usr_data.json", items)))
    assert [row.error and row.error.code for row in rows] == [None, None, "item.empty", None, None]


def test_numbers_and_lists_beyond_measure_cost_their_item_only(tmp_path: Path) -> None:
    item = {"Dataset": "convai2_EVAL", "Context": "a", "Response": "b", "DialogModel": "m"}
    deep = {**item, "HumanScores": "[" * 100_000}
    rows = list(read_rows(write(tmp_path / "g.json", [deep, {**item, "HumanScores": "[1]"}]), corpus="grade"))
    assert [row.error and row.error.code for row in rows] == ["item.shape", None]
    turn = {"context": "User: a", "response": "System: b", "system": "m", "annotations": {"Overall": [10**400]}}
    good = {**turn, "annotations": {"Overall": [1]}}
    rows = list(read_rows(write(tmp_path / "f.json", [turn, good]), corpus="fed"))
    assert [row.error and row.error.code for row in rows] == ["item.shape", None]
