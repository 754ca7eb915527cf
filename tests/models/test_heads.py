"""Small networks in numpy are what torch says they are, through a file and a pack too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from turnwise.errors import TurnwiseError
from turnwise.models import heads
from turnwise.models.export.build_pack import PackBuilder
from turnwise.models.export.weights import pack_weights, write_head
from turnwise.models.pack import load_pack, verify_pack

LENGTHS = (3, 7, 1, 5, 2, 0)


@pytest.fixture
def sentences() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    vectors = heads.directions(rng.normal(size=(20, 6)).astype(np.float32))
    ids = np.full((len(LENGTHS), 7), -1, dtype=np.int32)
    for row, length in zip(ids, LENGTHS, strict=True):
        row[:length] = rng.integers(0, 20, length)
    return vectors, ids


def words(sentences: tuple[np.ndarray, np.ndarray], number: int) -> np.ndarray:
    vectors, ids = sentences
    return vectors[ids[number][ids[number] >= 0]]


@pytest.mark.parametrize(("features", "activation"), [("related", "tanh"), ("compared", "relu")])
def test_a_reading_network_is_torchs(features: Any, activation: Any, sentences: Any) -> None:
    torch = pytest.importorskip("torch")
    from turnwise.train.baselines import TextJudge, weights_of

    model = TextJudge(*sentences, features, (4, 3), width=5, activation=activation).eval()
    torch.nn.init.normal_(model.matrix)
    weights = weights_of(model)
    contexts, responses = [0, 1, 5], [[2, 3], [4, 5], [1, 0]]
    expected = model(torch.tensor(contexts), torch.tensor(responses)).detach().numpy()
    make: Callable[..., Any] = getattr(heads, features)
    for i, context in enumerate(contexts):
        for j, response in enumerate(responses[i]):
            read = [
                heads.read_text(weights, side, words(sentences, number))
                for side, number in (("context", context), ("response", response))
            ]
            found = heads.layers(weights, make(weights, *read), activation)
            assert found == pytest.approx(expected[i, j], abs=1e-5)


def test_a_judge_of_vectors_is_torchs() -> None:
    torch = pytest.importorskip("torch")
    from turnwise.train.baselines import Judge, weights_of

    table = np.random.default_rng(1).normal(size=(6, 8)).astype(np.float32)
    model = Judge(table, "compared", (5,)).eval()
    weights = weights_of(model)
    expected = model(torch.tensor([0, 1]), torch.tensor([[2, 3], [4, 5]])).detach().numpy()
    for context, row in enumerate(expected):
        for response, logit in zip((2 * context + 2, 2 * context + 3), row, strict=True):
            found = heads.layers(weights, heads.compared(weights, table[context], table[response]))
            assert found == pytest.approx(logit, abs=1e-5)


def test_a_thought_is_torchs(sentences: Any) -> None:
    torch = pytest.importorskip("torch")
    from turnwise.train.baselines import Thoughts, weights_of

    model = Thoughts(*sentences, width=4)
    weights = weights_of(model)
    assert not any(name.startswith("following") for name in weights)
    expected = model(torch.arange(6)).detach().numpy()
    for number in range(6):
        found = np.concatenate([heads.read_text(weights, name, words(sentences, number)) for name in ("uni", "bi")])
        assert found == pytest.approx(expected[number], abs=1e-5)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5))
def test_the_sigmoid_is_scipys(values: list[float]) -> None:
    assert heads.sigmoid(values) == pytest.approx(expit(values), abs=1e-12)


def test_weights_come_back_within_half_a_step_and_small_ones_exactly() -> None:
    rng = np.random.default_rng(2)
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in _SHAPES.items()}
    exact = heads.unpack_weights(pack_weights(weights, fineness=None))
    assert all(np.array_equal(exact[name], weights[name]) for name in weights)
    rounded = heads.unpack_weights(pack_weights(weights, fineness=16))
    assert rounded.keys() == weights.keys()
    assert np.array_equal(rounded["layers.1.weight"], weights["layers.1.weight"])
    assert np.array_equal(rounded["layers.0.bias"], weights["layers.0.bias"])
    step = np.maximum(weights["matrix"].std(axis=1) / 16, np.abs(weights["matrix"]).max(axis=1) / 127)
    assert (np.abs(rounded["matrix"] - weights["matrix"]) <= step[:, None] * 0.501).all()


_SHAPES = {"matrix": (8, 8), "layers.0.weight": (4, 17), "layers.0.bias": (4,), "layers.1.weight": (1, 4)}


def _pack(folder: Path, weights: dict[str, np.ndarray]) -> Path:
    builder = PackBuilder(folder)
    builder.roles["ruber"] = write_head(folder, "ruber", weights, {"objective": "ruber"})
    builder.finish("small", "1", "none", ("en",))
    return folder


def test_a_pack_gives_the_weights_of_a_role(tmp_path: Path) -> None:
    weights = {name: np.ones(shape, dtype=np.float32) for name, shape in _SHAPES.items()}
    pack = load_pack(_pack(tmp_path / "pack", weights))
    model = pack.model("ruber")
    assert isinstance(model, heads.HeadModel)
    assert {name: value.shape for name, value in model.weights.items()} == _SHAPES
    assert [checked.kind for checked in verify_pack(pack.folder)] == ["weights"]
    assert json.loads((pack.folder / "manifest.json").read_text())["roles"]["ruber"]["card"] == {"objective": "ruber"}


def test_weights_that_are_no_numbers_are_found_out(tmp_path: Path) -> None:
    weights = {"layers.0.bias": np.array([np.nan], dtype=np.float32)}
    with pytest.raises(TurnwiseError, match="not finite"):
        verify_pack(_pack(tmp_path / "pack", weights))


def test_a_folder_of_small_networks_goes_into_a_pack(tmp_path: Path, checkpoints: dict[str, Path]) -> None:
    from turnwise.models.export.build_pack import build_pack

    folder = tmp_path / "trained"
    folder.mkdir()
    weights = {name: np.ones(shape, dtype=np.float32) for name, shape in _SHAPES.items()}
    for role in ("pone", "skip-thought"):
        write_head(folder, role, weights, {})
        (folder / f"{role}.json").write_text(json.dumps({"objective": role, "drawn": 3}))
    pack = build_pack(
        [checkpoints["encoder"], folder], tmp_path / "pack", name="p", licence="none", texts=["i like tea"]
    )
    assert {"pone", "skip-thought", "encoder", "vectors"} <= set(pack.roles)
    assert pack.manifest.role("pone").card["drawn"] == 3
    assert (pack.folder / "pone.safetensors").read_bytes() == (folder / "pone.safetensors").read_bytes()
    stranger = {"objective": "pone", "over": {"role": "vectors", "sha256": "0" * 64}}
    (folder / "pone.json").write_text(json.dumps(stranger))
    with pytest.raises(TurnwiseError, match="other word vectors"):
        build_pack([checkpoints["encoder"], folder], tmp_path / "q", name="q", licence="none", texts=["i like tea"])
