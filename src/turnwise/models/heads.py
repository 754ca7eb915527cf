"""Small networks over vectors, worked out in numpy: weights by name in, numbers out, and no runtime.

Weights bear the names that torch gives them, so that a trained network is stored as it is. Two kinds of network judge
a pair of vectors, the context's and the response's: RUBER's, which relates them by a matrix, and InferSent's, which
compares them element by element. Where vectors have to be made of words first, a recurrent network reads them.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from turnwise.models.kinds import KINDS, Model, ModelKind, TokenRow
from turnwise.models.requests import Embed, Floats, Lookup, Read, Relate, Relation, Request
from turnwise.text.tokenise import plain_words

Numbers = Mapping[str, Floats]
Activation = Literal["relu", "tanh"]
# What the bundled networks were trained to see of a context, and the encoder's layer that they read.
CONTEXT_TURNS = 2
CONTEXT_WORDS = 32
LAYER = -1
# Stored beside a matrix of whole numbers: what each of its rows is multiplied by.
SCALES = ".scales"
# Texts whose vectors each network remembers.
MOST_READ = 1024


V = TypeVar("V")


class Remembered(Generic[V]):
    """The values that were used last, up to a number of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[Any, V] = OrderedDict()

    def get(self, key: Any) -> V | None:
        """Return a value that is still held; it becomes the one used last."""
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


@dataclass
class HeadModel(Model):
    """Answers `Relate` and `Read` from the vectors of words or texts that other models give.

    So every such network shares the encoder's answers, and one of a few thousand numbers needs no runtime.
    """

    weights: Numbers
    fingerprint: str
    # Responses share contexts, and a context is read slowly.
    _states: Remembered[Floats] = field(default_factory=lambda: Remembered(MOST_READ))

    def __post_init__(self) -> None:
        if not all(np.isfinite(weight).all() for weight in self.weights.values()):
            raise ValueError("some of its weights are not finite")

    @property
    def _reads_words(self) -> bool:
        return "context.weight_ih_l0" in self.weights

    def asks(self, request: Relate | Read) -> Sequence[Request]:
        """Return the requests for the vectors of words, of a long context the last ones, or of texts."""
        if isinstance(request, Read):
            return [Lookup(plain_words(request.text))]
        if self._reads_words:
            return [Lookup(plain_words(request.context)[-CONTEXT_WORDS:]), Lookup(plain_words(request.response))]
        return [Embed(text, layer=LAYER) for text in (request.context, request.response)]

    def answer(self, request: Relate | Read, rows: Sequence[TokenRow], results: Sequence[Floats]) -> Floats | Relation:
        """Return the relation, or the vector of a text."""
        if isinstance(request, Read):
            return np.concatenate([self._read(name, results[0]) for name in request.networks])
        context, response = results
        if self._reads_words:
            context, response = self._read("context", context), self._read("response", response)
        # RUBER's features are two vectors and one number, InferSent's are four vectors.
        is_ruber = self.weights["layers.0.weight"].shape[1] == 2 * len(response) + 1
        features = (related if is_ruber else compared)(self.weights, context, response)
        # Only RUBER's own network, which reads words, has tanh between its layers.
        activation: Activation = "tanh" if is_ruber and self._reads_words else "relu"
        chance = float(sigmoid(layers(self.weights, features, activation)))
        if "bounds" not in self.weights:
            return Relation(chance)
        low, high = map(float, self.weights["bounds"])
        return Relation(chance, (low, high))

    def _read(self, name: str, words: Floats) -> Floats:
        key = (name, words.shape, hashlib.blake2b(words.tobytes(), digest_size=16).digest())
        known = self._states.get(key)
        return self._states.put(key, read_text(self.weights, name, words)) if known is None else known


def unpack_weights(content: bytes) -> dict[str, Floats]:
    """Return the weights in a safetensors file, whole numbers multiplied out."""
    from safetensors.numpy import load

    stored = load(content)
    weights = {}
    for name, numbers in stored.items():
        if not name.endswith(SCALES):
            scales = stored.get(name + SCALES)
            weights[name] = numbers.astype(np.float32) * (1 if scales is None else scales.astype(np.float32)[:, None])
    return weights


