"""Vectors of utterances: each text is encoded once, in any batch alike, and kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from vectors import VectorStore, encode_with

from turnwise.models.kinds import Batch, Encoder
from turnwise.models.maude import TrunkReading, UtteranceEncoder
from turnwise.models.text import Tokens


def lengths(texts: Sequence[str]) -> np.ndarray:
    return np.array([[len(text), 1.5] for text in texts], dtype=np.float32)


def test_a_text_is_encoded_once_and_found_again_by_another_run(tmp_path: Path) -> None:
    asked: list[str] = []

    def encode(texts: Sequence[str]) -> np.ndarray:
        asked.extend(texts)
        return lengths(texts)

    store = VectorStore(encode, "toy", tmp_path)
    rows, index = store.table(["yes", "no", "yes", "maybe"])
    assert [rows[index[text]].tolist() for text in ("yes", "no", "maybe")] == [[3, 1.5], [2, 1.5], [5, 1.5]]
    again, _ = VectorStore(encode, "toy", tmp_path).table(["maybe", "no", "new"])
    assert again[:, 0].tolist() == [5, 2, 3]
    assert sorted(asked) == ["maybe", "new", "no", "yes"]


def test_two_runs_at_once_lose_nothing(tmp_path: Path) -> None:
    first, second = (VectorStore(lengths, "toy", tmp_path) for _ in range(2))
    first.add(["a"])
    second.add(["bb"])

    def never(texts: Sequence[str]) -> np.ndarray:
        raise AssertionError(texts)

    assert VectorStore(never, "toy", tmp_path).table(["a", "bb"])[0][:, 0].tolist() == [1, 2]


class Echo(Encoder):
    """A network whose states are the ids, times the number of the layer."""

    layers = 12

    def hidden(self, batch: Batch, layer: int) -> np.ndarray:
        return (batch.ids[..., None] * layer).astype(np.float32)


def test_layers_stand_side_by_side_and_padding_is_not_pooled(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    names = {"[PAD]": 0, "one": 1, "two": 2, "three": 3}
    tokenizer = Tokenizer(models.WordLevel(names, unk_token="[PAD]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokens = Tokens.from_bytes(tokenizer.to_str().encode(), None)
    encode = encode_with(UtteranceEncoder(Echo(), tokens, TrunkReading(layers=(1, 10))), budget=4)
    texts = ["one three", "two", "three three three"]
    assert encode(texts) == pytest.approx(np.array([[2, 20], [2, 20], [3, 30]]))


def test_a_network_that_gives_layers_together_is_asked_once() -> None:
    class Together(Echo):
        def hidden_layers(self, batch: Batch, layers: Sequence[int]) -> list[np.ndarray]:
            return [np.full((1, 1, 1), layer, dtype=np.float32) for layer in layers]

    batch = Batch(*(np.ones((1, 1), dtype=np.int64) for _ in range(3)))
    assert [float(states[0, 0]) for states in Together().pooled_layers(batch, (4, 2), "mean")] == [4, 2]
