"""Whole numbers in place of fractions: a graph's large products rewritten to multiply 8-bit numbers.

Weights are rounded as a pack stores them, with a scale for each output. Each row of activations is divided by its own
largest number and rounded to 255 steps, so that what a text is batched with cannot matter to it. Products of whole
numbers are exact on every processor; only the rounding of activations loses anything. Norms, softmax and whatever a
graph keeps in halves stay in single precision, and so does all of a causal language model, whose weights lie in blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from turnwise.errors import TurnwiseError
from turnwise.models.export.storage import LARGEST, quantise

if TYPE_CHECKING:
    import onnx

# A product with fewer outputs takes no longer than rounding what goes into it, and is a head that decides everything.
FEWEST_OUTPUTS = 16
# The minimum of GELU, and the number of steps below zero; all other steps lie above.
LEAST_GELU, GELU_ZERO = -0.17, 32
# Queries, keys and values, in the order of attention's weights.
KEYS = 1
Array = npt.NDArray[Any]
Matrix = tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]


def in_whole_numbers(content: bytes, name: str, tables: Mapping[str, Array]) -> bytes:
    """Return the rewritten graph. `tables` are constants that it leaves to another file."""
    try:
        import onnx
    except ImportError:
        raise TurnwiseError(f"{name}: to compute in int8 takes onnx as well: pip install 'turnwise[int8]'") from None
    model = onnx.load_model_from_string(content)
    if not any(node.op_type == "Attention" for node in model.graph.node):
        return content
    _Rewriter(model.graph, tables, signed=not _saturates()).rewrite()
    rewritten: bytes = model.SerializeToString()
    return rewritten


class _Rewriter:
    """Goes through the nodes in order and writes large products anew."""

    def __init__(self, graph: onnx.GraphProto, tables: Mapping[str, Array], *, signed: bool) -> None:
        from turnwise.models.export.graph import Graph

        self._graph, self._tables, self._signed = graph, tables, signed
        self._new = Graph(None, prefix="int8_")
        self._stored = {one.name: one for one in graph.initializer}
        self._made = {name: node for node in graph.node for name in node.output}
        self._rounded: dict[str, tuple[str, str, int]] = {}

    def rewrite(self) -> None:
        """Replace attention's products and all other large ones; everything else stays as it is."""
        for node in self._graph.node:
            matrix = self._matrix(node.input[1]) if node.op_type in {"MatMul", "Attention"} else None
            if matrix is not None and node.op_type == "Attention":
                self._attention(node, *matrix)
            elif matrix is not None:
                self._product(node.input[0], *matrix, node.output[0])
            else:
                self._new.nodes.append(node)
        del self._graph.node[:]
        self._graph.node.extend(self._new.nodes)
        self._graph.initializer.extend(self._new.constants)

    def _matrix(self, name: str) -> Matrix | None:
        """Return whole numbers (in, out) and a scale for each output, where a value is a large matrix."""
        node = self._made.get(name)
        if node is None:
            found = self._rounded_now(name)
        elif node.op_type == "Transpose":
            inner = self._factors(node.input[0])
            found = None if inner is None else (inner[0].T, inner[1])
        else:
            found = self._factors(name)
        if found is None or found[0].shape[1] < FEWEST_OUTPUTS:
            return None
        return np.ascontiguousarray(found[0]), found[1].reshape(-1).astype(np.float32)

    def _rounded_now(self, name: str) -> tuple[Array, Array] | None:
        """Return the numbers and scales of a matrix that is stored in full."""
        weight = self._constant(name) if name in self._stored else None
        if weight is None or weight.ndim != 2 or weight.dtype != np.float32:
            return None
        numbers, scales = quantise(weight.T, LARGEST)
        return numbers.T, scales

    def _factors(self, name: str) -> tuple[Array, Array] | None:
        """Return the stored numbers and scales of a value that is their product."""
        product = self._made.get(name)
        cast = self._made.get(product.input[0]) if product is not None and product.op_type == "Mul" else None
        if product is None or cast is None or cast.op_type != "Cast" or product.input[1] not in self._stored:
            return None
        numbers = self._constant(cast.input[0]) if cast.input[0] in self._stored else np.zeros(0)
        return (numbers, self._constant(product.input[1])) if numbers.dtype == np.int8 and numbers.ndim == 2 else None

    def _product(self, x: str, numbers: npt.NDArray[np.int8], scales: npt.NDArray[np.float32], output: str) -> None:
        """Add the product of x and a matrix."""
        rounded, steps, zero = self._round(x)
        g = self._new
        stored = numbers if self._signed else (numbers.astype(np.int16) + 128).astype(np.uint8)
        inputs = map(g.constant, (stored, np.float32(1), scales, np.uint8(zero)))
        shift = [] if self._signed else [g.constant(np.uint8(128))]
        g.op("Mul", g.fused("MatMulIntegerToFloat", rounded, *inputs, *shift), steps, name=output)

    def _round(self, x: str) -> tuple[str, str, int]:
        """Return the rows of x as integers, the step of each row, and the integer that represents 0."""
        if x in self._rounded:
            return self._rounded[x]
        gelu = x in self._made and self._made[x].op_type in {"Gelu", "FastGelu"}
        if gelu:
            # By the hyperbolic tangent: its error is a fraction of a step.
            self._made[x].op_type = "FastGelu"
        zero, least = (GELU_ZERO, -LEAST_GELU / GELU_ZERO) if gelu else (128, 1e-12)
        above = 255 - zero
        g, last = self._new, self._new.ints(-1)
        largest = g.op("ReduceMax", x if gelu else g.op("Abs", x), last, keepdims=1)
        scaled = g.op("Mul", largest, g.constant(np.float32(1 / above)))
        steps = g.op("Max", scaled, g.constant(np.float32(least)))
        # One row after the other, each with a step of its own, which the operator takes along its first axis.
        flat, shape, whole = g.op("Flatten", x, axis=-1), g.op("Shape", x), g.op("Reshape", steps, last)
        zeros = g.op("Expand", g.constant(np.array([zero], dtype=np.uint8)), g.op("Shape", whole))
        numbers = g.op("QuantizeLinear", flat, whole, zeros, axis=0)
        self._rounded[x] = g.op("Reshape", numbers, shape), steps, zero
        return self._rounded[x]

    def _attention(self, node: Any, numbers: npt.NDArray[np.int8], scales: npt.NDArray[np.float32]) -> None:
        """Replace attention by three products and the fused operator over them."""
        width, bias = numbers.shape[1] // 3, self._constant(node.input[2])
        g, parts = self._new, list[str]()
        for part in range(3):
            columns = slice(part * width, (part + 1) * width)
            parts.append(g.name("part"))
            self._product(node.input[0], np.ascontiguousarray(numbers[:, columns]), scales[columns], parts[-1])
            # What is added to every key adds as much to all that a token is compared with, so softmax cancels it.
            if part != KEYS:
                parts[-1] = g.op("Add", parts[-1], g.constant(bias[columns]))
        heads = next(one.i for one in node.attribute if one.name == "num_heads")
        g.fused("MultiHeadAttention", *parts, "", node.input[3], name=node.output[0], num_heads=heads)

    def _constant(self, name: str) -> Array:
        from onnx import numpy_helper

        return self._tables[name] if name in self._tables else np.asarray(numpy_helper.to_array(self._stored[name]))


def _saturates() -> bool:
    """Return whether this processor's products of unsigned and signed numbers lose what goes beyond 16 bits.

    Some older ones do; unsigned weights are exact there, and slower.
    """
    import onnxruntime

    from turnwise.models.export.graph import Graph

    depth = 64
    graph = Graph(None)
    weights = graph.constant(np.full((depth, 16), LARGEST, dtype=np.int8))
    product = graph.op("MatMulInteger", graph.input("x", "uint8", [1, depth]), weights)
    graph.output("y", graph.cast(product, "float32"), [1, 16])
    session = onnxruntime.InferenceSession(graph.serialised(), providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": np.full((1, depth), 255, dtype=np.uint8)})[0]
    return bool((found != 255 * LARGEST * depth).any())
