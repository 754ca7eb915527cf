"""Fitting to raters: the weights are those of the ratings, and nothing is judged by what it was fitted to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import turnwise as tw
from turnwise.analyses.config import load_config
from turnwise.analyses.evaluate import evaluate
from turnwise.analyses.fit import Fit, fit
from turnwise.analyses.ratings import clusters_of, rated_items


def conversations(contexts: int = 20, seed: int = 0, noise: float = 0.3) -> list[dict[str, Any]]:
    """Ratings by two people who like long replies and dislike repeated words; the second rates half of them."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(contexts):
        for system in ("a", "b", "c"):
            words = rng.choice(list("abcdefgh"), size=rng.integers(3, 12)).tolist()
            quality = 0.2 * len(words) + 3 * len(set(words)) / len(words) + noise * rng.normal()
            second = quality + 1 if number % 2 else None
            rows.append(
                {
                    "context": [f"question {number} ?"],
                    "response": " ".join(words),
                    "references": ["a b c"],
                    "system": system,
                    "ratings": {"Overall": [quality, second], "Fun": [1, 1]},
                    "raters": ["ana", "ben"],
                }
            )
    return rows


def test_weights_are_found_again() -> None:
    rows = conversations(60, noise=0.0)
    for row in rows:
        row["ratings"]["Overall"][1] = None
    found = fit(rows, metrics=["length", "distinct-1"])
    spread = {part.name: part.normaliser.deviation for part in found.metric.parts}  # type: ignore[union-attr]
    weights = {weight.metric: weight.weight / spread[weight.metric] for weight in found.weights}
    assert weights == pytest.approx({"length": 0.2, "distinct-1": 3.0})
    assert found.cross_validated.pearson == pytest.approx(1.0)


def test_the_file_scores_as_the_fit_predicts(tmp_path: Path) -> None:
    rows = conversations()
    found = fit(rows, metrics="length,distinct-1", save=tmp_path / "mine.toml")
    assert found.config == tmp_path / "mine.toml"
    assert load_config(found.config) == found.metric
    result = evaluate(rows, "mine", config=found.config)
    ratings = [np.mean([r for r in row["ratings"]["Overall"] if r is not None]) for row in rows]
    agrees = np.corrcoef(result.turns["mine"].to_numpy(), ratings)[0, 1]
    assert found.in_sample.pearson == pytest.approx(agrees)


def test_the_document_has_the_promised_shape(tmp_path: Path) -> None:
    document = fit(conversations(), metrics=["length", "distinct-1"], save=tmp_path / "x.json").to_dict()
    assert list(document)[:4] == ["target", "weights", "cross_validated", "config"]
    assert list(document["weights"][0]) == ["metric", "weight", "low", "high"]
    assert {"pearson", "spearman"} <= set(document["cross_validated"])
    assert document["config"] == str(tmp_path / "x.json")
    json.dumps(document, allow_nan=False)


def test_ratings_that_follow_nothing_are_seen_through() -> None:
    rows = conversations()
    rng = np.random.default_rng(4)
    for row in rows:
        row["ratings"]["Overall"] = [float(rng.normal()), None]
    found = fit(rows, metrics="length,distinct-1,distinct-2,entropy-1,f1,bleu-1,rouge-l,meteor")
    assert found.in_sample.pearson is not None
    assert found.cross_validated.pearson is not None
    assert found.cross_validated.pearson < found.in_sample.pearson


def test_everything_is_seeded() -> None:
    rows = conversations()
    first, again, other = (fit(rows, metrics=["length", "f1"], seed=seed).to_dict() for seed in (1, 1, 2))
    assert first == again
    assert first["cross_validated"] != other["cross_validated"]


def test_each_rater_counts_the_same_when_asked() -> None:
    rows = conversations()
    found = fit(rows, metrics=["length", "distinct-1"], per_rater=True)
    assert [(rater.rater, rater.n) for rater in found.raters] == [("ana", 60), ("ben", 30)]
    for weight in found.weights:
        alone = [rater.weights[weight.metric] for rater in found.raters]
        assert weight.weight == pytest.approx(np.mean(alone))
    mine = fit(
        [row | {"ratings": {"Overall": row["ratings"]["Overall"][:1]}, "raters": ["ana"]} for row in rows],
        metrics=["length", "distinct-1"],
    )
    assert found.raters[0].weights == pytest.approx({weight.metric: weight.weight for weight in mine.weights})


def test_raters_with_too_few_ratings_are_left_out_and_named() -> None:
    rows = conversations()
    for row in rows[5:]:
        row["ratings"]["Overall"][1] = None
    found = fit(rows, metrics=["length", "distinct-1"], per_rater=True)
    assert [rater.rater for rater in found.raters] == ["ana"]
    assert any("ben" in note for note in found.notes)


def test_weights_below_nought_can_be_forbidden() -> None:
    rows = conversations()
    for row in rows:
        row["ratings"]["Overall"] = [-5.0 * len(row["response"].split()), None]
    free = {weight.metric: weight.weight for weight in fit(rows, metrics=["length", "distinct-1"]).weights}
    bound = {w.metric: w.weight for w in fit(rows, metrics=["length", "distinct-1"], non_negative=True).weights}
    assert free["length"] < 0
    assert bound["length"] == 0


