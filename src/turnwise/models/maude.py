"""MAUDE: a recurrent network over the vectors of utterances, one step per turn.

An utterance's vector is made of the states of some layers of an encoder, each pooled over the tokens, side by side: the
last layer says what an utterance is about, a middle layer notices the order of its words. What a turn leaves behind is
kept, so the next turn costs one utterance to encode and one step. The bidirectional form reads its small network over
all kept vectors again, since each turn changes every state before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from turnwise.errors import TurnwiseError
from turnwise.models.heads import Remembered, unpack_weights
from turnwise.models.kinds import CPU_BUDGET, KINDS, Encoder, Model, ModelKind, TokenRow
from turnwise.models.onnx.session import thread_count
from turnwise.models.requests import Converse, Floats, Pooling
from turnwise.models.text import ASKED, REPLY, Tokens, rectangle

if TYPE_CHECKING:
    from turnwise.models.pack import Pack


@dataclass(frozen=True)
class TrunkReading:
    """Which layers of which role an utterance's vector is made of, and how each is pooled."""

    role: str = "encoder"
    layers: tuple[int, ...] = (3, 6)
    pooling: Pooling = "mean"


@dataclass
class UtteranceEncoder:
    """Utterances to rows of ids, and rows to vectors."""

    network: Encoder
    tokens: Tokens
    reading: TrunkReading

    def row(self, text: str) -> TokenRow:
        """Return the sequence that has to run for an utterance."""
        encoding = self.tokens.encode(text, None, None)
        return TokenRow(tuple(encoding.ids), tuple(encoding.type_ids))

    def vectors(self, rows: Sequence[TokenRow]) -> Floats:
        """Return a vector for each row."""
        padded = rectangle([row.ids for row in rows], [row.types for row in rows])
        return np.concatenate(self.network.pooled_layers(padded, self.reading.layers, self.reading.pooling), axis=1)


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
        """Return vectors in the smaller space of contexts and responses, then their directions if `recent` is set."""
        projected: Floats = vectors @ self._weights["down.weight"].T + self._weights["down.bias"]
        if not self.shape.recent:
            return projected
        scaled = (vectors - self._weights["centre"]) / self._weights["scale"]
        return np.concatenate([projected, self._directions(scaled)], axis=-1)

    def read(self, state: State, turn: Floats) -> State:
        """Return the state after one more turn, which is given as a projected vector."""
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
        """Return the vector of the context read so far."""
        pooled = self._both_ways(state.turns) if self.shape.bidirectional else state.pooled
        if pooled is None:
            raise ValueError("state: expected at least one turn, got none")
        vector: Floats = self._weights["mix.weight"] @ pooled
        return np.concatenate([vector, *state.faded])

    def score(self, context: Floats, response: Floats) -> float:
        """Return the probability that the response belongs to the context; both are projected vectors."""
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
        """Return vectors whose parts have length 1 each."""
        apart = vectors.reshape(*vectors.shape[:-1], self.shape.parts, -1)
        lengths = np.linalg.norm(apart, axis=-1, keepdims=True)
        found: Floats = (apart / np.maximum(lengths, 1e-12)).reshape(vectors.shape)
        return found

    def _step(self, layer: str, below: Floats, before: tuple[Floats, Floats] | None) -> tuple[Floats, Floats]:
        """Return one step of one LSTM layer: its output and its cell."""
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
    """Return the scorer's input: released [c, r, |c - r|, c * r], or the paper's [r, c, r * c, r - c].

    >>> c, r = np.array([1.0, 2.0], dtype=np.float32), np.array([3.0, 1.0], dtype=np.float32)
    >>> combined(c, r, "absolute").tolist(), combined(c, r, "signed").tolist()
    ([1.0, 2.0, 3.0, 1.0, 2.0, 1.0, 3.0, 2.0], [3.0, 1.0, 1.0, 2.0, 3.0, 2.0, 2.0, -1.0])
    """
    if difference == "absolute":
        return np.concatenate([context, response, np.abs(context - response), context * response])
    return np.concatenate([response, context, response * context, response - context])


def sigmoid(values: Floats) -> Floats:
    """Return the logistic function, without overflow.

    >>> sigmoid(np.array([-1000.0, 0.0], dtype=np.float32)).tolist()
    [0.0, 0.5]
    """
    halved: Floats = 0.5 + 0.5 * np.tanh(0.5 * values)
    return halved


def read_head(content: bytes, name: str) -> tuple[Head, TrunkReading]:
    """Return a head and the encoder layers that it reads, from the bytes of a safetensors file."""
    from safetensors import SafetensorError

    try:
        weights, facts = unpack_weights(content), header(content)
        layers = tuple(map(int, facts["layers"].split(",")))
        # Heads of earlier packs have no `recent`.
        recent = tuple(map(float, filter(None, facts.get("recent", "").split(","))))
        shape = Shape(facts["bidirectional"] == "true", cast(Difference, facts["difference"]), recent, len(layers))
        return Head(weights, shape), TrunkReading(facts["role"], layers, cast(Pooling, facts["pooling"]))
    except (SafetensorError, ValueError, KeyError) as problem:
        raise TurnwiseError(f"{name}: not a head of MAUDE ({type(problem).__name__}: {problem})") from None


