"""The page of MAUDE's tables: published numbers in their places, and bars that can be missed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from maude_deltas import variants
from maude_echoes import KINDS as ECHOES
from maude_echoes import responses
from maude_scale import Scale, settled, summed
from maude_tables import AS_TRAINED, CORPORA, KINDS, SETTLED, TRUE, ZERO_SHOT, Measured, bars, markdown, published

GOOD = {
    "paraphrase": 0.05, "generated": 0.2, "random utterance": 0.4, "random generated": 0.5, "word drop": 0.6,
    "word order": 0.8, "word repeat": 0.9,
}  # fmt: skip


def measured(**changed: float) -> Measured:
    def row(delta: float) -> dict[str, float]:
        return {"n": 3, "mean": 0.9 - delta, "std": 0.1, "delta": delta, "wins": 0.9}

    deltas = GOOD | {name.replace("_", " "): value for name, value in changed.items()}
    rows = {TRUE: row(0.0)} | {name: row(delta) for name, delta in deltas.items()}
    return Measured(2.0, -0.25, rows, {corpus: row(0.4) for corpus in CORPORA})


def test_published_deltas_are_those_of_the_paper() -> None:
    # Typed off the paper, in the order of its columns.
    models = ("ruber", "infersent", "bert-nli", "maude")
    assert [published("all")[model, "word order"] for model in models] == [0.392, 0.409, 0.671, 0.726]
    assert [published(ZERO_SHOT)[model, "frames_train"] for model in models] == [0.109, 0.106, 0.206, 0.207]
    assert published("semantics")["maude", "random utterance"] == 0.40
    assert all(len(published(table)) == 4 * len(KINDS) for table in ("all", "semantics", "syntax"))


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({}, []),
        ({"random_utterance": 0.34}, ["random utterance"]),
        ({"paraphrase": 0.11}, ["paraphrase"]),
        ({"word_drop": 0.85}, ["word repeat > word order > word drop"]),
        ({"random_generated": 0.39}, ["random generated > random utterance"]),
    ],
)
def test_bars_are_missed_one_by_one(changed: dict[str, float], missed: list[str]) -> None:
    assert [name for name, *_, reached in bars(measured(**changed)) if not reached] == missed


def test_the_page_shows_ours_beside_theirs() -> None:
    found = {AS_TRAINED: measured(word_order=0.6), SETTLED: measured(word_order=0.7)}
    page = markdown({"all": {"maude": found}}, "wordnet", "it", {"all": "the pack's encoder"})
    assert "trained on all, the pack's encoder." in page
    assert "| word order | 0.600 | 0.700 | at least 0.72 | **no** |" in page
    assert page.index("| word order | 3 | **0.700** (0.726) |") < page.index("| word order | 3 | **0.600** (0.726) |")
    assert "Steepness and middle: maude 2 and -0.25." in page
    assert "| Frames | 3 | **0.400** (0.207) |" in page
    assert "WordNet" in page


def test_a_settled_scale_widens_deltas_and_moves_nobody_past_another() -> None:
    rng = np.random.default_rng(0)
    # A model that met many negatives doubts everything.
    pairs = [tuple(1 / (1 + np.exp(-rng.normal(mean, 1, 400))) for mean in (-2 + gap, -2 - gap)) for gap in (1, 0.5)]
    scale = settled(pairs)
    assert scale.middle == pytest.approx(-2, abs=0.4)
    assert summed(scale, pairs) > summed(Scale(), pairs) + 0.2
    for true, other in pairs:
        assert ((true > other) == (scale(true) > scale(other))).all()
        assert Scale()(true) == pytest.approx(true)


def test_task_oriented_contexts_are_read_sentence_by_sentence() -> None:
    from turnwise.train.maude_data import Sampled

    test = [Sampled(("hi . where to ?", "to york . today .", "fine")), Sampled(("hello", "yes", "ok"))]
    asked = variants(test, by_sentence=True)
    assert [context for context, _ in asked[TRUE]][:2] == [
        ("hi .", "where to ?"),
        ("hi .", "where to ?", "to york .", "today ."),
    ]
    assert next(response for _, response in asked[TRUE]) == "to york . today ."


def test_echoes_are_of_the_same_dialogue() -> None:
    from random import Random

    from turnwise.train.maude_data import Sampled

    held = [Sampled(turns=(f"hi {n}", f"what is new {n}", f"not much {n}")) for n in range(5)]
    held.append(Sampled(turns=("too", "short")))
    rows = responses(held, Random(0))
    assert len(rows) == 5
    for context, true, wrong in rows:
        assert tuple(wrong) == ECHOES
        assert wrong["last turn again"] == context[-1] != true
        assert sorted(wrong["last turn, shuffled"].split()) == sorted(context[-1].split())
        assert wrong["own turn again"] == context[-2]
