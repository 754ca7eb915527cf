"""How weights are stored: what comes back, and what a file of it costs."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.models.export.graph import Graph
from turnwise.models.export.storage import OUTERMOST, on_grid, quantise
from turnwise.models.onnx.session import open_session, thread_count


def restore(numbers: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """The weights that `quantise` kept."""
    return numbers.astype(np.float32) * scales[:, None]


def weights(seed: int, shape: tuple[int, int] = (24, 96)) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * rng.uniform(0.01, 3, (shape[0], 1))).astype(np.float32)


@given(st.integers(0, 50), st.sampled_from([2.0, 8.0, 32.0, 127.0]))
def test_no_weight_moves_by_more_than_half_a_step(seed: int, fineness: float) -> None:
    weight = weights(seed)
    numbers, scales = quantise(weight, fineness)
    assert np.all(np.abs(restore(numbers, scales) - weight) <= scales[:, None] * 0.5001)


def test_coarser_steps_make_smaller_archives() -> None:
    weight = weights(1, (256, 1024))
    sizes = [len(zlib.compress(quantise(weight, f)[0].tobytes())) for f in (4, 8, 16, 32)]
    assert sizes == sorted(sizes)
    assert sizes[0] < 0.65 * weight.size


def test_a_row_of_zeros_stays_zero() -> None:
    numbers, scales = quantise(np.zeros((1, 32), dtype=np.float32), 8)
    assert not restore(numbers, scales).any()


@pytest.mark.parametrize("blocks", [False, True])
def test_the_runtime_reads_what_was_stored(tmp_path: Path, blocks: bool) -> None:
    weight = weights(3)
    graph = Graph(8, blocks=blocks)
    x = graph.input("x", "float32", ["n", 96])
    graph.output("y", graph.linear(x, weight), ["n", 24])
    graph.save(tmp_path / "w.onnx")
    session = open_session((tmp_path / "w.onnx").read_bytes(), "w.onnx")
    found = session.run(["y"], {"x": np.eye(96, dtype=np.float32)})[0].T
    expected = stored(weight) if blocks else restore(*quantise(weight, 8))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def stored(weight: np.ndarray) -> np.ndarray:
    """What a grid keeps of weights."""
    codes, steps = on_grid(weight)
    assert codes.max() <= 2 * OUTERMOST
    return ((codes.astype(np.float32) - OUTERMOST) * steps[..., None].astype(np.float32)).reshape(weight.shape)


@given(st.integers(0, 30))
def test_no_weight_off_the_grid_moves_by_more_than_half_a_step(seed: int) -> None:
    weight = weights(seed)
    steps = np.abs(weight.reshape(24, -1, 32)).max(axis=2, keepdims=True) / OUTERMOST
    # Half a step, and what the rounding of the step adds to the outermost level.
    assert np.all(np.abs(stored(weight) - weight).reshape(24, -1, 32) <= steps * (0.5 + OUTERMOST / 128 + 1e-3))


@given(st.integers(0, 30), st.integers(1, OUTERMOST))
def test_weights_on_a_grid_keep_their_levels(seed: int, outermost: int) -> None:
    rng = np.random.default_rng(seed)
    levels = rng.integers(-outermost, outermost + 1, (8, 2, 64))
    steps = rng.uniform(0.001, 0.3, (8, 2, 1)).astype(np.float32)
    # Checkpoints keep halves: the grid must survive that too.
    weight = (levels * steps).reshape(8, 128).astype(np.float16).astype(np.float32)
    found = stored(weight)
    np.testing.assert_allclose(found, weight, rtol=0.01)
    np.testing.assert_allclose(stored(found), found, rtol=1e-3)


def test_zeros_stay_zeros_on_a_grid() -> None:
    assert not stored(np.zeros((2, 64), dtype=np.float32)).any()


def test_the_grid_is_the_one_that_models_are_trained_on() -> None:
    torch = pytest.importorskip("torch")
    causal = pytest.importorskip("turnwise.train.causal")
    for levels in (3, 7, 15):
        weight = torch.from_numpy(weights(9, (24, 128)))
        trained = causal.GridWeights(weight, levels)(weight).detach().numpy()
        assert {len(np.unique(block)) for block in trained.reshape(-1, 64)} <= set(range(levels + 1))
        np.testing.assert_allclose(stored(trained), trained, rtol=0.01)


def test_threads_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_THREADS", "3")
    assert thread_count() == 3
    monkeypatch.setenv("TURNWISE_THREADS", "many")
    with pytest.raises(Exception, match="whole number"):
        thread_count()
    monkeypatch.delenv("TURNWISE_THREADS")
    assert 1 <= thread_count() <= 16