def sigmoid(values: npt.ArrayLike) -> Any:
    """Return the logistic function in double precision, without overflow.

    >>> sigmoid([0.0, -1000.0]).tolist()
    [0.5, 0.0]
    """
    return (1 + np.tanh(np.asarray(values, dtype=np.float64) / 2)) / 2


def layers(weights: Numbers, vector: Floats, activation: Activation = "relu") -> float:
    """Return the number at the end of `layers.0`, `layers.1` and so on, with the activation between them."""
    count = sum(name.startswith("layers.") and name.endswith(".weight") for name in weights)
    for i in range(count):
        vector = weights[f"layers.{i}.weight"] @ vector + weights[f"layers.{i}.bias"]
        if i < count - 1:
            vector = np.maximum(vector, 0) if activation == "relu" else np.tanh(vector)
    return float(vector[0])


def related(weights: Numbers, context: Floats, response: Floats) -> Floats:
    """Return RUBER's features: both vectors, and between them the number that a matrix makes of the two.

    >>> related({"matrix": np.eye(2)}, np.array([1.0, 2.0]), np.array([3.0, 4.0])).tolist()
    [1.0, 2.0, 11.0, 3.0, 4.0]
    """
    return np.concatenate([context, [context @ weights["matrix"] @ response], response])


def compared(weights: Numbers, context: Floats, response: Floats) -> Floats:
    """Return InferSent's features: both vectors (the context's mapped), their distances and products by element.

    >>> compared({"matrix": np.eye(1)}, np.array([2.0]), np.array([3.0])).tolist()
    [2.0, 3.0, 1.0, 6.0]
    """
    mapped = weights["matrix"] @ context
    return np.concatenate([mapped, response, np.abs(mapped - response), mapped * response])


def read_words(weights: Numbers, name: str, words: Floats) -> Floats:
    """Return the states (words, width) of the recurrent network `name`, both directions side by side."""
    forward = _states(weights, name, "l0", words)
    if f"{name}.weight_ih_l0_reverse" not in weights:
        return forward
    return np.concatenate([forward, _states(weights, name, "l0_reverse", words[::-1])[::-1]], axis=1)


def read_text(weights: Numbers, name: str, words: Floats) -> Floats:
    """Return a text's vector: the largest number in each dimension of the states; one word of zeros stands for none."""
    given = directions(words) if len(words) else np.zeros((1, words.shape[1]), dtype=np.float32)
    largest: Floats = read_words(weights, name, given).max(axis=0)
    return largest


def _states(weights: Numbers, name: str, layer: str, words: Floats) -> Floats:
    """Return the states of a gated recurrent unit with torch's order of gates: reset, update, new."""
    of_state, bias = weights[f"{name}.weight_hh_{layer}"], weights[f"{name}.bias_hh_{layer}"]
    given = words @ weights[f"{name}.weight_ih_{layer}"].T + weights[f"{name}.bias_ih_{layer}"]
    width = of_state.shape[1]
    state = np.zeros(width, dtype=np.float32)
    states = np.empty((len(words), width), dtype=np.float32)
    for i, row in enumerate(given):
        recalled = of_state @ state + bias
        reset, update = np.split(sigmoid(row[: 2 * width] + recalled[: 2 * width]), 2)
        new = np.tanh(row[2 * width :] + reset * recalled[2 * width :])
        state = ((1 - update) * new + update * state).astype(np.float32)
        states[i] = state
    return states


def directions(words: Floats) -> Floats:
    """Return word vectors of length one, zeros for words that have none.

    A pack shortens the vectors of frequent words, for sums; a network that reads one word after the other needs them.

    >>> directions(np.array([[3.0, 4.0], [np.nan, np.nan]], dtype=np.float32)).round(2).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    known = np.nan_to_num(words)
    lengths = np.linalg.norm(known, axis=-1, keepdims=True)
    scaled: Floats = (known / np.where(lengths == 0, 1, lengths)).astype(np.float32)
    return scaled


KINDS.add(
    "weights",
    ModelKind(
        "weights",
        (Relate, Read),
        lambda pack, role: HeadModel(unpack_weights(pack.read(pack.manifest.role(role).file)), pack.fingerprint(role)),
    ),
    module=__name__,
)
