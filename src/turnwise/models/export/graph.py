"""A small builder of ONNX graphs: call operators like functions, and save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from turnwise.models.export.storage import LARGEST, OUTERMOST, Floats, on_grid, quantise

FUSED = "com.microsoft"
OPSET, IR_VERSION = 21, 10
TYPES = {
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "uint8": TensorProto.UINT8,
    "float32": TensorProto.FLOAT,
}


class Graph:
    """Nodes and constants, in the order in which they are added. Values are referred to by their names."""

    def __init__(self, fineness: float | None, *, blocks: bool = False, prefix: str = "") -> None:
        self.fineness, self.blocks, self._prefix = fineness, blocks, prefix
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._count = 0

    def name(self, kind: str) -> str:
        """Return a new name."""
        self._count += 1
        return f"{self._prefix}{kind}_{self._count}"

    def input(self, name: str, kind: str, shape: Sequence[str | int]) -> str:
        """Declare an input."""
        self._inputs.append(helper.make_tensor_value_info(name, TYPES[kind], shape))
        return name

    def output(self, name: str, value: str, shape: Sequence[str | int]) -> None:
        """Declare a value as an output of this name."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def constant(self, value: npt.ArrayLike) -> str:
        """Return a constant, stored in the file as it is."""
        name = self.name("constant")
        self.constants.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def shared(self, name: str, value: npt.NDArray[Any], file: str, offset: int) -> str:
        """Return a constant that is stored in another file, which the runtime passes in."""
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        tensor = TensorProto(name=name, data_type=kind, dims=value.shape, data_location=TensorProto.EXTERNAL)
        for key, part in (("location", file), ("offset", offset), ("length", value.nbytes)):
            tensor.external_data.add(key=key, value=str(part))
        self.constants.append(tensor)
        return name

    def ints(self, *values: int) -> str:
        """Return a constant list of integers, such as axes or a shape."""
        return self.constant(np.array(values, dtype=np.int64))

    def op(self, kind: str, *inputs: str, name: str | None = None, domain: str = "", **attributes: Any) -> str:
        """Add an operator with one output, of this name if one is given."""
        output = name or self.name(kind)
        self.nodes.append(helper.make_node(kind, list(inputs), [output], domain=domain, **attributes))
        return output

    def split(self, value: str, *sizes: int) -> list[str]:
        """Cut the last axis into parts of these sizes."""
        of = self.ints(*sizes)
        names = [self.name("Split") for _ in sizes]
        self.nodes.append(helper.make_node("Split", [value, of], names, domain="", axis=-1))
        return names

    def fused(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add one of onnxruntime's fused operators."""
        return self.op(kind, *inputs, domain=FUSED, **attributes)

    def cast(self, value: str, kind: str) -> str:
        """Convert to another type of number."""
        return self.op("Cast", value, to=TYPES[kind])

    def weight(self, weight: Floats) -> str:
        """Return the transpose of a weight matrix (out, in), ready to multiply with; folded to floats at load."""
        if self.fineness is None:
            return self.constant(weight.T)
        if self.blocks:
            return self._from_grid(weight)
        # DequantizeLinear is equivalent, but the runtime would fuse it into a product that rounds activations.
        numbers, scales = quantise(weight, self.fineness)
        return self.op("Mul", self.cast(self.constant(numbers.T), "float32"), self.constant(scales))

    def _from_grid(self, weight: Floats) -> str:
        # Laid out as they are multiplied, so that loading takes no more than a pass over them.
        codes, steps = on_grid(weight)
        numbers = self.cast(self._nibbles(codes.transpose(1, 2, 0)), "float32")
        centred = self.op("Sub", numbers, self.constant(np.float32(OUTERMOST)))
        blocks = self.op("Mul", centred, self.cast(self.constant(steps.T[:, None, :]), "float32"))
        return self.op("Reshape", blocks, self.ints(weight.shape[1], weight.shape[0]))

    def _nibbles(self, codes: npt.NDArray[np.uint8]) -> str:
        """Return a constant of numbers from 0 to 15, two to a byte, the first in the low bits."""
        name, flat = self.name("constant"), codes.reshape(-1)
        flat = np.append(flat, np.zeros(len(flat) % 2, dtype=np.uint8))
        tensor = TensorProto(name=name, data_type=TensorProto.UINT4, dims=codes.shape)
        tensor.raw_data = (flat[0::2] | (flat[1::2] << 4)).tobytes()
        self.constants.append(tensor)
        return name

    def table(self, table: Floats) -> str:
        """Return a small table that is added to, not multiplied with, kept as finely as whole numbers allow."""
        if self.fineness is None:
            return self.constant(table)
        numbers, scales = quantise(table, LARGEST)
        return self.op("Mul", self.cast(self.constant(numbers), "float32"), self.constant(scales[:, None]))

    def halved(self, weight: Floats) -> str:
        """Return the transpose of a weight matrix that is too important for whole numbers, in half precision."""
        if self.fineness is None:
            return self.constant(weight.T)
        return self.cast(self.constant(weight.T.astype(np.float16)), "float32")

    def linear(self, x: str, weight: Floats, bias: Floats | None = None, *, fine: bool = False) -> str:
        """Return x W^T + b; `fine` keeps more of the weights."""
        product = self.op("MatMul", x, self.halved(weight) if fine else self.weight(weight))
        return product if bias is None else self.op("Add", product, self.constant(bias))

    def scaled_rows(self, numbers: str, scales: str, ids: str) -> str:
        """Return rows of a table of whole numbers, each times its scale."""
        found = self.cast(self.op("Gather", numbers, ids), "float32")
        return self.op("Mul", found, self.op("Gather", scales, ids))

    def likelihood(self, states: str, vocabulary: str, bias: str | None, wanted: str) -> str:
        """Return the log-probability of each wanted id, given states (n, width) and a matrix (width, words)."""
        logits = self.op("MatMul", states, vocabulary)
        if bias is not None:
            logits = self.op("Add", logits, bias)
        column = self.op("GatherElements", logits, self.op("Unsqueeze", wanted, self.ints(1)), axis=1)
        # Shifted by hand: the runtime's own log-sum-exp overflows where logits are large.
        top = self.op("ReduceMax", logits, self.ints(1), keepdims=1)
        total = self.op("ReduceSum", self.op("Exp", self.op("Sub", logits, top)), self.ints(1), keepdims=1)
        log_prob = self.op("Sub", self.op("Sub", column, top), self.op("Log", total))
        return self.op("Squeeze", log_prob, self.ints(1))

    def save(self, path: Path) -> None:
        """Write the model, with a note of the file that it was built as."""
        path.write_bytes(self.serialised({"roles": path.name}))

    def serialised(self, notes: Mapping[str, str] | None = None) -> bytes:
        """Return the model's bytes; two builds from the same weights are equal byte for byte."""
        graph = helper.make_graph(self.nodes, "turnwise", self._inputs, self._outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="turnwise")
        helper.set_model_props(model, dict(notes or {}))
        serialised: bytes = model.SerializeToString(deterministic=True)
        return serialised
