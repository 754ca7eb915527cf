"""Plans of experiments, rows to rate, and what people would say of all replies."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import turnwise as tw
from turnwise.stats.power import contexts_for

EXAMPLES = Path(__file__).parents[2] / "examples" / "chats.jsonl"


def rated(n: int = 120, labels: int = 40, seed: int = 0) -> list[dict[str, Any]]:
    """Two systems whose replies share words with a reference; people rate some, near to that share."""
    rng = Random(seed)
    rows = []
    for number in range(n):
        words = [f"w{rng.randrange(30)}" for _ in range(10)]
        for system, share in (("old", 0.5), ("new", 0.8)):
            kept = [word if rng.random() < share else "um" for word in words]
            like = sum(word != "um" for word in kept) / 10
            row: dict[str, Any] = {
                "id": f"{system} {number}",
                "system": system,
                "context": [f"question {number}"],
                "response": " ".join(kept),
                "references": [" ".join(words)],
            }
            if number < labels:
                row["ratings"] = {"Overall": [1 + 4 * like + rng.random() - 0.5]}
            rows.append(row)
    return rows


def test_a_plan_is_that_of_the_pilots_differences() -> None:
    found = tw.plan(EXAMPLES, 0.05, metrics=["f1"])
    (row,) = found.rows
    assert (row.what, row.raters) == ("f1", 1)
    assert found.pilot == "scores of 15 contexts, paired"
    assert row.contexts == contexts_for(0.05, found.variances["f1"].between)
    assert row.power >= 0.8
    surer = tw.plan(EXAMPLES, 0.05, metrics=["f1"], power=0.95, pairs=6).rows[0]
    assert surer.contexts > row.contexts
    assert tw.plan(EXAMPLES, 0.1, metrics=["f1"]).rows[0].contexts < row.contexts


def test_more_ratings_of_each_reply_need_fewer_contexts() -> None:
    rows = tw.plan(EXAMPLES, 0.3, metrics=["f1"], quality="Overall").rows
    assert [row.raters for row in rows] == [1, 2, 3, 5, 10]
    contexts = [row.contexts for row in rows]
    assert contexts == sorted(contexts, reverse=True)


def test_a_pilot_of_one_system_plans_for_contexts_of_their_own() -> None:
    rows = [row for row in rated() if row["system"] == "old"]
    assert tw.plan(rows, 0.1, metrics=["f1"]).pilot == "scores of 120 contexts, for systems on contexts of their own"
    assert "of their own" in tw.plan(rows, 0.1, metrics=["f1"], quality="Overall").pilot


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"difference": 0.0}, "`difference`"),
        ({"difference": 0.1, "power": 1.0}, "`power`"),
        ({"difference": 0.1, "quality": "Nothing"}, "Nothing"),
        ({"difference": 1e-9}, "ten million"),
    ],
)
def test_plans_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(tw.TurnwiseError, match=words):
        tw.plan(rated(), metrics=["f1"], **options)


def test_a_tiny_pilot_plans_nothing() -> None:
    with pytest.raises(tw.TurnwiseError, match="too few contexts"):
        tw.plan(rated(n=4), 0.1, metrics=["f1"])


def test_sampled_rows_are_filled_in_and_scored(tmp_path: Path) -> None:
    file = tmp_path / "rate.jsonl"
    picked = tw.sample(rated(labels=0), 40, metrics=["f1"], save=file)
    assert len(picked.rows) == 80
    for system in ("old", "new"):
        assert sum(row.weight for row in picked.rows if row.system == system) == pytest.approx(120)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == 240
    assert all(("weight" in line) == (place < 80) for place, line in enumerate(lines))
    assert lines[0]["ratings"] == {"Overall": [None]}
    for line in lines[:80]:
        line["ratings"] = {"Overall": [1 + 4 * sum(word != "um" for word in line["response"].split()) / 10]}
    found = tw.evaluate(lines, metrics=["f1"]).people
    assert found is not None
    assert [(row.n, row.rows) for row in found.systems] == [(40, 120)] * 2
    for row in found.systems:
        mine = [line for line in lines if line["system"] == row.system]
        truth = np.mean([1 + 4 * sum(word != "um" for word in line["response"].split()) / 10 for line in mine])
        assert row.low < truth < row.high


def test_ratings_of_some_rows_speak_of_all() -> None:
    result = tw.compare(rated(), metrics=["f1", "length"])
    found = result.people
    assert found is not None
    assert (found.quality, found.metric, found.target) == ("Overall", "f1", "population")
    old, new = found.systems
    assert old.worth > old.n == 40
    assert old.value == pytest.approx(3, abs=0.3)
    assert new.value == pytest.approx(4.2, abs=0.3)
    (difference,) = found.differences
    assert (difference.system, difference.baseline, difference.verdict) == ("new", "old", "better")
    assert difference.low < 1.2 < difference.high  # type: ignore[operator]
    document = result.to_dict()
    assert document["people"]["systems"][0]["worth"] == old.worth
    assert tw.evaluate(rated(), metrics=["f1"]).to_dict()["people"]["systems"] == document["people"]["systems"]


def test_few_ratings_are_refused_and_all_of_them_need_no_metric() -> None:
    few = tw.evaluate(rated(labels=15), metrics=["f1"]).people
    assert few is not None
    assert not few.systems
    assert few.refused[0] == "old: 15 rated contexts are too few; rate at least 20"
    assert tw.evaluate(rated(labels=120), metrics=["f1"]).people is None
    assert "people" not in tw.evaluate(rated(labels=0), metrics=["f1"]).to_dict()
