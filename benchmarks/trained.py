"""The bundled pack's own weights as checkpoints that torch opens: `python -m benchmarks --checkpoints bundled`.

A pack holds weights as whole numbers and scales; multiplied out they are the weights that it computes with, and the
networks of the pack and of these checkpoints give the same scores. Only then do ranks of rounded arithmetic mean
anything. `write(pack, folder)` makes folders encoder, masked-lm, nup, causal-lm and maude.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from safetensors.numpy import save_file

from turnwise.models.heads import unpack_weights
from turnwise.models.maude import header
from turnwise.models.pack import Pack, RoleEntry

Array = npt.NDArray[Any]
Weights = dict[str, Array]


class Graph:
    """A graph whose constants can be asked for, computed where the graph computes them."""

    def __init__(self, content: bytes, tables: dict[str, Array]) -> None:
        graph = onnx.load_model_from_string(content).graph
        self.nodes, self.inputs = list(graph.node), {one.name: one for one in graph.input}
        self._made = {name: node for node in graph.node for name in node.output}
        self._stored = {one.name: one for one in graph.initializer}
        self._values = dict(tables)

    def constant(self, name: str) -> bool:
        """Whether a value depends on no input."""
        if name in self._made:
            return all(map(self.constant, self._made[name].input))
        return name in self._stored

    def value(self, name: str) -> Array:
        """A constant."""
        if name not in self._values:
            self._values[name] = self._computed(name)
        return self._values[name]

    def _computed(self, name: str) -> Array:
        if name in self._stored:
            return np.asarray(numpy_helper.to_array(self._stored[name]))
        node = self._made[name]
        given = [self.value(one) for one in node.input]
        operations = {
            "Cast": lambda a: a.astype(np.float32),
            "Mul": lambda a, b: a * b,
            "Sub": lambda a, b: a - b,
            "Reshape": lambda a, shape: a.reshape(shape),
            "Transpose": lambda a: a.T,
        }
        return np.asarray(operations[node.op_type](*given), dtype=np.float32)

    def of(self, kind: str) -> list[Any]:
        """The nodes of a kind, in order."""
        return [node for node in self.nodes if node.op_type == kind]

    def products(self) -> Iterator[tuple[Array, Array | None]]:
        """Every product with a constant matrix as a weight (out, in), with the bias that is added to it."""
        added = {node.input[0]: node.input[1] for node in self.of("Add") if self.constant(node.input[1])}
        for node in self.of("MatMul"):
            if self.constant(node.input[1]):
                bias = added.get(node.output[0])
                yield self.value(node.input[1]).T, None if bias is None else self.value(bias)


def write(pack: Pack, folder: Path) -> Path:
    """All checkpoints."""
    for role in ("encoder", "masked-lm", "nup"):
        entry = pack.manifest.role(role)
        graph = Graph(pack.read(entry.file), dict(pack.word_table(entry)))
        trunk, config, norms, products = _trunk(graph)
        if role == "masked-lm":
            trunk = {f"bert.{name}": value for name, value in trunk.items()} | _masked_head(graph, norms, products)
            config["architectures"] = ["BertForMaskedLM"]
        _write(folder / role, trunk, config, pack.read(entry.tokenizer or ""))
        if role == "nup":
            heads = {name: pack.manifest.role(name) for name in pack.manifest.roles if _beside(pack, name, entry)}
            _write_heads(folder / role, heads, products)
    entry = pack.manifest.role("causal-lm")
    _write(folder / "causal-lm", *_causal(Graph(pack.read(entry.file), {}), entry), pack.read(entry.tokenizer or ""))
    recurrent = pack.read(pack.manifest.role("maude").weights or "")
    (folder / "maude").mkdir()
    save_file(unpack_weights(recurrent), folder / "maude" / "maude.safetensors", metadata=header(recurrent))
    (folder / "maude" / "card.json").write_text("{}")
    return folder


def _beside(pack: Pack, role: str, entry: RoleEntry) -> bool:
    other = pack.manifest.role(role)
    return other.kind == "classifier" and other.file == entry.file


def _trunk(graph: Graph) -> tuple[Weights, dict[str, Any], list[Any], list[tuple[Array, Array | None]]]:
    """A BertModel's weights and configuration, and the norms and products that are left over for a head."""
    attention, norms, products = graph.of("Attention"), graph.of("LayerNormalization"), list(graph.products())
    weights: Weights = {
        "embeddings.word_embeddings.weight": _words(graph),
        "embeddings.position_embeddings.weight": graph.value(graph.of("Slice")[0].input[0]),
        "embeddings.token_type_embeddings.weight": next(
            graph.value(node.input[0]) for node in graph.of("Gather") if node.input[1] == "types"
        ),
    }
    weights |= _norm(graph, "embeddings.LayerNorm", norms.pop(0))
    for layer, node in enumerate(attention):
        name = f"encoder.layer.{layer}."
        matrix, bias = np.split(graph.value(node.input[1]).T, 3), np.split(graph.value(node.input[2]), 3)
        for place, part in enumerate(("query", "key", "value")):
            weights[f"{name}attention.self.{part}.weight"] = matrix[place]
            weights[f"{name}attention.self.{part}.bias"] = bias[place]
        for part in ("attention.output.dense", "intermediate.dense", "output.dense"):
            weights |= _dense(name + part, *products.pop(0))
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            weights |= _norm(graph, name + part, norms.pop(0))
    words = weights["embeddings.word_embeddings.weight"]
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": words.shape[1],
        "intermediate_size": len(weights["encoder.layer.0.intermediate.dense.bias"]),
        "layer_norm_eps": _attribute(graph.of("LayerNormalization")[0], "epsilon"),
        "max_position_embeddings": len(weights["embeddings.position_embeddings.weight"]),
        "num_attention_heads": _attribute(attention[0], "num_heads"),
        "num_hidden_layers": len(attention),
        "type_vocab_size": 2,
        "vocab_size": len(words),
        "pad_token_id": 0,
    }
    return weights, config, norms, products


