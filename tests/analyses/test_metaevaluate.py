"""Meta-evaluation: the numbers are scipy's, the levels and exclusions are what was asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import turnwise as tw
from turnwise.stats.significance import williams_test


@pytest.fixture
def rated() -> list[dict[str, Any]]:
    """Forty responses of four systems whose length is loosely what people rated."""
    rng = np.random.default_rng(7)
    rows = []
    for number in range(40):
        length = int(rng.integers(1, 15))
        rows.append(
            {
                "id": str(number),
                "context": [f"question {number % 10}"],
                "response": " ".join(["word"] * length),
                "system": f"s{number % 4}",
                "ratings": {"Overall": [float(np.clip(round(length / 3 + rng.normal()), 1, 5)), None, 3.0]},
            }
        )
    return rows


def test_turn_level_equals_scipy(rated: list[dict[str, Any]]) -> None:
    row = tw.metaevaluate(rated, metrics=["length"]).rows[0]
    lengths = [len(item["response"].split()) for item in rated]
    means = [(item["ratings"]["Overall"][0] + 3.0) / 2 for item in rated]
    assert row.n == 40
    assert row.pearson == pytest.approx(stats.pearsonr(lengths, means).statistic)
    assert row.spearman == pytest.approx(stats.spearmanr(lengths, means).statistic)
    assert row.kendall == pytest.approx(stats.kendalltau(lengths, means).statistic)
    assert row.p_spearman == pytest.approx(stats.spearmanr(lengths, means).pvalue)
    assert row.spearman_low < row.spearman < row.spearman_high  # type: ignore[operator]


def test_system_level_correlates_means(rated: list[dict[str, Any]]) -> None:
    row = tw.metaevaluate(rated, metrics=["length"], level="system").rows[0]
    lengths = np.array([len(item["response"].split()) for item in rated])
    ratings = np.array([(item["ratings"]["Overall"][0] + 3.0) / 2 for item in rated])
    means = [(lengths[s::4].mean(), ratings[s::4].mean()) for s in range(4)]
    assert row.n == 4
    assert row.pearson == pytest.approx(stats.pearsonr(*zip(*means, strict=True)).statistic)


def test_excluded_systems_do_not_count(rated: list[dict[str, Any]]) -> None:
    assert tw.metaevaluate(rated, metrics=["length"], exclude_systems=["s0"]).rows[0].n == 30


def test_dialogue_level_averages_turns() -> None:
    rows = []
    for number in range(6):
        turns = [("user", "hi"), ("assistant", "a " * (number + 1)), ("user", "ok"), ("assistant", "b " * (number + 3))]
        messages = [{"role": role, "content": content} for role, content in turns]
        rows.append({"messages": messages, "id": str(number), "ratings": {"Overall": [number, number + 1]}})
    row = tw.metaevaluate(rows, metrics=["length"], level="dialogue").rows[0]
    assert (row.n, row.spearman) == (6, pytest.approx(1.0))
    with pytest.raises(tw.TurnwiseError, match="level=dialogue"):
        tw.metaevaluate(rows, metrics=["length"], level="turn")


def test_a_wrong_quality_names_the_right_ones(rated: list[dict[str, Any]]) -> None:
    with pytest.raises(tw.TurnwiseError, match="the ratings are: Overall"):
        tw.metaevaluate(rated, metrics=["length"], qualities=["Fun"])


def test_an_unknown_system_to_exclude_is_refused(rated: list[dict[str, Any]]) -> None:
    with pytest.raises(tw.TurnwiseError, match="the systems are: s0"):
        tw.metaevaluate(rated, metrics=["length"], exclude_systems=["S0"])


def test_no_ratings_at_all_is_said() -> None:
    with pytest.raises(tw.TurnwiseError, match="no row has ratings"):
        tw.metaevaluate([{"response": "hello"}], metrics=["length"])


def test_a_known_corpus_brings_its_exclusions(data_dir: Path) -> None:
    file = data_dir / "formats" / "usr_pc_usr_data.json"
    result = tw.metaevaluate(file, metrics=["length"], corpus="usr")
    assert any("Original Ground Truth" in note for note in result.notes)
    rows = tw.evaluate(file, metrics=["length"], corpus="usr").turns
    kept = rows.filter(rows["system"] != "Original Ground Truth").height
    assert {row.n for row in result.rows} == {kept}


def test_files_of_one_name_are_two_corpora(rated: list[dict[str, Any]], tmp_path: Path) -> None:
    for folder, rows in (("may", rated[:25]), ("june", rated[25:])):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = [str(tmp_path / folder / "x.jsonl") for folder in ("may", "june")]
    rows = tw.metaevaluate(files, metrics=["length"]).rows
    assert [(row.corpus, row.n) for row in rows] == [("may/x", 25), ("june/x", 15)]


def test_a_metric_of_groups_is_held_against_ratings_over_systems() -> None:
    said = {"s0": ["a b", "a b"], "s1": ["a b", "a c"], "s2": ["a b c d", "d c b a"], "s3": ["a b c d e", "f g h i j"]}
    ratings = {"s0": 1, "s1": 2, "s2": 3, "s3": 4}
    rows = [
        {"id": str(n), "group": "g", "system": system, "response": reply, "ratings": {"Overall": [ratings[system]]}}
        for n, (system, reply) in enumerate((system, reply) for system, replies in said.items() for reply in replies)
    ]
    (row,) = tw.metaevaluate(rows, metrics=["diversity"], level="system").rows
    assert (row.metric, row.n, row.spearman) == ("diversity", 4, pytest.approx(1.0))
    with pytest.raises(tw.TurnwiseError, match="diversity: of groups of replies, not of single turns; use `level"):
        tw.metaevaluate(rows, metrics=["diversity"])
    notes = tw.metaevaluate(rows, metrics=["diversity", "length"]).notes
    assert notes == ["left out: diversity: of groups of replies, not of single turns; use `level=system`"]


def test_the_document_has_signatures(rated: list[dict[str, Any]]) -> None:
    document = tw.metaevaluate(rated, metrics=["length", "distinct-1"]).to_dict()
    assert document["signatures"] == tw.evaluate(rated, metrics=["length", "distinct-1"]).signatures
    assert "length" in document["signatures"]


def test_a_rival_is_held_against_the_others_on_the_turns_that_both_scored(rated: list[dict[str, Any]]) -> None:
    for number, row in enumerate(rated):
        words = row["response"].split()
        row["response"] = " ".join(f"{word}{place % (number % 3 + 1)}" for place, word in enumerate(words))
        # f1 has no score here, and so no say in the comparison.
        row["references"] = [] if number % 5 == 0 else ["word0 word1"]
    found = tw.metaevaluate(rated, metrics=["length", "f1", "entropy-1"], against="length")
    rows = {row.metric: row for row in found.rivals}
    assert list(rows) == ["f1", "entropy-1"]
    assert (rows["f1"].n, rows["entropy-1"].n) == (32, 40)
    kept = [row for row in rated if row["references"]]
    scores = {row["id"]: row for row in tw.evaluate(kept, metrics=["length", "f1"]).turns.to_dicts()}
    people = [np.mean([value for value in row["ratings"]["Overall"] if value is not None]) for row in kept]
    ours, theirs = ([scores[row["id"]][name] for row in kept] for name in ("f1", "length"))
    first, second, between = (
        stats.spearmanr(*pair).statistic for pair in ((ours, people), (theirs, people), (ours, theirs))
    )
    assert rows["f1"].spearman == pytest.approx(first)
    assert rows["f1"].spearman_against == pytest.approx(second)
    assert rows["f1"].difference == pytest.approx(first - second)
    expected = williams_test(first, second, between, 32)
    assert expected is not None
    assert rows["f1"].p_williams == pytest.approx(expected.p)
    # Interval and p come from one test.
    for row in found.rivals:
        assert row.low is not None
        assert row.high is not None
        assert row.p is not None
        assert row.low < row.difference < row.high
        assert (row.p < 0.05) == (row.low > 0 or row.high < 0) == (row.verdict in ("better", "worse"))
    assert rows["f1"].low is not None
    assert rows["f1"].high is not None
    assert rows["f1"].low < rows["f1"].difference < rows["f1"].high
    assert [row["metric"] for row in found.to_dict()["rivals"]] == ["f1", "entropy-1"]


def test_a_rival_that_is_not_among_the_metrics_is_refused(rated: list[dict[str, Any]]) -> None:
    with pytest.raises(tw.TurnwiseError, match="'f1' is not among the metrics: length"):
        tw.metaevaluate(rated, metrics=["length"], against="f1")
    with pytest.raises(tw.TurnwiseError, match="level=turn"):
        tw.metaevaluate(rated, metrics=["length"], against="length", level="system")
