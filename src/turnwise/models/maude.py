"""MAUDE's head as it is used: a recurrent network over the vectors of utterances, in numpy, one step per turn.

A conversation is read turn by turn. What a turn leaves behind is kept, so the next one costs one utterance to encode
and one step; the bidirectional form reads its small network over all kept vectors again, since each turn changes every
state before it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, cast

import numpy as np

from turnwise.errors import TurnwiseError
from turnwise.models.heads_numpy import unpack_weights
from turnwise.models.protocols import Classify, Floats, Pooling, Row
from turnwise.models.tasks import CPU_BUDGET
from turnwise.models.utterances import Reading, UtteranceEncoder

Difference = Literal["absolute", "signed"]
LABELS = ("other", "next")
# The turns of a context come as lines, as the authors' files had them.
TURN_END = "\n"
# Utterances, and conversations up to some turn, that are remembered: enough for a few hundred conversations at once.
REMEMBERED = 8192
V = TypeVar("V")


@dataclass(frozen=True)
class Shape:
    """The choices between the paper's form and the released one; the sizes can be read off the weights."""

    bidirectional: bool = False
    difference: Difference = "absolute"


@dataclass(frozen=True, slots=True)
class State:
    """What the turns so far leave behind: outputs and cells of the layers and the largest outputs; or the turns."""

    hidden: tuple[Floats, ...] = ()
    cell: tuple[Floats, ...] = ()
    pooled: Floats | None = None
    turns: tuple[Floats, ...] = ()


class Head:
    """Down-projection, recurrent transition, pooling, combination and scorer."""

    def __init__(self, weights: Mapping[str, Floats], shape: Shape) -> None:
        self.shape = shape
        self._weights = {name: np.ascontiguousarray(value, dtype=np.float32) for name, value in weights.items()}
        self.layers = sum(name.startswith("transition.weight_ih_l") for name in weights) // (1 + shape.bidirectional)
        if not self.layers:
            raise TurnwiseError("the weights hold no recurrent layer; build the pack again")

    def project(self, vectors: Floats) -> Floats:
        """Vectors of utterances in the smaller space that context and response share."""
        projected: Floats = vectors @ self._weights["down.weight"].T + self._weights["down.bias"]
        return projected

    def read(self, state: State, turn: Floats) -> State:
        """The state after one more turn, which is given as a projected vector."""
        if self.shape.bidirectional:
            return State(turns=(*state.turns, turn))
        hidden, cell, below = [], [], turn
        for layer in range(self.layers):
            before = (state.hidden[layer], state.cell[layer]) if state.hidden else None
            below, kept = self._step(f"l{layer}", below, before)
            hidden.append(below)
            cell.append(kept)
        pooled = below if state.pooled is None else np.maximum(state.pooled, below)
        return State(tuple(hidden), tuple(cell), pooled)

    def context(self, state: State) -> Floats:
        """The vector of everything that was read."""
        pooled = self._both_ways(state.turns) if self.shape.bidirectional else state.pooled
        if pooled is None:
            raise ValueError("nothing was read yet")
        vector: Floats = self._weights["mix.weight"] @ pooled
        return vector

    def score(self, context: Floats, response: Floats) -> float:
        """How probable it is that the response belongs to the context; both as vectors of the smaller space."""
        joined = combined(context, response, self.shape.difference)
        hidden = np.maximum(self._weights["dense.weight"] @ joined + self._weights["dense.bias"], 0)
        logit = float((self._weights["out.weight"] @ hidden + self._weights["out.bias"])[0])
        return 1 / (1 + float(np.exp(-logit))) if logit > -500 else 0.0

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


@dataclass
class Conversation:
    """A conversation that is judged while it goes on: `say` a turn, or ask how well a response would fit now.

    Each utterance is encoded once, however many turns follow it.
    """

    model: MaudeModel
    _said: list[str] = field(default_factory=list)

    def say(self, turn: str) -> None:
        """Something was said, by whomever."""
        self._said.append(turn)

    def score(self, response: str) -> float:
        """How well a response fits what was said so far; it is not said yet."""
        if not self._said:
            raise ValueError("nothing was said yet")
        request = Classify(TURN_END.join(self._said), response, role="maude")
        rows = self.model.rows(request)
        return self.model.answer(request, rows, self.model.run(rows))[LABELS[1]]


