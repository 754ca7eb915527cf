"""A Llama-style causal language model as an ONNX graph that can continue from remembered keys and values.

Inputs: `ids` (rows, tokens), `positions` of those tokens, `blocked` (rows, tokens, past + tokens; 0 or a large
negative number), `past` (layers, 2, rows, heads, past, width), and the flat places whose next token is `wanted`.
Outputs: `log_probs` of the wanted tokens, `logits` of all tokens at those places, and the new keys and values as
`present`, shaped as `past` is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from turnwise.errors import TurnwiseError
from turnwise.models.export.graph import Graph
from turnwise.models.export.storage import Floats, quantise

LONGEST = 1024


def export_llama(
    weights: Mapping[str, Any],
    config: Mapping[str, Any],
    path: Path,
    fineness: float | None,
    notes: Mapping[str, str],
    *,
    blocks: bool = True,
) -> None:
    """Write the model to one file; unless in full precision, its layers go onto a grid of blocks if asked."""
    plain = {name: np.asarray(value, dtype=np.float32) for name, value in weights.items()}
    _Llama(plain, config, Graph(fineness, blocks=blocks)).graph.save(path, notes)


class _Llama:
    def __init__(self, weights: Mapping[str, Floats], config: Mapping[str, Any], graph: Graph) -> None:
        if config.get("model_type") != "llama" or config.get("hidden_act", "silu") != "silu":
            raise TurnwiseError("only Llama-style models with the SiLU activation can be exported")
        self.graph, self._w = graph, weights
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
        # For writing; an output that nobody asks for costs nothing.
        g.output("logits", g.op("MatMul", states, vocabulary), ["asked", "words"])

    def _embed(self, ids: str) -> tuple[str, str]:
        """Embedded ids, and the matrix that ends in the vocabulary; one table serves both where they are tied."""
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
        """Cosines and sines of every position, as wide as a head, to be applied to queries and keys."""
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
        left, right = g.ops("Split", 2, x, g.ints(half, half), axis=-1)
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
        """Grouped attention: the queries that share a key head are laid side by side, so no key is copied."""
        g, width, group = self.graph, self._width, self._heads // self._shared
        parts = [self._w[f"{name}{part}_proj.weight"] for part in ("q", "k", "v")]
        sizes = [self._heads * width, self._shared * width, self._shared * width]
        q, k, v = g.ops("Split", 3, g.linear(x, np.concatenate(parts)), g.ints(*sizes), axis=-1)
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