def header(content: bytes) -> dict[str, str]:
    """Return the facts that a safetensors file holds beside its tensors."""
    size = int.from_bytes(content[:8], "little")
    facts: dict[str, str] = json.loads(content[8 : 8 + size]).get("__metadata__", {})
    return facts


LABELS = ("other", "next")
# Utterances, and conversations up to some turn, that are remembered: enough for a few hundred conversations at once.
REMEMBERED = 8192


@dataclass
class Conversation:
    """A conversation that is scored turn by turn: `say` adds a turn, `score` rates a response to the turns so far.

    Each utterance is encoded once, however many turns follow it.
    """

    model: MaudeModel
    _said: list[str] = field(default_factory=list)

    def say(self, turn: str) -> None:
        """Add a turn of any speaker."""
        self._said.append(_text(turn, "turn"))

    def score(self, response: str) -> float:
        """Return the probability that a response fits the turns so far; it is not added to them."""
        if not self._said:
            raise TurnwiseError("conversation: expected at least one turn, got none. Fix: call `say` before `score`")
        request = Converse(tuple(self._said), _text(response, "response"))
        rows = self.model.rows(request)
        return self.model.answer(request, rows, self.model.run(rows))[LABELS[1]]


def _text(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise TurnwiseError(f"{what}: expected a string, got {text!r}")
    return text


@dataclass
class MaudeModel(Model):
    """Answers `Converse`."""

    encoder: UtteranceEncoder
    head: Head
    fingerprint: str
    budget: int = CPU_BUDGET
    _rows: Remembered[TokenRow] = field(default_factory=lambda: Remembered(REMEMBERED))
    _vectors: Remembered[Floats] = field(default_factory=lambda: Remembered(REMEMBERED))
    _states: Remembered[State] = field(default_factory=lambda: Remembered(REMEMBERED))

    def rows(self, request: Converse) -> list[TokenRow]:
        """Return one row for each turn of the context, and one for the response."""
        return [self._row(" ".join(text.split())) for text in (*request.turns, request.response)]

    def _row(self, text: str) -> TokenRow:
        known = self._rows.get(text)
        return known if known is not None else self._rows.put(text, self.encoder.row(text))

    def run(self, rows: Sequence[TokenRow]) -> list[Floats]:
        """Return the projected vector of each utterance; those that are remembered are not encoded again."""
        new = list(dict.fromkeys(row for row in rows if self._vectors.get(row.ids) is None))
        found = dict(zip((row.ids for row in new), self._projected(new), strict=True))
        kept = [found[row.ids] if row.ids in found else self._vectors[row.ids] for row in rows]
        for ids, vector in found.items():
            self._vectors.put(ids, vector)
        return kept

    def _projected(self, rows: Sequence[TokenRow]) -> Sequence[Floats]:
        # Row by row: one product over a batch rounds by its size, and the same turn must always score the same.
        return [self.head.project(vector) for vector in self.encoder.vectors(rows)] if rows else []

    def answer(self, request: Converse, rows: Sequence[TokenRow], results: Sequence[Floats]) -> dict[str, float]:
        """Return the probability that the response comes next."""
        state = self._after([row.ids for row in rows[:-1]], results[:-1])
        chance = self.head.score(self.head.context(state), results[-1])
        return dict(zip(LABELS, (1 - chance, chance), strict=True))

    def _after(self, turns: Sequence[tuple[int, ...]], vectors: Sequence[Floats]) -> State:
        """Return the state after these turns, from the longest beginning of them that is remembered."""
        keys = tuple(turns)
        start = next((n for n in range(len(keys), 0, -1) if self._states.get(keys[:n]) is not None), 0)
        state = self._states[keys[:start]] if start else State()
        for place in range(start, len(keys)):
            state = self._states.put(keys[: place + 1], self.head.read(state, vectors[place]))
        return state

    def conversation(self) -> Conversation:
        """Return a conversation to which turns can be added while it is judged."""
        return Conversation(self)


def _from_pack(pack: Pack, role: str) -> MaudeModel:
    from turnwise.models.onnx import networks

    entry, tokens, session = pack.manifest.role(role), pack.tokens(role), pack.session(role)
    networks.check_graph(session, entry.kind, {"types", "layer_0"})
    if entry.weights is None:
        raise TurnwiseError(f"pack '{pack.name}': a recurrent role names no weights in the manifest")
    head, reading = read_head(pack.read(entry.weights), entry.weights)
    # It takes one batch at a time, so the encoder shares each out.
    encoder = UtteranceEncoder(networks.OnnxEncoder(session, pack.pool), tokens, reading)
    return MaudeModel(encoder, head, pack.fingerprint(role), 4 * thread_count() * CPU_BUDGET)


KINDS.add(
    "recurrent",
    ModelKind("recurrent", Converse, _from_pack, probe=lambda role: Converse((ASKED,), REPLY, role=role)),
    module=__name__,
)
