"""MAUDE's head in numpy: projected vectors of turns in, one recurrent step for each, and a score for a response."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from turnwise.errors import TurnwiseError
from turnwise.models.heads_numpy import unpack_weights
from turnwise.models.requests import Floats, Pooling
from turnwise.models.utterances import Reading

Difference = Literal["absolute", "signed"]
# Likeness lies between -1 and 1; multiplied by this it is of a size with the other features.
GAIN = 10.0


@dataclass(frozen=True)
class Shape:
    """The choices between the paper's form and the released one; the sizes can be read off the weights.

    `recent` are the rates at which turns fade to whose sum a response's likeness is read too; each of the `parts` of a
    vector, one for each layer, is compared by itself.
    """

    bidirectional: bool = False
    difference: Difference = "absolute"
    recent: tuple[float, ...] = ()
    parts: int = 1


@dataclass(frozen=True, slots=True)
class State:
    """What the turns so far leave behind: outputs and cells of the layers and the largest outputs; or the turns.

    `faded` has the sum of their directions for each rate, where likeness is read.
    """

    hidden: tuple[Floats, ...] = ()
    cell: tuple[Floats, ...] = ()
    pooled: Floats | None = None
    turns: tuple[Floats, ...] = ()
    faded: tuple[Floats, ...] = ()


class Head:
    """Down-projection, recurrent transition, pooling, combination and scorer."""

    def __init__(self, weights: Mapping[str, Floats], shape: Shape) -> None:
        self.shape = shape
        self._weights = {name: np.ascontiguousarray(value, dtype=np.float32) for name, value in weights.items()}
        self.layers = sum(name.startswith("transition.weight_ih_l") for name in weights) // (1 + shape.bidirectional)
        if not self.layers:
            raise TurnwiseError("the weights hold no recurrent layer; build the pack again")
        self.size = len(self._weights["down.weight"])

    def project(self, vectors: Floats) -> Floats:
        """Vectors in the smaller space that context and response share, then their directions if likeness is read."""
        projected: Floats = vectors @ self._weights["down.weight"].T + self._weights["down.bias"]
        if not self.shape.recent:
            return projected
        scaled = (vectors - self._weights["centre"]) / self._weights["scale"]
        return np.concatenate([projected, self._directions(scaled)], axis=-1)

    def read(self, state: State, turn: Floats) -> State:
        """The state after one more turn, which is given as a projected vector."""
        said, direction = turn[: self.size], turn[self.size :]
        before = state.faded or (np.zeros_like(direction),) * len(self.shape.recent)
        faded = tuple(rate * sum_ + direction for rate, sum_ in zip(self.shape.recent, before, strict=True))
        if self.shape.bidirectional:
            return State(turns=(*state.turns, said), faded=faded)
        hidden, cell, below = [], [], said
        for layer in range(self.layers):
            kept = (state.hidden[layer], state.cell[layer]) if state.hidden else None
            below, inside = self._step(f"l{layer}", below, kept)
            hidden.append(below)
            cell.append(inside)
        pooled = below if state.pooled is None else np.maximum(state.pooled, below)
        return State(tuple(hidden), tuple(cell), pooled, faded=faded)

    def context(self, state: State) -> Floats:
        """The vector of everything that was read."""
        pooled = self._both_ways(state.turns) if self.shape.bidirectional else state.pooled
        if pooled is None:
            raise ValueError("nothing was read yet")
        vector: Floats = self._weights["mix.weight"] @ pooled
        return np.concatenate([vector, *state.faded])

    def score(self, context: Floats, response: Floats) -> float:
        """How probable it is that the response belongs to the context; both as vectors of the smaller space."""
        joined = combined(context[: self.size], response[: self.size], self.shape.difference)
        direct = 0.0
        if self.shape.recent:
            said = context[self.size :].reshape(len(self.shape.recent), -1)
            alike = (self._directions(said) * response[self.size :]).reshape(len(said), self.shape.parts, -1)
            joined = np.concatenate([joined, GAIN * alike.sum(axis=-1).ravel()])
            direct = float(self._weights["direct.weight"][0] @ joined[4 * self.size :])
        hidden = np.maximum(self._weights["dense.weight"] @ joined + self._weights["dense.bias"], 0)
        logit = float((self._weights["out.weight"] @ hidden + self._weights["out.bias"])[0]) + direct
        return 1 / (1 + float(np.exp(-logit))) if logit > -500 else 0.0

    def _directions(self, vectors: Floats) -> Floats:
        """Vectors whose parts have length 1 each."""
        apart = vectors.reshape(*vectors.shape[:-1], self.shape.parts, -1)
        lengths = np.linalg.norm(apart, axis=-1, keepdims=True)
        found: Floats = (apart / np.maximum(lengths, 1e-12)).reshape(vectors.shape)
        return found

    def _step(self, layer: str, below: Floats, before: tuple[Floats, Floats] | None) -> tuple[Floats, Floats]:
        """One step of one LSTM layer: its output and its cell."""
        w = self._weights
        gates = w[f"transition.weight_ih_{layer}"] @ below
        gates += w[f"transition.bias_ih_{layer}"] + w[f"transition.bias_hh_{layer}"]
        if before is not None:
            gates += w[f"transition.weight_hh_{layer}"] @ before[0]
        enter, forget, new, leave = np.split(gates, 4)
        cell = sigmoid(enter) * np.tanh(new)
        if before is not None:
            cell += sigmoid(forget) * before[1]
        return sigmoid(leave) * np.tanh(cell), cell

    def _both_ways(self, turns: Sequence[Floats]) -> Floats | None:
        states = list(turns)
        for layer in range(self.layers):
            onward = self._run(f"l{layer}", states)
            back = self._run(f"l{layer}_reverse", states[::-1])[::-1]
            states = [np.concatenate(pair) for pair in zip(onward, back, strict=True)]
        return np.max(states, axis=0) if states else None

    def _run(self, layer: str, turns: Sequence[Floats]) -> list[Floats]:
        outputs: list[Floats] = []
        before: tuple[Floats, Floats] | None = None
        for turn in turns:
            before = self._step(layer, turn, before)
            outputs.append(before[0])
        return outputs


def combined(context: Floats, response: Floats, difference: Difference) -> Floats:
    """What the scorer reads: released [c, r, |c - r|, c * r], or the paper's [r, c, r * c, r - c].

    >>> c, r = np.array([1.0, 2.0], dtype=np.float32), np.array([3.0, 1.0], dtype=np.float32)
    >>> combined(c, r, "absolute").tolist(), combined(c, r, "signed").tolist()
    ([1.0, 2.0, 3.0, 1.0, 2.0, 1.0, 3.0, 2.0], [3.0, 1.0, 1.0, 2.0, 3.0, 2.0, 2.0, -1.0])
    """
    if difference == "absolute":
        return np.concatenate([context, response, np.abs(context - response), context * response])
    return np.concatenate([response, context, response * context, response - context])


def sigmoid(values: Floats) -> Floats:
    """The logistic function, without overflow.

    >>> sigmoid(np.array([-1000.0, 0.0], dtype=np.float32)).tolist()
    [0.0, 0.5]
    """
    halved: Floats = 0.5 + 0.5 * np.tanh(0.5 * values)
    return halved


def read_head(content: bytes, name: str) -> tuple[Head, Reading]:
    """A head, and what it reads of an encoder, from the bytes of a safetensors file."""
    from safetensors import SafetensorError

    try:
        weights, facts = unpack_weights(content), header(content)
        layers = tuple(map(int, facts["layers"].split(",")))
        # Heads of earlier packs say nothing of likeness, and read none.
        recent = tuple(map(float, filter(None, facts.get("recent", "").split(","))))
        shape = Shape(facts["bidirectional"] == "true", cast(Difference, facts["difference"]), recent, len(layers))
        return Head(weights, shape), Reading(facts["role"], layers, cast(Pooling, facts["pooling"]))
    except (SafetensorError, ValueError, KeyError) as problem:
        raise TurnwiseError(f"{name}: not a head of MAUDE ({type(problem).__name__}: {problem})") from None


def header(content: bytes) -> dict[str, str]:
    """The facts that a safetensors file holds beside its tensors."""
    size = int.from_bytes(content[:8], "little")
    facts: dict[str, str] = json.loads(content[8 : 8 + size]).get("__metadata__", {})
    return facts
