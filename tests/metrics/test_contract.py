"""What every registered metric keeps to, checked on the bundled models."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnwise.dialogue import Example, Row
from turnwise.engine.aggregate import Summary
from turnwise.engine.score import Judged, judge_examples
from turnwise.engine.session import Session
from turnwise.engine.state import Saved, save_state
from turnwise.metrics.base import Score
from turnwise.metrics.registry import entries, load_metric, plain_form
from turnwise.metrics.signature import signature

TURNS = (
    "do you like dogs ?",
    "i love my dog .",
    "what is its name ?",
    "it was raining all day",
    "shall we go out now ?",
)
SAID = ("his name is rex .", "yes , rex likes the rain", "i do not know", "tea with milk , please", "let us go then !")
# Every need is met; two groups, two systems and several dialogues, so that nothing is pooled into one.
EXAMPLES = [
    Example(
        f"{SAID[i % 5]} {SAID[(i // 5 + i) % 5]}",
        (TURNS[i % 5], SAID[(i + 1) % 5], TURNS[(i + 2) % 5]),
        references=(f"{SAID[(i + 2) % 5]} {TURNS[i % 5]}", SAID[(i + 3) % 5]),
        facts=("rex is a dog that likes rain .",),
        group=f"g{i % 4}",
        dialogue_id=f"d{i % 12}",
        system="ab"[i % 2],
        id=str(i),
    )
    for i in range(48)
]
NEEDS = {"context": (), "references": (), "facts": (), "group": None}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Session(cache=str(tmp_path_factory.mktemp("answers"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def scores(session: Session) -> dict[str, list[Score]]:
    """The scores of all examples by all metrics that the bundled models can answer."""
    metrics = {name: metric for name in entries() if (metric := load_metric(name)).roles <= session.roles}
    judged = judge_examples(EXAMPLES, metrics, session.answer)
    return {name: [row[name] for row in judged] for name in metrics}


def known(name: str, scores: dict[str, list[Score]]) -> list[Score]:
    if name not in scores:
        pytest.skip("no bundled model answers it")
    return scores[name]


def judged(name: str, found: list[Score]) -> list[Judged]:
    rows = (Row(example.id or "", "f.jsonl", i + 1, example) for i, example in enumerate(EXAMPLES))
    return [Judged(row, {name: score}, i) for i, (row, score) in enumerate(zip(rows, found, strict=True))]


@pytest.mark.parametrize("name", entries())
class TestEveryMetric:
    def test_it_is_what_its_form_says(self, name: str) -> None:
        metric = load_metric(name)
        assert load_metric(plain_form(metric)) == metric == load_metric(name)
        assert hash(load_metric(name)) == hash(metric)
        assert signature(name, metric) == signature(name, load_metric(name))
        for option in metric.options():
            assert f"|{option}:" in signature(name, metric, full=True)
        low, high = metric.range
        assert low < high
        assert metric.summary

    def test_its_requests_are_the_same_every_time(self, name: str) -> None:
        for example in EXAMPLES[:6]:
            assert list(load_metric(name).requests(example)) == list(load_metric(name).requests(example))

    def test_a_missing_need_is_a_note_with_a_code(self, name: str) -> None:
        metric = load_metric(name)
        assert metric.unmet_need(EXAMPLES[0]) is None
        for need in metric.needs:
            lacking = metric.unmet_need(dataclasses.replace(EXAMPLES[0], **{need: NEEDS[need]}))
            assert lacking is not None
            assert lacking.code == f"score.no_{need}"

    def test_a_score_lies_within_its_range_or_says_why_there_is_none(self, name: str, scores) -> None:
        low, high = load_metric(name).range
        for score in known(name, scores):
            if score.value is None:
                assert score.evidence is not None or score.note is not None
            else:
                assert low - 1e-9 <= score.value <= high + 1e-9
                assert math.isfinite(score.value)
            assert all(math.isfinite(part) for part in score.parts.values())

    def test_a_score_does_not_depend_on_its_batch(self, name: str, scores) -> None:
        expected = known(name, scores)[7]
        metric = load_metric(name)
        with Session(cache="off") as uncached:
            (alone,) = judge_examples([EXAMPLES[7]], {name: metric}, uncached.answer)
        assert alone[name].value == pytest.approx(expected.value, abs=1e-5)

    def test_parts_of_a_run_merge_into_the_whole(self, name: str, scores, tmp_path: Path) -> None:
        metrics = {name: load_metric(name)}
        rows = judged(name, known(name, scores))
        whole = Summary(metrics)
        for row in rows:
            whole.add(row)
        parts = []
        # Dialogues stay together; the last part comes first.
        for share in (2, 0, 1):
            part = Summary(metrics)
            for row in rows:
                if int(row.row.example.dialogue_id[1:]) % 3 == share:
                    part.add(row)
            folder = tmp_path / str(share)
            save_state(folder, {}, {"summary": part.state()}, metrics)
            parts.append(Summary.restored(metrics, Saved(folder).load(metrics)["summary"]))
        first, *others = parts
        for other in others:
            first.merge(other)
        assert first.system_values(seed=3) == whole.system_values(seed=3)
        assert list(first.group_table()) == list(whole.group_table())
        for value in whole.system_values(seed=3):
            assert first.point(value.system, name) == pytest.approx(value.value)
