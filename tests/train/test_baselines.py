"""The baselines learn what can be learnt; their wrong responses are drawn as the papers draw them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import chisquare

torch = pytest.importorskip("torch")

from turnwise.models.export.weights import pack_weights  # noqa: E402
from turnwise.models.heads import unpack_weights  # noqa: E402
from turnwise.train.baselines import (  # noqa: E402  # noqa: E402
    JUDGES,
    NOTHING,
    READERS,
    DrawnPairs,
    Numbered,
    Texts,
    Thoughts,
    context_of,
    judge_loss,
    load_thoughts,
    neighbour_loss,
    probabilities,
    unit,
    weights_of,
)
from turnwise.train.loop import Columns, Recipe, fit_epochs, predict, seeded  # noqa: E402

TOPICS, EACH, WORDS = 6, 40, 8


@pytest.fixture(scope="module")
def language() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors of words that belong to topics, texts of such words, and the topic of each text."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(TOPICS, 16))
    vectors = unit((np.repeat(centres, 10, axis=0) + 0.5 * rng.normal(size=(10 * TOPICS, 16))).astype(np.float32))
    topics = np.repeat(np.arange(TOPICS), EACH)
    texts = (topics[:, None] * 10 + rng.integers(10, size=(len(topics), WORDS))).astype(np.int32)
    texts[::3, 5:] = NOTHING
    return vectors, texts, topics


def pairs(topics: np.ndarray, seed: int, count: int = 400) -> Numbered:
    """Contexts with a response on their topic, and three that are not."""
    rng = np.random.default_rng(seed)
    contexts = rng.integers(len(topics), size=count)
    responses = np.array([rng.choice(np.flatnonzero(topics == topics[c])) for c in contexts])
    wrong = np.array([rng.choice(np.flatnonzero(topics != topics[c]), 3) for c in contexts])
    return Numbered(contexts, responses, wrong)


def beats(model: Any, validation: Numbered) -> float:
    chances = predict(model, probabilities, validation.columns())
    return float((chances[:, :1] > chances[:, 1:]).mean())


@pytest.mark.slow
@pytest.mark.parametrize("name", [*READERS, *JUDGES])
def test_each_learns_to_tell_responses_on_the_topic_from_others(name: str, language: Any) -> None:
    vectors, texts, topics = language
    words = [vectors[row[row != NOTHING]].mean(axis=0) for row in texts]
    model: Any = seeded(
        0, lambda: READERS[name](vectors, texts, None) if name in READERS else JUDGES[name](np.stack(words))
    )
    training, validation = pairs(topics, 1), pairs(topics, 2, 100)
    before = beats(model, validation)
    fit_epochs(
        model, judge_loss, training.columns(), validation.columns(), Recipe(epochs=5, batch=64, learning_rate=3e-3)
    )
    assert beats(model, validation) > max(0.9, before)


def test_thoughts_find_what_follows_and_others_start_from_them(language: Any) -> None:
    vectors, texts, topics = language
    model = seeded(0, lambda: Thoughts(vectors, texts, width=8))
    rng = np.random.default_rng(5)
    first = rng.integers(len(topics), size=300)
    second = np.array([rng.choice(np.flatnonzero(topics == (topics[c] + 1) % TOPICS)) for c in first])
    columns = Columns({"first": first, "second": second})
    fitted = fit_epochs(
        model, neighbour_loss, columns, columns, Recipe(epochs=12, batch=50, learning_rate=1e-2, clip=5)
    )
    # Who follows is known up to the topic: of fifty, about eight are as good as the right one.
    assert fitted.loss < np.log(50) - 1
    again = load_thoughts(unpack_weights(pack_weights(weights_of(model), fineness=None)))
    wide = np.zeros((2, vectors.shape[1]), dtype=np.float32)
    reader = READERS["infersent"](wide, texts, None)
    assert torch.equal(reader.context.weight_hh_l0, reader.response.weight_hh_l0)
    assert torch.equal(again.bi.weight_hh_l0, model.bi.weight_hh_l0)


def test_the_loss_is_the_specifications() -> None:
    def of(*chances: float) -> float:
        odds = torch.logit(torch.tensor([chances], dtype=torch.float64))
        batch = {"context": None, "responses": None}
        return float(judge_loss(lambda *_: odds, batch))

    assert of(*[0.5] * 7) == pytest.approx(np.log(2))
    assert of(0.9, *[0.1] * 6) == pytest.approx(0.105361, abs=1e-6)
    assert of(0.5, *[0.1] * 6) == pytest.approx(0.189330, abs=1e-6)


def test_enhanced_negatives_follow_the_softmax_of_likeness() -> None:
    vectors = unit(np.random.default_rng(3).normal(size=(6, 4)).astype(np.float32))
    numbers = np.arange(6)
    texts = Numbered(numbers, numbers, np.zeros((6, 0), dtype=np.int64))
    drawn = DrawnPairs(texts, vectors, candidates=200, temperature=0.5)
    rng = np.random.default_rng(0)
    places = np.zeros(200, dtype=np.int64)
    wrong = np.concatenate([drawn.batch(places, rng)["responses"][:, 1].numpy() for _ in range(60)])
    # With many candidates each response is there about as often, so the softmax over all of them is what is drawn.
    likely = softmax(np.where(numbers == 0, -np.inf, vectors @ vectors[0] / 0.5))
    expected = 2 / 3 * likely + 1 / 3 * np.full(6, 1 / 6)
    counts = np.bincount(wrong, minlength=6)
    assert counts / len(wrong) == pytest.approx(expected, abs=0.07)
    plain = DrawnPairs(texts)
    counts = np.bincount(
        np.concatenate([plain.batch(places, rng)["responses"][:, 1].numpy() for _ in range(30)]), minlength=6
    )
    assert chisquare(counts).pvalue > 1e-4


def test_texts_are_numbered_once_and_keep_their_last_words(small_words: Any) -> None:
    texts = Texts()
    assert texts.add(["a b", "c", "a b"]).tolist() == [0, 1, 0]
    assert texts.listed() == ["a b", "c"]
    assert context_of(["one", "two", "three"]) == "two three"
    texts.add([" ".join(["tea"] * 40 + ["music"])])
    vectors, ids = texts.words(small_words)
    assert ids.shape == (3, 32)
    assert (ids[0] != NOTHING).sum() == 2
    assert (ids[2] != NOTHING).all()
    assert np.linalg.norm(vectors, axis=1)[ids[2, -1]] == pytest.approx(1.0, abs=1e-5)
    assert np.linalg.norm(vectors, axis=1)[ids[0, 0]] == 0.0


@pytest.fixture
def small_words(tmp_path: Path) -> Any:
    """A pack with two words."""
    from turnwise.models.export.build_pack import PackBuilder
    from turnwise.models.export.weights import _named, _save

    builder = PackBuilder(tmp_path / "pack")
    values = np.array([[3, 4], [1, -1]], dtype=np.int8)
    scales = np.ones(2, dtype=np.float32)
    _save(
        tmp_path / "pack" / "vectors.safetensors",
        _named("word", ["tea", "music"], float("nan")) | {"word.values": values, "word.scales": scales},
    )
    builder.roles["vectors"] = {"kind": "table", "file": "vectors.safetensors"}
    return builder.finish("words", "1", "none", ("en",))
