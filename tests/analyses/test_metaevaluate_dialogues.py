"""Dialogue level, as MAUDE's authors have it: which turns count, and what is averaged over what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import turnwise as tw

USER, MODEL = "user", "assistant"


def chat(number: int, system: str, lengths: list[int], rating: float, *, opened_by: str = USER) -> dict[str, Any]:
    """A conversation whose model turns have these many words."""
    turns = [message for length in lengths for message in ((USER, "well ?"), (MODEL, "word " * length))]
    if opened_by == MODEL:
        turns = turns[1:]
    messages = [{"role": role, "content": content} for role, content in turns]
    rated = {"ratings": {"enjoy": [rating]}, "raters": [f"worker {number}"]}
    return {"dialogue_id": f"d{number}", "system": system, "messages": messages, **rated}


def chats() -> list[dict[str, Any]]:
    """Nine dialogues of three systems, of unequal length, so that means of turns and of dialogues differ."""
    rng = np.random.default_rng(3)
    return [
        chat(i, "abc"[i % 3], rng.integers(1, 30, rng.integers(1, 9)).tolist(), float(rng.integers(1, 5)))
        for i in range(9)
    ]


def lengths_of(row: dict[str, Any]) -> list[int]:
    return [len(message["content"].split()) for message in row["messages"] if message["role"] == MODEL]


@pytest.mark.parametrize(("opened_by", "pairs"), [(USER, 6), (MODEL, 5)])
def test_a_model_turn_counts_where_something_precedes_it(opened_by: str, pairs: int) -> None:
    result = tw.evaluate([chat(0, "a", [1, 2, 3, 4, 5, 6], 3, opened_by=opened_by)], metrics=["length"])
    assert len(result.judged) == pairs
    counted = [1, 2, 3, 4, 5, 6][6 - pairs :]
    assert result.to_dict()["dialogues"][0]["scores"]["length"] == pytest.approx(np.mean(counted))


def test_a_dialogue_has_the_mean_of_its_turns_against_its_own_rating() -> None:
    rows = chats()
    found = tw.metaevaluate(rows, metrics=["length"], level="dialogue").rows[0]
    means = [np.mean(lengths_of(row)) for row in rows]
    ratings = [row["ratings"]["enjoy"][0] for row in rows]
    assert found.n == 9
    assert found.spearman == pytest.approx(stats.spearmanr(means, ratings).statistic)
    assert found.pearson == pytest.approx(stats.pearsonr(means, ratings).statistic)


def test_a_system_has_the_mean_of_its_dialogues_and_long_ones_count_no_more() -> None:
    rows = chats()
    found = tw.metaevaluate(rows, metrics=["length"], level="system").rows[0]
    by_system = [[row for row in rows if row["system"] == name] for name in "abc"]
    scores = [np.mean([np.mean(lengths_of(row)) for row in of]) for of in by_system]
    ratings = [np.mean([row["ratings"]["enjoy"][0] for row in of]) for of in by_system]
    assert found.n == 3
    assert found.pearson == pytest.approx(stats.pearsonr(scores, ratings).statistic)
    by_turns = [np.mean([length for row in of for length in lengths_of(row)]) for of in by_system]
    assert by_turns != pytest.approx(scores)


def test_one_system_talks_in_many_dialogues_of_one_name() -> None:
    """Dialogues are told apart by their system too: two systems may number theirs alike."""
    rows = [chat(0, "a", [2, 4], 1), chat(0, "b", [10], 4)]
    document = tw.evaluate(rows, metrics=["length"]).to_dict()
    found = {(row["dialogue_id"], row["system"]): row["scores"]["length"] for row in document["dialogues"]}
    assert found == {("d0", "a"): 3.0, ("d0", "b"): 10.0}


def test_systems_can_be_left_out_at_every_level(tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in chats()))
    for level, n in (("dialogue", 6), ("system", 2)):
        rows = tw.metaevaluate(file, metrics=["length"], level=level, exclude_systems=["b"]).rows
        assert [row.n for row in rows] == [n]


def test_logs_of_see_et_al_bring_their_dialogues(tmp_path: Path) -> None:
    def log(number: int, first: str) -> dict[str, Any]:
        speakers = ["human_evaluator", "model"] if first == "human" else ["model", "human_evaluator", "model"]
        return {
            "assignment_id_hashed": str(number),
            "model_name": f"m{number % 3}",
            "model_persona": "i like tea .",
            "evaluator_id_hashed": f"w{number}",
            "evaluation_results": {"enjoy": number % 4 + 1, "fluency": 3},
            "dialog": [{"speaker": speaker, "text": "hi " * (number + 1)} for speaker in speakers],
        }

    file = tmp_path / "logs.jsonl"
    file.write_text("".join(json.dumps(log(i, "human" if i % 2 else "model")) + "\n" for i in range(8)))
    result = tw.evaluate(file, metrics=["length"], corpus="see")
    assert len(result.judged) == 8
    rows = tw.metaevaluate(file, metrics=["length"], corpus="see", level="all", qualities=["enjoy"]).rows
    assert {(row.level, row.n) for row in rows} == {("dialogue", 8), ("system", 3)}


def turns(dialogue: str, asked: str, replies: range) -> list[dict[str, Any]]:
    """Some replies of a dialogue, each with all that was said before."""
    said = [asked, *(f"turn {number}" for number in range(9))]
    shared = {"dialogue_id": dialogue, "system": "bot"}
    return [{**shared, "context": said[: 2 * n + 1], "response": "word " * (n + 1)} for n in replies]


def files_of(folder: Path, *parts: list[dict[str, Any]]) -> list[str]:
    files = [folder / f"part-{number}.jsonl" for number in range(len(parts))]
    for file, rows in zip(files, parts, strict=True):
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(map(str, files))


def test_dialogues_that_only_share_a_number_are_kept_apart(tmp_path: Path) -> None:
    files = files_of(tmp_path, turns("0", "hi", range(2)), turns("0", "what is new ?", range(4)))
    result = tw.evaluate(files, metrics=["length"])
    assert [(d["dialogue_id"], d["scores"]["length"]) for d in result.to_dict()["dialogues"]] == [
        ("0", 1.5),
        ("0 (part-1)", 2.5),
    ]
    assert result.problems == []


def test_a_dialogue_that_goes_on_in_the_next_file_stays_one_and_that_is_said(tmp_path: Path) -> None:
    files = files_of(tmp_path, turns("0", "hi", range(2)), turns("0", "hi", range(2, 4)))
    result = tw.evaluate(files, metrics=["length"])
    assert [d["scores"]["length"] for d in result.to_dict()["dialogues"]] == [2.5]
    assert len(result.problems) == 1
    assert f"{files[1]}:1: counted into a dialogue of an earlier file" in str(result.problems[0])
    assert "(2 rows, the first here)" in str(result.problems[0])


def test_whoever_speaks_first_opens_a_dialogue(tmp_path: Path) -> None:
    def write(name: str, greeting: str, turns: range) -> Path:
        said = [f"{greeting} {place}" for place in range(6)]
        rows = [{"dialogue_id": "0", "system": "bot", "context": said[:n], "response": said[n]} for n in turns]
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path / name

    def dialogues(*files: Path) -> list[str]:
        found = tw.evaluate(list(files), metrics=["length"]).to_dict()["dialogues"]
        return [dialogue["dialogue_id"] for dialogue in found]

    whole = range(0, 6, 2)
    first, other = write("first.jsonl", "hello", whole), write("other.jsonl", "good day", whole)
    # The bot speaks first, and its greeting is not in the context of that turn.
    assert dialogues(first, other) == ["0", "0 (other)"]
    begun, rest = write("begun.jsonl", "good day", range(0, 2, 2)), write("rest.jsonl", "good day", range(2, 6, 2))
    assert dialogues(begun, rest) == ["0"]
    # What was given another name goes on under it.
    assert dialogues(first, begun, rest) == ["0", "0 (begun)"]
