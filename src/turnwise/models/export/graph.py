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
TYPES = {"int64": TensorProto.INT64, "float32": TensorProto.FLOAT}


class Graph:
    """Nodes and constants, in the order in which they are added. Values are known by their names."""

    def __init__(self, fineness: float | None, *, blocks: bool = False) -> None:
        self.fineness, self.blocks = fineness, blocks
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._count = 0

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count}"

    def input(self, name: str, kind: str, shape: Sequence[str | int]) -> str:
        """Declare an input."""
        self._inputs.append(helper.make_tensor_value_info(name, TYPES[kind], shape))
        return name

    def output(self, name: str, value: str, shape: Sequence[str | int]) -> None:
        """Declare a value as an output of this name."""
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def constant(self, value: npt.ArrayLike) -> str:
        """A constant, stored in the file as it is."""
        name = self._name("constant")
        self._constants.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def shared(self, name: str, value: npt.NDArray[Any], file: str, offset: int) -> str:
        """A constant that lies in another file, from which the runtime is handed it."""
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        tensor = TensorProto(name=name, data_type=kind, dims=value.shape, data_location=TensorProto.EXTERNAL)
        for key, part in (("location", file), ("offset", offset), ("length", value.nbytes)):
            tensor.external_data.add(key=key, value=str(part))
        self._constants.append(tensor)
        return name

    def ints(self, *values: int) -> str:
        """A constant list of whole numbers, such as axes and shapes are."""
        return self.constant(np.array(values, dtype=np.int64))

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operator with one output."""
        return self.ops(kind, 1, *inputs, domain=domain, **attributes)[0]

    def ops(self, kind: str, outputs: int, *inputs: str, domain: str = "", **attributes: Any) -> list[str]:
        """Add an operator with several outputs."""
        names = [self._name(kind) for _ in range(outputs)]
        self._nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names

    def fused(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add one of onnxruntime's fused operators."""
        return self.op(kind, *inputs, domain=FUSED, **attributes)

    def cast(self, value: str, kind: str) -> str:
        """Convert to another type of number."""
        to = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32}[kind]
        return self.op("Cast", value, to=to)

    def weight(self, weight: Floats) -> str:
        """The transpose of a weight matrix (out, in), ready to multiply with; folded to floats at load."""
        if self.fineness is None:
            return self.constant(weight.T)
        if self.blocks:
            return self._from_grid(weight)
        # DequantizeLinear says the same, but the runtime would fuse it into a product that rounds activations.
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
        """A constant of numbers from 0 to 15, two to a byte, the first in the low bits."""
        name, flat = self._name("constant"), codes.reshape(-1)
        flat = np.append(flat, np.zeros(len(flat) % 2, dtype=np.uint8))
        tensor = TensorProto(name=name, data_type=TensorProto.UINT4, dims=codes.shape)
        tensor.raw_data = (flat[0::2] | (flat[1::2] << 4)).tobytes()
        self._constants.append(tensor)
        return name

    def table(self, table: Floats) -> str:
        """A small table that is added to, not multiplied with, kept as finely as whole numbers allow."""
        if self.fineness is None:
            return self.constant(table)
        numbers, scales = quantise(table, LARGEST)
        return self.op("Mul", self.cast(self.constant(numbers), "float32"), self.constant(scales[:, None]))

    def halved(self, weight: Floats) -> str:
        """The transpose of a weight matrix that is too important for whole numbers, in half precision."""
        if self.fineness is None:
            return self.constant(weight.T)
        return self.cast(self.constant(weight.T.astype(np.float16)), "float32")

    def linear(self, x: str, weight: Floats, bias: Floats | None = None, *, fine: bool = False) -> str:
        """x W^T + b; `fine` keeps more of the weights."""
        product = self.op("MatMul", x, self.halved(weight) if fine else self.weight(weight))
        return product if bias is None else self.op("Add", product, self.constant(bias))

    def scaled_rows(self, numbers: str, scales: str, ids: str) -> str:
        """Rows of a table of whole numbers, each times its scale."""
        found = self.cast(self.op("Gather", numbers, ids), "float32")
        return self.op("Mul", found, self.op("Gather", scales, ids))

    def likelihood(self, states: str, vocabulary: str, bias: str | None, wanted: str) -> str:
        """The log-probability of each wanted id, given states (n, width) and a matrix (width, words)."""
        logits = self.op("MatMul", states, vocabulary)
        if bias is not None:
            logits = self.op("Add", logits, bias)
        column = self.op("GatherElements", logits, self.op("Unsqueeze", wanted, self.ints(1)), axis=1)
        # Shifted by hand: the runtime's own log-sum-exp overflows where logits are large.
        top = self.op("ReduceMax", logits, self.ints(1), keepdims=1)
        total = self.op("ReduceSum", self.op("Exp", self.op("Sub", logits, top)), self.ints(1), keepdims=1)
        log_prob = self.op("Sub", self.op("Sub", column, top), self.op("Log", total))
        return self.op("Squeeze", log_prob, self.ints(1))

    def save(self, path: Path, notes: Mapping[str, str]) -> None:
        """Write the model; two builds from the same weights are equal byte for byte."""
        graph = helper.make_graph(self._nodes, "turnwise", self._inputs, self._outputs, self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="turnwise")
        helper.set_model_props(model, dict(notes))
        path.write_bytes(model.SerializeToString(deterministic=True))
