"""How weights are stored: what comes back, and what a file of it costs."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.models.export.graph import Graph
from turnwise.models.export.storage import four_bits, quantise, restore
from turnwise.models.onnx.session import open_session, thread_count


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
    graph.save(tmp_path / "w.onnx", {})
    session = open_session((tmp_path / "w.onnx").read_bytes(), "w.onnx")
    found = session.run(["y"], {"x": np.eye(96, dtype=np.float32)})[0].T
    if blocks:
        codes, zeros, scales = four_bits(weight)
        expected = (codes.astype(np.float32) - zeros[..., None]) * scales[..., None].astype(np.float32)
        expected = expected.reshape(weight.shape)
    else:
        expected = restore(*quantise(weight, 8))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@given(st.integers(0, 30))
def test_weights_on_the_grid_come_back_as_they_were(seed: int) -> None:
    def stored(weight: np.ndarray) -> np.ndarray:
        codes, zeros, scales = four_bits(weight)
        blocks = (codes.astype(np.float32) - zeros[..., None]) * scales[..., None].astype(np.float32)
        return blocks.reshape(weight.shape)

    once = stored(weights(seed))
    # Checkpoints keep halves: the grid must survive that too.
    again = stored(once.astype(np.float16).astype(np.float32))
    np.testing.assert_allclose(again, once, rtol=2e-3, atol=1e-6)


def test_the_grid_is_the_one_that_models_are_trained_on() -> None:
    torch = pytest.importorskip("torch")
    causal = pytest.importorskip("turnwise.train.causal")
    weight = weights(9)
    trained = causal.FourBit()(torch.from_numpy(weight)).numpy()
    codes, zeros, scales = four_bits(trained)
    found = (codes.astype(np.float32) - zeros[..., None]) * scales[..., None].astype(np.float32)
    np.testing.assert_allclose(found.reshape(weight.shape), trained, rtol=2e-3, atol=1e-6)


def test_threads_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_THREADS", "3")
    assert thread_count() == 3
    monkeypatch.setenv("TURNWISE_THREADS", "many")
    with pytest.raises(Exception, match="whole number"):
        thread_count()
    monkeypatch.delenv("TURNWISE_THREADS")
    assert 1 <= thread_count() <= 16