def _words(graph: Graph) -> Array:
    scaled: Array = graph.value("words").astype(np.float32) * graph.value("word_scales")
    return scaled


def _masked_head(graph: Graph, norms: list[Any], products: list[tuple[Array, Array | None]]) -> Weights:
    head = _dense("cls.predictions.transform.dense", *products[0])
    bias = products[1][1]
    assert bias is not None
    return head | _norm(graph, "cls.predictions.transform.LayerNorm", norms[0]) | {"cls.predictions.bias": bias}


def _write_heads(folder: Path, heads: dict[str, RoleEntry], products: list[tuple[Array, Array | None]]) -> None:
    entry, tensors = next(iter(heads.values())), dict[str, Array]()
    for place, head in enumerate(heads):
        tensors |= _dense(f"{head}.dense", *products[2 * place]) | _dense(f"{head}.out", *products[2 * place + 1])
    layout = {
        "pooling": entry.pooling,
        "activation": "gelu",
        "first_tokens": entry.window.first,
        "second_tokens": entry.window.second,
        "heads": {head: {"labels": list(of.labels)} for head, of in heads.items()},
    }
    (folder / "heads.json").write_text(json.dumps(layout))
    save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, folder / "heads.safetensors")


def _causal(graph: Graph, entry: RoleEntry) -> tuple[Weights, dict[str, Any]]:
    """A LlamaForCausalLM's weights and configuration."""
    layers, _, _, shared, _, width = (one.dim_value for one in graph.inputs["past"].type.tensor_type.shape.dim)
    norms, products = graph.of("SimplifiedLayerNormalization"), list(graph.products())
    weights: Weights = {"model.embed_tokens.weight": products[-1][0]}
    for layer in range(layers):
        name = f"model.layers.{layer}."
        joined, out, *mlp = (matrix for matrix, _ in products[5 * layer : 5 * layer + 5])
        sizes = np.cumsum([len(joined) - 2 * shared * width, shared * width])
        for part, matrix in zip("qkvo", [*np.split(joined, sizes), out], strict=True):
            weights[f"{name}self_attn.{part}_proj.weight"] = matrix
        for part, matrix in zip(("gate", "up", "down"), mlp, strict=True):
            weights[f"{name}mlp.{part}_proj.weight"] = matrix
        for place, part in enumerate(("input", "post_attention")):
            weights[f"{name}{part}_layernorm.weight"] = graph.value(norms[2 * layer + place].input[1])
    weights["model.norm.weight"] = graph.value(norms[-1].input[1])
    # Angles of the second place: how fast each pair of numbers turns, the second of them by theta to the -2 / width.
    waves = [graph.value(node.input[0]) for node in graph.of("Gather") if node.input[1] == "positions"]
    turn = float(np.arctan2(waves[1][1, 1], waves[0][1, 1]))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": weights["model.norm.weight"].shape[0],
        "num_hidden_layers": layers,
        "num_attention_heads": int(sizes[0]) // width,
        "num_key_value_heads": shared,
        "intermediate_size": weights["model.layers.0.mlp.up_proj.weight"].shape[0],
        "max_position_embeddings": entry.max_length,
        "vocab_size": weights["model.embed_tokens.weight"].shape[0],
        "rms_norm_eps": _attribute(norms[0], "epsilon"),
        "rope_theta": float(round(turn ** (-width / 2))),
        "tie_word_embeddings": True,
        "bos_token_id": entry.begin,
    }
    return weights, config


def _dense(name: str, weight: Array, bias: Array | None) -> Weights:
    assert bias is not None
    return {f"{name}.weight": weight, f"{name}.bias": bias}


def _norm(graph: Graph, name: str, node: Any) -> Weights:
    return {f"{name}.weight": graph.value(node.input[1]), f"{name}.bias": graph.value(node.input[2])}


def _attribute(node: Any, name: str) -> Any:
    return next(onnx.helper.get_attribute_value(one) for one in node.attribute if one.name == name)


def _write(folder: Path, weights: Weights, config: dict[str, Any], tokenizer: bytes) -> None:
    folder.mkdir(parents=True)
    stored = {name: np.ascontiguousarray(value, dtype=np.float32) for name, value in weights.items()}
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_bytes(tokenizer)