@dataclass
class MaudeModel:
    """Answers `Classify`: the turns of the context are the lines of the first text, the response is the second."""

    encoder: UtteranceEncoder
    head: Head
    fingerprint: str
    budget: int = CPU_BUDGET
    _rows: Remembered[Row] = field(default_factory=lambda: Remembered(REMEMBERED))
    _vectors: Remembered[Floats] = field(default_factory=lambda: Remembered(REMEMBERED))
    _states: Remembered[State] = field(default_factory=lambda: Remembered(REMEMBERED))

    def rows(self, request: Classify) -> list[Row]:
        """One row for each turn of the context, and one for the response."""
        if request.pair is None:
            raise TurnwiseError("this model judges a response after its context: give both")
        return [self._row(" ".join(text.split())) for text in (*request.text.split(TURN_END), request.pair)]

    def _row(self, text: str) -> Row:
        known = self._rows.get(text)
        return known if known is not None else self._rows.put(text, self.encoder.row(text))

    def run(self, rows: Sequence[Row]) -> list[Floats]:
        """The projected vector of each utterance; those that are remembered are not encoded again."""
        new = list(dict.fromkeys(row for row in rows if self._vectors.get(row.ids) is None))
        found = dict(zip((row.ids for row in new), self._projected(new), strict=True))
        kept = [found[row.ids] if row.ids in found else self._vectors[row.ids] for row in rows]
        for ids, vector in found.items():
            self._vectors.put(ids, vector)
        return kept

    def _projected(self, rows: Sequence[Row]) -> Sequence[Floats]:
        # Row by row: one product over a batch rounds by its size, and the same turn must always score the same.
        return [self.head.project(vector) for vector in self.encoder.vectors(rows)] if rows else []

    def answer(self, request: Classify, rows: Sequence[Row], results: Sequence[Floats]) -> dict[str, float]:
        """The probability that the response comes next."""
        state = self._after([row.ids for row in rows[:-1]], results[:-1])
        chance = self.head.score(self.head.context(state), results[-1])
        return dict(zip(LABELS, (1 - chance, chance), strict=True))

    def _after(self, turns: Sequence[tuple[int, ...]], vectors: Sequence[Floats]) -> State:
        """The state after these turns, from the longest beginning of them that is remembered."""
        keys = tuple(turns)
        start = next((n for n in range(len(keys), 0, -1) if self._states.get(keys[:n]) is not None), 0)
        state = self._states[keys[:start]] if start else State()
        for place in range(start, len(keys)):
            state = self._states.put(keys[: place + 1], self.head.read(state, vectors[place]))
        return state

    def conversation(self) -> Conversation:
        """A conversation to be judged while it goes on."""
        return Conversation(self)


class Remembered(Generic[V]):
    """The values that were used last, up to a number of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[Any, V] = OrderedDict()

    def get(self, key: Any) -> V | None:
        """A value that is still held; it becomes the one used last."""
        if key not in self._held:
            return None
        self._held.move_to_end(key)
        return self._held[key]

    def __getitem__(self, key: Any) -> V:
        return self._held[key]

    def put(self, key: Any, value: V) -> V:
        """Hold a value; the one that was not used for longest goes if there are too many."""
        self._held[key] = value
        if len(self._held) > self._most:
            self._held.popitem(last=False)
        return value


def read_head(content: bytes, name: str) -> tuple[Head, Reading]:
    """A head, and what it reads of an encoder, from the bytes of a safetensors file."""
    from safetensors import SafetensorError

    try:
        weights, facts = unpack_weights(content), header(content)
        shape = Shape(facts["bidirectional"] == "true", cast(Difference, facts["difference"]))
        layers = tuple(map(int, facts["layers"].split(",")))
        return Head(weights, shape), Reading(facts["role"], layers, cast(Pooling, facts["pooling"]))
    except (SafetensorError, ValueError, KeyError) as problem:
        raise TurnwiseError(f"{name}: not a head of MAUDE ({type(problem).__name__}: {problem})") from None


def header(content: bytes) -> dict[str, str]:
    """The facts that a safetensors file holds beside its tensors."""
    size = int.from_bytes(content[:8], "little")
    facts: dict[str, str] = json.loads(content[8 : 8 + size]).get("__metadata__", {})
    return facts
