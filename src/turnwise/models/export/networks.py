"""BERT and Llama-style networks as ONNX graphs.

BERT is the trunk, with hidden layers, a masked-LM head or classifier heads on top. A causal language model can continue
from cached keys and values: its inputs are `ids` (rows, tokens), `positions` of those tokens, `blocked` (rows, tokens,
past + tokens; 0 or a large negative number), `past` (layers, 2, rows, heads, past, width), and the flat places whose
next token is `wanted`; its outputs are `log_probs` of the wanted tokens, `logits` of all tokens at those places, and
the new keys and values as `present`, shaped as `past` is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from turnwise.errors import TurnwiseError
from turnwise.models.export.graph import Graph
from turnwise.models.export.storage import Floats, quantise

Weights = Mapping[str, Floats]
ACTIVATIONS = {"gelu": "Gelu", "tanh": "Tanh", "relu": "Relu"}


@dataclass(frozen=True)
class WordTable:
    """A word-embedding table that several files share: whole numbers, scales, and the file that holds both."""

    file: str
    numbers: npt.NDArray[np.int8]
    scales: Floats


def trunk_weights(weights: Weights) -> dict[str, Floats]:
    """Return the weights in single precision, named as in a bare BertModel, whatever model they were saved from."""
    return {name.removeprefix("bert."): np.asarray(value, dtype=np.float32) for name, value in weights.items()}


class Bert:
    """A graph that contains the trunk up to its last layer; add the parts that a role needs, then save it."""

    def __init__(
        self, weights: Weights, config: Mapping[str, Any], fineness: float | None, table: WordTable | None = None
    ) -> None:
        if config.get("model_type") != "bert" or config.get("hidden_act", "gelu") != "gelu":
            raise TurnwiseError("only BERT models with the GELU activation can be exported")
        self.graph, self.config, self.table = Graph(fineness), config, table
        self._weights = trunk_weights(weights)
        g = self.graph
        self._ids, self._mask, self._types = (
            g.input(name, "int64", ["rows", "tokens"]) for name in ("ids", "mask", "types")
        )
        self._layers = self._trunk()

    def _pair(self, name: str) -> tuple[Floats, Floats]:
        return self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]

    def _words(self) -> tuple[str, str | None]:
        """Return names of the word table and its scales in the graph; no scales if it is stored in full."""
        if self.table is not None:
            rows = self.table.numbers.nbytes
            scales = self.table.scales[:, None]
            return (
                self.graph.shared("words", self.table.numbers, self.table.file, 0),
                self.graph.shared("word_scales", scales, self.table.file, rows),
            )
        own = self._weights["embeddings.word_embeddings.weight"]
        if self.graph.fineness is None:
            return self.graph.constant(own), None
        numbers, scales = quantise(own, self.graph.fineness)
        return self.graph.constant(numbers), self.graph.constant(scales[:, None])

    def _norm(self, x: str, name: str, skip: str | None = None) -> str:
        scale, shift = map(self.graph.constant, self._pair(name))
        epsilon = float(self.config.get("layer_norm_eps", 1e-12))
        # The fused form of the two is the slower one on CPUs.
        x = x if skip is None else self.graph.op("Add", x, skip)
        return self.graph.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=epsilon)

    def _trunk(self) -> list[str]:
        """Return the embeddings and every layer but the last."""
        g, w = self.graph, self._weights
        self._word_table, self._word_scales = self._words()
        if self._word_scales is None:
            x = g.op("Gather", self._word_table, self._ids)
        else:
            x = g.scaled_rows(self._word_table, self._word_scales, self._ids)
        length = g.op("Shape", self._ids, start=1, end=2)
        places = g.table(w["embeddings.position_embeddings.weight"])
        x = g.op("Add", x, g.op("Slice", places, g.ints(0), length, g.ints(0)))
        x = g.op("Add", x, g.op("Gather", g.constant(w["embeddings.token_type_embeddings.weight"]), self._types))
        x = self._norm(x, "embeddings.LayerNorm")
        self._seen = g.cast(self._mask, "int32")
        layers = [x]
        for index in range(self._top):
            layers.append(self._layer(layers[-1], index))
        return layers

    @property
    def _top(self) -> int:
        """Return the number of the last layer."""
        return int(self.config["num_hidden_layers"]) - 1

    @cached_property
    def _last(self) -> str:
        """Return the last layer at every position; built on first use, since a masked LM needs few positions of it."""
        return self._layer(self._layers[-1], self._top)

    def _layer(self, x: str, index: int, places: str | None = None) -> str:
        """Return the layer above x; given places, all of it that comes after attention is computed there alone."""
        g, name = self.graph, f"encoder.layer.{index}."
        parts = [self._pair(f"{name}attention.self.{part}") for part in ("query", "key", "value")]
        weight = g.weight(np.concatenate([w for w, _ in parts]))
        bias = g.constant(np.concatenate([b for _, b in parts]))
        heads = int(self.config["num_attention_heads"])
        attended = g.fused("Attention", x, weight, bias, self._seen, num_heads=heads)
        if places is not None:
            attended, x = (g.op("GatherND", states, places) for states in (attended, x))
        attended = g.linear(attended, *self._pair(f"{name}attention.output.dense"))
        x = self._norm(attended, f"{name}attention.output.LayerNorm", skip=x)
        inner = g.fused("Gelu", g.linear(x, *self._pair(f"{name}intermediate.dense")))
        return self._norm(g.linear(inner, *self._pair(f"{name}output.dense")), f"{name}output.LayerNorm", skip=x)

    def add_layers(self) -> None:
        """Offer every layer's hidden states, from the embeddings (layer_0) to the last."""
        for index, layer in enumerate([*self._layers, self._last]):
            self.graph.output(f"layer_{index}", layer, ["rows", "tokens", int(self.config["hidden_size"])])

    def add_masked_lm(self) -> None:
        """Judge tokens at places only: neither the last layer nor the vocabulary-sized product runs at the others."""
        g = self.graph
        rows, places, wanted = (g.input(name, "int64", ["asked"]) for name in ("asked_rows", "asked_places", "wanted"))
        where = g.op("Concat", g.op("Unsqueeze", rows, g.ints(1)), g.op("Unsqueeze", places, g.ints(1)), axis=1)
        states = self._layer(self._layers[-1], self._top, where)
        states = g.fused("Gelu", g.linear(states, *self._pair("cls.predictions.transform.dense"), fine=True))
        states = self._norm(states, "cls.predictions.transform.LayerNorm")
        names = ("cls.predictions.bias", "cls.predictions.decoder.bias")  # one tensor under either name
        bias = g.constant(next(self._weights[name] for name in names if name in self._weights))
        vocabulary = g.op("Transpose", self._table_in_full(), perm=[1, 0])
        g.output("log_probs", g.likelihood(states, vocabulary, bias, wanted), ["asked"])

    def _table_in_full(self) -> str:
        decoder = self._weights.get("cls.predictions.decoder.weight")
        words = self._weights["embeddings.word_embeddings.weight"]
        if decoder is not None and not np.array_equal(decoder, words):
            return self.graph.op("Transpose", self.graph.weight(decoder), perm=[1, 0])
        if self._word_scales is None:
            return self._word_table
        return self.graph.op("Mul", self.graph.cast(self._word_table, "float32"), self._word_scales)

    def add_head(self, name: str, weights: Weights, pooling: str, activation: str) -> None:
        """Add a classifier: pooled last layer, dense, activation, out. Its output is the logits under its name."""
        g = self.graph
        tensor = {part: np.asarray(weights[f"{name}.{part}"], dtype=np.float32) for part in HEAD_PARTS}
        # A head is small and decides everything.
        inner = g.linear(self._pooled(pooling), tensor["dense.weight"], tensor["dense.bias"], fine=True)
        inner = g.fused("Gelu", inner) if activation == "gelu" else g.op(ACTIVATIONS[activation], inner)
        logits = g.linear(inner, tensor["out.weight"], tensor["out.bias"], fine=True)
        g.output(name, logits, ["rows", len(tensor["out.bias"])])

    def _pooled(self, pooling: str) -> str:
        g, states = self.graph, self._last
        if pooling == "cls":
            return g.op("Gather", states, g.constant(np.int64(0)), axis=1)
        mask = g.op("Unsqueeze", g.cast(self._mask, "float32"), g.ints(2))
        if pooling == "mean":
            total = g.op("ReduceSum", g.op("Mul", states, mask), g.ints(1), keepdims=0)
            return g.op("Div", total, g.op("ReduceSum", mask, g.ints(1), keepdims=0))
        if pooling != "max":
            raise TurnwiseError(f"unknown pooling {pooling!r}; choose max, mean or cls")
        absent = g.op("Mul", g.op("Sub", mask, g.constant(np.float32(1))), g.constant(np.float32(1e4)))
        return g.op("ReduceMax", g.op("Add", states, absent), g.ints(1), keepdims=0)


