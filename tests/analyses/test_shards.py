"""Parts of a run put together give exactly what one run gives: every number, every row, every message."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnwise as tw
from tests.conftest import turnwise
from turnwise.analyses.evaluate import score_part
from turnwise.analyses.part import Part, Shard
from turnwise.analyses.shards import merge, save_part
from turnwise.dialogue import Example
from turnwise.engine import totals
from turnwise.engine.aggregate import TurnFacts, WholeSystem
from turnwise.engine.score import Judged
from turnwise.engine.session import Session
from turnwise.files import sealed
from turnwise.metrics.base import Score
from turnwise.models.requests import Embed
from turnwise.options import Run
from turnwise.stats.arrays import ExactSums

METRICS = "length,distinct-1,distinct-2,entropy-2,f1,bleu-2[corpus=true],rouge-l,diversity"
WORDS = "tea rain yes no why not i you like the a piano cats dogs very much hm".split()
UNKEPT = Run.of(cache="off")
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = random.Random(seed)

    def say(most: int) -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, most)))

    made: list[dict[str, Any]] = []
    for number in range(count):
        row: dict[str, Any] = {"id": str(number), "response": say(9), "context": [say(4)], "system": rng.choice("ab")}
        if rng.random() < 0.8:
            row["references"] = [say(9)]
        if rng.random() < 0.5:
            row["dialogue_id"] = f"d{rng.randrange(1 + count // 6)}"
        if rng.random() < 0.4:
            row["group"] = f"g{rng.randrange(1 + count // 9)}"
        if rng.random() < 0.05:
            row["response"] = ""
        made.append(row)
    made[0]["response"] = "so it begins"
    return made


def in_shards(data: Sequence[dict[str, Any]], count: int, folder: Path, metrics: str = METRICS) -> list[Path]:
    folders = []
    for index in range(1, count + 1):
        shard, place = Shard(index, count), folder / f"{index}-of-{count}"
        part = score_part(list(data), metrics, UNKEPT, shard=shard, spool=place)
        save_part(part, shard, place)
        folders.append(place)
    return folders


@pytest.mark.parametrize(("count", "shards"), [(1, 1), (7, 3), (60, 2), (400, 5)])
def test_merged_shards_equal_one_run(count: int, shards: int, tmp_path: Path) -> None:
    data = rows(count, seed=count)
    whole = tw.evaluate(data, METRICS, seed=3)
    merged = merge(in_shards(data, shards, tmp_path)[::-1], seed=3)
    assert merged.to_dict() == whole.to_dict()
    assert merged.problems == whole.problems
    assert merged.systems.equals(whole.systems)
    assert merged.turns.equals(whole.turns)
    assert [item.number for item in merged.judged] == list(range(count))
    assert [item.row for item in merged.judged] == [item.row for item in whole.judged]


def test_it_holds_with_more_clusters_and_grams_than_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "MOST_CLUSTERS", 16)
    monkeypatch.setattr("turnwise.text.counts.MOST_NAMED", 4)
    data = rows(300, seed=5)
    whole = tw.evaluate(data, METRICS)
    folders = in_shards(data, 4, tmp_path)
    assert merge(folders).to_dict() == whole.to_dict()
    monkeypatch.undo()
    # The values themselves do not depend on how things are kept; only intervals see blocks in place of clusters.
    apart = {(v.system, v.metric): v.value for v in tw.evaluate(data, METRICS).system_values}
    assert {(v.system, v.metric): v.value for v in whole.system_values} == apart


def test_vectors_of_whole_systems_come_back_in_the_order_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(requests: Any) -> dict[Any, Any]:
        def vector(request: Embed) -> Any:
            seed = sum(map(ord, f"{request.text}|{request.pair}"))
            return np.random.default_rng(seed).normal(size=5).astype(np.float32)

        return {request: vector(request) for request in requests}

    monkeypatch.setattr(Session, "answer", lambda _, requests: ask(requests))
    data = [row | {"references": ["so do i"]} for row in rows(120, seed=8) if row["response"]]
    whole = tw.evaluate(data, "fbd,prd[clusters=4],length")
    merged = merge(in_shards(data, 3, tmp_path, "fbd,prd[clusters=4],length"))
    assert whole.system_values[0].value is not None
    assert merged.to_dict() == whole.to_dict()


def test_what_many_parts_hold_is_sorted_once(tmp_path: Path) -> None:
    class Counting(Part):
        kept = 0

        def _keep(self, item: Judged) -> None:
            Counting.kept += 1
            super()._keep(item)

    data = rows(300, seed=4)
    whole = tw.evaluate(data, METRICS)
    scored = [score_part(data, METRICS, UNKEPT, shard=Shard(index, 30)) for index in range(1, 31)]
    part = Counting(scored[0].metrics)
    part.merge(scored)
    assert Counting.kept == 300
    assert [item.row for item in part.judged] == [item.row for item in whole.judged]
    assert list(part.summary.group_values()) == list(whole.summary.group_values())
    first, second = (WholeSystem(tw.load_metric("fbd")) for _ in "ab")
    for number in range(8):
        turn = TurnFacts(Example("yes"), number % 3, number)
        (first if number in (1, 5) else second).add(turn, Score(None, evidence=f"turn {number}"))
    items = first.evidence
    first.merge(second)
    assert first.evidence is items, "nothing is put in order before all parts are there"
    assert first.in_order() == [f"turn {number}" for number in range(8)]
    assert list(first.clusters) == [number % 3 for number in range(8)]


def test_a_gap_a_double_and_a_stranger_are_refused(tmp_path: Path) -> None:
    data = rows(30)
    folders = in_shards(data, 3, tmp_path / "one")
    others = in_shards(data, 3, tmp_path / "other", "length")
    with pytest.raises(tw.TurnwiseError, match="shard 2/3 is missing"):
        merge([folders[0], folders[2]])
    with pytest.raises(tw.TurnwiseError, match="shard 1/3 is given twice"):
        merge([folders[0], *folders])
    with pytest.raises(tw.TurnwiseError, match="other metrics"):
        merge([folders[0], others[1], folders[2]])
    assert _code([tmp_path]) == "part.absent"
    # As version 0.1 wrote it, and as a later one may.
    state = json.loads((others[0] / "state.json").read_text())
    del state["sha256"]
    for text in (json.dumps({"format": 2, "about": state["about"]}), sealed({**state, "format": 99})):
        (others[0] / "state.json").write_text(text)
        assert _code(others) == "part.version"


def _code(folders: Sequence[Path]) -> str:
    with pytest.raises(tw.TurnwiseError) as caught:
        merge(folders)
    assert "\n" not in str(caught.value)
    return caught.value.code


@pytest.mark.parametrize("name", ["state.json", "arrays.npz", "turns-00000.parquet"])
def test_a_changed_byte_of_a_part_is_found(name: str, tmp_path: Path) -> None:
    folders = in_shards(rows(30), 2, tmp_path)
    file = folders[0] / name
    content = file.read_bytes()
    for place in (0, 30, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert _code(folders) == "part.damaged"
    file.write_bytes(content[:-1])
    assert _code(folders) == "part.damaged"
    file.write_bytes((in_shards(rows(30, seed=1), 2, tmp_path / "foreign")[0] / name).read_bytes())
    # A state of another run shows by its input, before any file is read.
    assert _code(folders) == ("" if name == "state.json" else "part.damaged")


def test_a_part_that_lost_turns_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.engine.spool.TURNS_A_FILE", 4)
    folders = in_shards(rows(30), 2, tmp_path)
    turns = sorted(folders[1].glob("turns-*.parquet"))
    assert len(turns) > 1
    turns[0].rename(folders[1] / "turns-00099.parquet")
    assert _code(folders) == "part.damaged"
    (folders[1] / "turns-00099.parquet").rename(turns[0])
    assert merge(folders).rows == 30
    (folders[1] / "turns-00099.parquet").write_bytes(turns[0].read_bytes())
    assert _code(folders) == "part.damaged"


def test_a_shard_that_is_scored_again_and_breaks_off_is_no_part(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows(20) if row["response"]))
    for shard in ("1/2", "2/2"):
        assert turnwise("score", file, "-m", "length", "--out", tmp_path / shard[0], "--shard", shard).returncode == 0
    file.write_text(file.read_text() + "not json\n")
    broken = turnwise("score", file, "-m", "length", "--out", tmp_path / "2", "--shard", "2/2", "--strict")
    assert (broken.returncode, "rows.jsonl" in broken.stderr) == (2, True)
    merged = turnwise("merge", tmp_path / "1", tmp_path / "2")
    assert (merged.returncode, "no part of a run" in merged.stderr) == (2, True)


def test_parts_of_different_inputs_are_refused(tmp_path: Path) -> None:
    def scored(file: Path, shard: str, place: Path) -> Path:
        part = score_part([file], "length", UNKEPT, shard=Shard.parse(shard), spool=place)
        save_part(part, Shard.parse(shard), place)
        return place

    def written(name: str, data: Sequence[dict[str, Any]]) -> Path:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in data))
        return file

    data = rows(20)
    # A file of the same size and the same ids, of which one word was changed in a row of the other shard.
    changed = [row | {"response": "so it began!"} if row["id"] == "0" else row for row in data]
    first = scored(written("one/rows.jsonl", data), "1/2", tmp_path / "first")
    elsewhere = scored(written("two/rows.jsonl", data), "2/2", tmp_path / "elsewhere")
    assert merge([first, elsewhere]).rows == 20
    others = [
        written("two/rows.jsonl", changed),
        written("one/other.jsonl", data),
        written("one/short.jsonl", data[:9]),
    ]
    for number, file in enumerate(others):
        second = scored(file, "2/2", tmp_path / f"second-{number}")
        with pytest.raises(tw.TurnwiseError, match=r"second-\d: scored from another input than .*first; score all"):
            merge([first, second])


def test_a_part_that_was_interrupted_is_refused(tmp_path: Path) -> None:
    def stopped() -> Any:
        yield
        yield
        raise KeyboardInterrupt

    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows(6000)))
    folders = []
    for shard, progress in ((Shard(1, 2), stopped()), (Shard(2, 2), None)):
        folders.append(tmp_path / str(shard.index))
        part = score_part(
            [file],
            "length",
            Run.of(cache="off", progress=progress),
            shard=shard,
            spool=folders[-1],
            keep_when_interrupted=True,
        )
        save_part(part, shard, folders[-1])
    assert _code(folders) == "part.partial"


def test_metrics_that_wait_for_the_whole_run_are_refused() -> None:
    with pytest.raises(tw.TurnwiseError, match="`shard`: usl-h:paper compares each response with the whole run"):
        score_part(rows(3), "usl-h:paper", UNKEPT, shard=Shard(1, 2))


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/0", "-1/2", "1/2/3"])
def test_a_shard_is_i_of_n(text: str) -> None:
    with pytest.raises(tw.TurnwiseError, match="`shard`"):
        Shard.parse(text)


@given(st.lists(st.tuples(st.integers(0, 4), NUMBERS), max_size=40), st.randoms())
@settings(max_examples=150)
def test_sums_do_not_depend_on_order_and_are_rounded_once(pairs: list[tuple[int, float]], rng: random.Random) -> None:
    first, second, all_ = ExactSums(5), ExactSums(5), ExactSums(5)
    for sums, chosen in ((all_, pairs), (first, pairs[::2]), (second, pairs[1::2])):
        shuffled = rng.sample(chosen, len(chosen))
        sums.add(np.array([p for p, _ in shuffled], dtype=np.intp), np.array([v for _, v in shuffled], dtype=float))
    first.add_sums(second, np.arange(5))
    exact = [sum((Fraction(v) for p, v in pairs if p == place), Fraction()) for place in range(5)]
    try:
        expected = [float(value) for value in exact]
    except OverflowError:
        return
    assert all_.values().tolist() == expected
    assert first.values().tolist() == expected


def test_infinite_values_add_up_as_they_are() -> None:
    sums = ExactSums(2)
    sums.add(np.array([0, 1, 1]), np.array([np.inf, 1.0, 2.0]))
    assert sums.values().tolist() == [np.inf, 3.0]


def test_the_document_is_the_same_written_bit_by_bit(tmp_path: Path) -> None:
    result = tw.evaluate(rows(40), METRICS)
    with (tmp_path / "r.json").open("w") as file:
        result.write_json(file)
    assert json.loads((tmp_path / "r.json").read_text()) == result.to_dict()


def test_a_run_that_is_not_kept_has_the_same_result_and_a_sample_of_its_turns(tmp_path: Path) -> None:
    data = rows(1500)
    whole = tw.evaluate(data, "length,f1")
    part = score_part(data, "length,f1", UNKEPT, most=300, spool=tmp_path / "turns")
    result = part.result(seed=0)
    found, expected = result.to_dict(), whole.to_dict()
    # A verdict rests on the turns that are kept, and says so.
    assert "all but a sample" in found.pop("verdict")["text"]
    assert "all but a sample" not in expected.pop("verdict")["text"]
    assert found == expected
    assert (result.rows, result.bad_rows) == (1500, whole.bad_rows)
    kept = {item.number for item in result.judged}
    assert len(kept) == len(result.judged) <= 400
    # Both ends of every metric are there, and the rest is even.
    lengths = {item.number: item.scores["length"].value for item in whole.judged if item.row.example}
    assert max(lengths, key=lambda number: (lengths[number], -number)) in kept
    assert kept >= set(range(0, 1500, 32))
    assert "what is said of turns and ratings is of a sample" in result.report(tmp_path / "report.html").read_text()


def test_the_command_scores_shards_and_merges_them(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows(50)))
    for shard in ("1/2", "2/2"):
        turnwise("score", file, "-m", "length,f1", "--out", tmp_path / shard[0], "--shard", shard)
    merged = turnwise("merge", tmp_path / "1", tmp_path / "2", "--out", tmp_path / "all", "--format", "json")
    printed = json.loads(merged.stdout)
    assert printed == tw.evaluate(file, "length,f1").to_dict()
    saved = json.loads((tmp_path / "all" / "result.json").read_text())
    assert printed == {name: saved[name] for name in printed}
    assert "add --out" in turnwise("score", file, "-m", "length", "--shard", "1/2").stderr


def test_merged_shards_say_what_one_run_says(tmp_path: Path) -> None:
    misspelt = [{"contxt": ["hi"], "response": f"a {n}", "id": f"r{n}"} for n in range(8)]
    merged = merge(in_shards(misspelt, 2, tmp_path, "classic"))
    assert merged.notes == tw.evaluate(misspelt, metrics="classic").notes
    assert any("did you mean 'context'" in note for note in merged.notes)