def test_rows_without_a_score_are_counted() -> None:
    rows = conversations()
    rows[0]["references"] = []
    found = fit(rows, metrics=["length", "f1"])
    assert found.n == 59
    assert any(note.startswith("1 of 60 rated rows") for note in found.notes)


def test_systems_can_be_left_out() -> None:
    assert fit(conversations(), metrics=["length", "distinct-1"], exclude_systems=["c"]).n == 40


def test_a_rated_dialogue_is_one_item() -> None:
    rows = [
        {
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "a " * (1 + number % 5)},
                {"role": "user", "content": "ok"},
                {"role": "assistant", "content": "a " * (1 + number % 3)},
            ],
            "dialogue_id": str(number),
            "ratings": {"Overall": [number % 5 + number % 3]},
        }
        for number in range(15)
    ]
    found = fit(rows, metrics=["length"])
    assert (found.n, found.contexts) == (15, 15)
    assert found.in_sample.pearson == pytest.approx(1.0)


def cluster_sizes(rows: list[dict[str, Any]]) -> list[int]:
    judged = evaluate(rows, ["length"]).judged
    items, _ = rated_items(judged, ["length"], "Overall", set())
    return sorted(np.bincount(clusters_of(items)).tolist())


def test_what_shares_a_context_or_a_dialogue_stays_together() -> None:
    rating = {"response": "x", "ratings": {"Overall": [1]}}
    assert cluster_sizes([rating | {"context": ["a"]}, rating | {"context": ["a"]}, rating | {"context": ["b"]}]) == [
        1,
        2,
    ]
    chained = [
        rating | {"context": ["a", "b"], "dialogue_id": "1"},
        rating | {"context": ["c", "d"], "dialogue_id": "1"},
        rating | {"context": ["c", "d"], "dialogue_id": "2"},
        rating | {"context": ["e", "f"], "dialogue_id": "3"},
    ]
    assert cluster_sizes(chained) == [1, 3]
    greetings = [rating | {"context": ["hi"], "dialogue_id": str(number)} for number in range(3)]
    assert cluster_sizes(greetings) == [1, 1, 1]
    assert cluster_sizes([rating, rating, rating]) == [1, 1, 1], "rows without a context share nothing"


def refused(rows: list[dict[str, Any]], **options: Any) -> str:
    with pytest.raises(tw.TurnwiseError) as raised:
        fit(rows, **options)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_what_cannot_be_fitted_is_said_in_one_line() -> None:
    rows = conversations()
    one_context = [row | {"context_id": "same"} for row in rows]
    both: dict[str, Any] = {"metrics": ["length", "distinct-1"]}
    assert "3 rated items are too few: 6 are needed" in refused(rows[:3], **both)
    assert "one context" in refused(one_context, **both)
    assert "f1 has the same score" in refused([row | {"references": ["z"]} for row in rows], metrics=["length", "f1"])
    assert "same rating of Fun" in refused(rows, target="Fun", **both)
    assert "Overall, Fun" in refused(rows, target="Grammar", **both)
    assert "no row has ratings" in refused([row | {"ratings": {}, "raters": []} for row in rows], **both)
    assert "lacks a score" in refused([row | {"references": []} for row in rows], metrics=["f1"])
    assert "the systems are: a, b, c" in refused(rows, exclude_systems=["d"], **both)
    assert "ridge" in refused(rows, ridge=-1.0, **both)
    assert "folds" in refused(rows, folds=1, **both)
    strangers = [row | {"raters": [f"ana {n}", f"ben {n}"]} for n, row in enumerate(rows)]
    assert "no rater rated 6 items" in refused(strangers, per_rater=True, **both)


@pytest.fixture(scope="module")
def topical(data_dir: Path) -> Fit:
    return _fit_topical(data_dir)


def _fit_topical(data_dir: Path) -> Fit:
    file = data_dir / "human" / "usr_topicalchat.jsonl"
    return fit(file, metrics="classic", exclude_systems=["Original Ground Truth"])


@pytest.mark.slow
def test_on_rated_conversations(topical: Fit, data_dir: Path) -> None:
    assert (topical.n, topical.contexts, topical.folds) == (300, 60, 10)
    held_out, seen = topical.cross_validated, topical.in_sample
    assert held_out.pearson is not None
    assert seen.pearson is not None
    assert held_out.spearman_low is not None
    assert held_out.spearman_high is not None
    assert held_out.spearman is not None
    assert held_out.pearson < seen.pearson
    assert held_out.spearman_low < held_out.spearman < held_out.spearman_high
    assert topical.to_dict() == _fit_topical(data_dir).to_dict()
    # Response length against Overall is a published number of this corpus.
    assert topical.single["length"].pearson == pytest.approx(0.337, abs=5e-4)
    assert topical.single["length"].spearman == pytest.approx(0.275, abs=5e-4)


def test_a_metric_that_waits_for_the_whole_run_is_refused_before_anything_is_scored() -> None:
    def scored() -> Iterator[None]:
        pytest.fail("something was scored")
        yield

    with pytest.raises(tw.TurnwiseError, match="fit: fluency:paper compares each response with the whole run; leave"):
        fit(conversations(), metrics=["length", "fluency:paper"], progress=scored())


def test_the_document_has_signatures() -> None:
    document = fit(conversations(), metrics=["length", "distinct-1"]).to_dict()
    assert document["signatures"] == evaluate(conversations(), ["length", "distinct-1"]).signatures