HEAD_PARTS = ("dense.weight", "dense.bias", "out.weight", "out.bias")


LONGEST = 1024


class Llama:
    """A graph of a causal language model; unless in full precision, its layers lie on a grid of blocks."""

    def __init__(self, weights: Weights, config: Mapping[str, Any], fineness: float | None) -> None:
        if config.get("model_type") != "llama" or config.get("hidden_act", "silu") != "silu":
            raise TurnwiseError("only Llama-style models with the SiLU activation can be exported")
        self.graph = Graph(fineness, blocks=True)
        self._w = {name: np.asarray(value, dtype=np.float32) for name, value in weights.items()}
        self._heads = int(config["num_attention_heads"])
        self._shared = int(config.get("num_key_value_heads", self._heads))
        self._hidden = int(config["hidden_size"])
        self._width = int(config.get("head_dim") or self._hidden // self._heads)
        self._epsilon = float(config.get("rms_norm_eps", 1e-6))
        self._build(config)

    def _build(self, config: Mapping[str, Any]) -> None:
        g, layers = self.graph, int(config["num_hidden_layers"])
        ids = g.input("ids", "int64", ["rows", "tokens"])
        positions = g.input("positions", "int64", ["rows", "tokens"])
        blocked = g.input("blocked", "float32", ["rows", "tokens", "all"])
        self._past = g.input("past", "float32", [layers, 2, "rows", self._shared, "past", self._width])
        places, wanted = (g.input(name, "int64", ["asked"]) for name in ("places", "wanted"))
        self._rope(positions, config)
        self._blocked = g.op("Unsqueeze", blocked, g.ints(1, 2))
        x, vocabulary = self._embed(ids)
        present = []
        for index in range(layers):
            x, new = self._layer(x, index)
            present.append(new)
        shape: list[str | int] = [layers, 2, "rows", self._shared, "tokens", self._width]
        g.output("present", g.op("Concat", *present, axis=0), shape)
        flat = g.op("Reshape", x, g.ints(-1, self._hidden))
        states = self._norm(g.op("Gather", flat, places), "model.norm")
        g.output("log_probs", g.likelihood(states, vocabulary, None, wanted), ["asked"])
        # For generation; an output that is not requested costs nothing.
        g.output("logits", g.op("MatMul", states, vocabulary), ["asked", "words"])

    def _embed(self, ids: str) -> tuple[str, str]:
        """Return the embedded ids and the output matrix; one table serves both if they are tied."""
        g, table = self.graph, self._w["model.embed_tokens.weight"]
        head = self._w.get("lm_head.weight")
        tied = head is None or np.array_equal(head, table)
        if g.fineness is None:
            return g.op("Gather", g.constant(table), ids), g.constant((table if head is None else head).T)
        numbers, scales = quantise(table, g.fineness)
        stored, factors = g.constant(numbers), g.constant(scales[:, None])
        embedded = g.scaled_rows(stored, factors, ids)
        if not tied and head is not None:
            return embedded, g.weight(head)
        full = g.op("Mul", g.cast(stored, "float32"), factors)
        return embedded, g.op("Transpose", full, perm=[1, 0])

    def _norm(self, x: str, name: str) -> str:
        scale = self.graph.constant(self._w[f"{name}.weight"])
        return self.graph.op("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=self._epsilon)

    def _rope(self, positions: str, config: Mapping[str, Any]) -> None:
        """Add the cosines and sines of every position, as wide as a head, for queries and keys."""
        settings = config.get("rope_parameters") or {}
        if (settings.get("rope_type") or (config.get("rope_scaling") or {}).get("rope_type", "default")) != "default":
            raise TurnwiseError("scaled rotary positions cannot be exported")
        theta = float(config.get("rope_theta") or settings.get("rope_theta", 10000.0))
        length = min(LONGEST, int(config.get("max_position_embeddings", LONGEST)))
        rates = theta ** (-np.arange(0, self._width, 2, dtype=np.float64) / self._width)
        angles = np.arange(length)[:, None] * np.concatenate([rates, rates])[None, :]
        g = self.graph
        self._cos, self._sin = (
            g.op("Unsqueeze", g.op("Gather", g.constant(wave.astype(np.float32)), positions), g.ints(1))
            for wave in (np.cos(angles), np.sin(angles))
        )

    def _turned(self, x: str) -> str:
        g, half = self.graph, self._width // 2
        left, right = g.split(x, half, half)
        swapped = g.op("Concat", g.op("Neg", right), left, axis=-1)
        return g.op("Add", g.op("Mul", x, self._cos), g.op("Mul", swapped, self._sin))

    def _layer(self, x: str, index: int) -> tuple[str, str]:
        g, name = self.graph, f"model.layers.{index}."
        attended, new = self._attention(self._norm(x, f"{name}input_layernorm"), index, f"{name}self_attn.")
        x = g.op("Add", x, attended)
        inner = self._norm(x, f"{name}post_attention_layernorm")
        gate = g.linear(inner, self._w[f"{name}mlp.gate_proj.weight"])
        gate = g.op("Mul", gate, g.op("Sigmoid", gate))
        up = g.linear(inner, self._w[f"{name}mlp.up_proj.weight"])
        down = g.linear(g.op("Mul", gate, up), self._w[f"{name}mlp.down_proj.weight"])
        return g.op("Add", x, down), new

    def _attention(self, x: str, index: int, name: str) -> tuple[str, str]:
        """Return grouped attention and its new keys and values; queries that share a key head lie side by side."""
        g, width, group = self.graph, self._width, self._heads // self._shared
        parts = [self._w[f"{name}{part}_proj.weight"] for part in ("q", "k", "v")]
        sizes = [self._heads * width, self._shared * width, self._shared * width]
        q, k, v = g.split(g.linear(x, np.concatenate(parts)), *sizes)
        q, k = self._turned(self._by_head(q, self._heads)), self._turned(self._by_head(k, self._shared))
        v = self._by_head(v, self._shared)
        new = g.op("Concat", *(g.op("Unsqueeze", part, g.ints(0, 1)) for part in (k, v)), axis=1)
        past = g.op("Gather", self._past, g.constant(np.int64(index)), axis=0)
        before_k, before_v = (g.op("Gather", past, g.constant(np.int64(i)), axis=0) for i in range(2))
        k, v = g.op("Concat", before_k, k, axis=2), g.op("Concat", before_v, v, axis=2)
        q = g.op("Reshape", q, g.ints(0, self._shared, group, -1, width))
        k, v = (g.op("Unsqueeze", part, g.ints(2)) for part in (k, v))
        scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 2, 4, 3]))
        scores = g.op("Mul", scores, g.constant(np.float32(width**-0.5)))
        weights = g.op("Softmax", g.op("Add", scores, self._blocked), axis=-1)
        mixed = g.op("Reshape", g.op("MatMul", weights, v), g.ints(0, self._heads, -1, width))
        mixed = g.op("Reshape", g.op("Transpose", mixed, perm=[0, 2, 1, 3]), g.ints(0, 0, self._heads * width))
        return g.linear(mixed, self._w[f"{name}o_proj.weight"]), new

    def _by_head(self, x: str, heads: int) -> str:
        g = self.graph
        return g.op("Transpose", g.op("Reshape", x, g.ints(0, 0, heads, self._width)), perm=[0, 2, 1, 3])
