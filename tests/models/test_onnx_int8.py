"""Packs that compute in whole numbers: close to fp32, the same in any company, and never taken for it."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="graphs are rewritten with onnx: pip install 'turnwise[int8]'")

import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.models.test_invariance import Bounded, Crowded, asked, assert_same
from turnwise.engine.answer import answer_requests, request_key
from turnwise.errors import TurnwiseError
from turnwise.models.onnx.int8 import GELU_ZERO, LEAST_GELU, _Rewriter
from turnwise.models.onnx.session import open_session
from turnwise.models.pack import Pack, load_pack
from turnwise.models.requests import Classify, Continuation, Embed, MaskedLikelihood


@pytest.fixture(params=["full", "small"])
def folder(request: pytest.FixtureRequest, full_pack: Path, small_pack: Path) -> Path:
    return full_pack if request.param == "full" else small_pack


def product(rng: np.random.Generator, *, gelu: bool) -> tuple[onnx.ModelProto, np.ndarray, np.ndarray]:
    """A graph of one product as packs hold it, after GELU or not, and its whole numbers and scales."""
    numbers = rng.integers(-127, 128, (48, 32)).astype(np.int8)
    scales = rng.uniform(0.001, 0.01, 32).astype(np.float32)
    nodes = [helper.make_node("Gelu", ["x"], ["a"], domain="com.microsoft")] if gelu else []
    nodes += [
        helper.make_node("Cast", ["numbers"], ["cast"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["cast", "scales"], ["weight"]),
        helper.make_node("MatMul", ["a" if gelu else "x", "weight"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", "tokens", 48])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", "tokens", 32])],
        [numpy_helper.from_array(numbers, "numbers"), numpy_helper.from_array(scales, "scales")],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), numbers, scales


@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize("signed", [False, True])
def test_a_product_is_what_whole_numbers_make_it(gelu: bool, signed: bool) -> None:
    rng = np.random.default_rng(3)
    model, numbers, scales = product(rng, gelu=gelu)
    x = (rng.normal(0, 1, (2, 5, 48)) * rng.uniform(0.01, 9, (2, 5, 1))).astype(np.float32)
    x[1, 4] = 0
    plain = open_session(model.SerializeToString(), "plain")
    _Rewriter(model.graph, {}, signed=signed).rewrite()
    assert [node.op_type for node in model.graph.node].count("MatMulIntegerToFloat") == 1
    found = open_session(model.SerializeToString(), "rewritten").run(None, {"x": x})[0]
    # By hand, in whole numbers: every row in steps of its own.
    if gelu:
        cubic = np.sqrt(2 / np.pi) * (x + 0.044715 * x.astype(np.float64) ** 3)
        x = (x * (1 + np.tanh(cubic)) / 2).astype(np.float32)
        steps = np.maximum(x.max(axis=-1, keepdims=True) / (255 - GELU_ZERO), -LEAST_GELU / GELU_ZERO)
    else:
        steps = np.maximum(np.abs(x).max(axis=-1, keepdims=True) / 127, 1e-12)
    whole = np.round(x.astype(np.float64) / steps) @ numbers.astype(np.float64)
    wanted = whole * steps * scales
    # A number half-way between two steps may go either way.
    assert np.mean(np.isclose(found, wanted, rtol=1e-4, atol=1e-5)) > 0.9
    assert np.abs(found - wanted).max() <= 1.01 * steps.max() * 127 * scales.max()
    assert np.array_equal(found[1, 4], np.zeros(32)) or gelu
    exact = plain.run(None, {"x": x if not gelu else np.zeros_like(x)})[0]
    if not gelu:
        assert np.abs(found - exact).max() < 0.05 * exact.std()


def test_answers_are_close_to_those_in_fp32(folder: Path) -> None:
    requests = asked()
    exact, rounded = answer_requests(requests, Pack(folder)), answer_requests(requests, Pack(folder, "int8"))
    differ = 0
    for request in requests:
        a, b = exact[request], rounded[request]
        if isinstance(request, Continuation):
            assert a == b  # a causal language model stays as it is
        elif isinstance(request, Classify):
            assert list(a.values()) == pytest.approx(list(b.values()), abs=0.05)
            differ += list(a.values()) != list(b.values())
        elif isinstance(request, MaskedLikelihood):
            assert a.log_probs == pytest.approx(b.log_probs, abs=0.3)
        elif isinstance(request, Embed) and request.pooling == "mean":
            assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 0.999
    assert differ


def test_company_does_not_matter(folder: Path) -> None:
    """Rounding could tip where a sum comes out differently in the last place; row by row, none does here."""
    requests = asked()
    pack = Pack(folder, "int8")
    first = answer_requests(requests, pack)
    assert_same(first, answer_requests(random.Random(1).sample(requests, len(requests)), pack), within=1e-5)
    assert_same(first, answer_requests(requests, Bounded(pack, 1)), within=1e-5)
    assert_same(first, answer_requests(requests, Crowded(pack)), within=1e-5)


def test_scores_of_two_precisions_are_never_mixed(small_pack: Path) -> None:
    plain, rounded = load_pack(small_pack), load_pack(f"{small_pack}@int8")
    assert (plain.precision, rounded.precision) == ("fp32", "int8")
    assert load_pack(f"{small_pack}@fp32").label(["nup"]) == plain.label(["nup"])
    request = Classify("a", "b")
    assert request_key(plain.fingerprint("nup"), request) != request_key(rounded.fingerprint("nup"), request)
    assert rounded.model("nup").fingerprint == rounded.fingerprint("nup")
    assert plain.label(["nup"]) != rounded.label(["nup"])
    assert "@int8" in rounded.label(["nup"])


def test_another_precision_is_refused_in_one_line(small_pack: Path) -> None:
    with pytest.raises(TurnwiseError, match="after @ comes fp32 or int8"):
        load_pack(f"{small_pack}@int4")
