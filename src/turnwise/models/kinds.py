"""Sources of models, models, and the networks that they run.

A *network* takes and gives arrays, with one class per backend. A *model* turns requests into rows of token ids, and
results into answers; it is written once for all backends. A *source* holds models by role. A *kind* says how models
are opened and checked and how their answers are kept; kinds of installed packages come from the entry point group
`turnwise.models`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from turnwise.errors import TurnwiseError
from turnwise.models.requests import Facts, Floats, Ints, Pooling, Request, decode_answer, encode_answer
from turnwise.plugins import Registry

if TYPE_CHECKING:
    from turnwise.models.pack import Pack
    from turnwise.models.sources import Checkpoint

# Tokens of a batch: one core multiplies as fast as it can from about 128 on, and small batches waste least on padding.
CPU_BUDGET = 256
Later = Callable[[], Floats]


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One sequence for a network: ids after a shared prefix, and the places that are asked about.

    Rows of different `group` cannot run together; `wanted` holds the true ids at `places`.
    """

    ids: tuple[int, ...]
    types: tuple[int, ...] = ()
    places: tuple[int, ...] = ()
    wanted: tuple[int, ...] = ()
    prefix: tuple[int, ...] = ()
    group: int = 0


class Model(ABC):
    """Base of models: answers one kind of request.

    `fingerprint` names everything that its answers depend on, `budget` is the number of tokens in a batch, and
    `ahead` the number of batches to begin before the first is waited for. If `even`, the rows of a batch have prefixes
    of one length: padding between a prefix and its row would change the order of additions.
    """

    fingerprint: str
    budget: int = CPU_BUDGET
    ahead: int = 0
    even: bool = False

    def asks(self, request: Any) -> Sequence[Request]:
        """Return the requests whose answers it needs first, for requests for which no network runs."""
        return ()

    def read_ahead(self, requests: Iterable[Any]) -> None:  # noqa: B027 - most models need no preparation
        """Prepare for requests whose rows are about to be asked for."""

    def rows(self, request: Any) -> list[TokenRow]:
        """Return the sequences that have to run to answer a request; possibly none."""
        return []

    def begin(self, rows: Sequence[TokenRow]) -> Callable[[], list[Any]]:
        """Start on rows of one group, and return a function that waits for their results."""
        return partial(self.run, rows)

    def run(self, rows: Sequence[TokenRow]) -> list[Any]:
        """Return one result per row; all rows are of one group."""
        return []

    @abstractmethod
    def answer(self, request: Any, rows: Sequence[TokenRow], results: Sequence[Any]) -> Any:
        """Return the answer, from the results of the request's rows, or from the answers that it `asks` for."""


class ModelSource(ABC):
    """Base of what holds models by role: a pack, a folder of checkpoints, names on a hub."""

    name = "models"

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the roles that it has a model for."""
        return ()

    @abstractmethod
    def model(self, role: str) -> Model:
        """Return the model of a role, opened when first asked for."""

    def label(self, roles: Iterable[str]) -> str:
        """Return a name for the models of these roles, so that scores can say what made them."""
        prints = "".join(map(self.fingerprint, sorted(roles)))
        return f"{self.name}#{hashlib.sha256(prints.encode()).hexdigest()[:8]}"

    def fingerprint(self, role: str) -> str:
        """Return the fingerprint of the model of a role, without opening it if the source can."""
        return self.model(role).fingerprint

    def open_together(self, roles: Iterable[str]) -> None:  # noqa: B027 - one after the other is a good default
        """Open the models of all these roles, if that takes less time than one after the other."""


@dataclass(frozen=True)
class ModelKind:
    """A kind of model: the requests that it answers, how it is opened, and how its answers are kept.

    `open_onnx` gets a pack and a role of it, `open_torch` a checkpoint; a kind may have one of them only. `probe` makes
    the request that checks a role of this name. `encode_answer` gives an answer as JSON facts and an array of numbers.
    In a folder of checkpoints the kind is told by its `architectures`, the ends of the names in config.json. Its role
    there is the kind's name, or the folder's name if that is one of `folders`.
    """

    name: str
    request: type[Request] | tuple[type[Request], ...]
    open_onnx: Callable[[Pack, str], Model] | None = None
    open_torch: Callable[[Checkpoint], Model] | None = None
    probe: Callable[[str], Request] | None = None
    encode_answer: Callable[[Any], tuple[Facts, npt.NDArray[Any]]] = encode_answer
    decode_answer: Callable[[Facts, npt.NDArray[Any]], Any] = decode_answer
    architectures: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def _checked(name: str, kind: object) -> ModelKind:
    if not isinstance(kind, ModelKind) or kind.name != name:
        raise TurnwiseError(f"model kind '{name}': expected a ModelKind of this name, got {kind!r}")
    return kind


KINDS = Registry[ModelKind](
    "model kind",
    "turnwise.models",
    modules=("turnwise.models.text", "turnwise.models.vectors", "turnwise.models.heads", "turnwise.models.maude"),
    adapt=_checked,
)


def kind_of(request: Request) -> ModelKind:
    """Return the kind of model that answers a request."""
    of: Any = type(request)
    return _kind_for(of)


@lru_cache
def _kind_for(of: type) -> ModelKind:
    # Plugins are looked at only for a request that is not turnwise's own.
    for own in (True, False):
        for _name, kind in KINDS.items(own=own):  # noqa: PERF102 - a registry has no values()
            if issubclass(of, kind.request):
                return kind
    raise TurnwiseError(f"request {of.__name__}: expected a model kind that answers it, got none. Fix: register one")


@dataclass(frozen=True, slots=True)
class Batch:
    """Token ids, filled up on the right; `mask` is 1 where there is a token."""

    ids: Ints
    mask: Ints
    types: Ints


# Of every pair of methods, `begin_...` and the one that waits, a network defines one.


class Encoder(ABC):
    """Embeds text."""

    @property
    @abstractmethod
    def layers(self) -> int:
        """Return how many layers can be asked for, the embeddings of the words included."""

    def hidden(self, batch: Batch, layer: int) -> Floats:
        """Return the states (rows, tokens, width) of a layer, counted as Python counts: -1 is the last."""
        return self.begin_hidden(batch, layer)()

    def begin_hidden(self, batch: Batch, layer: int) -> Later:
        """Begin `hidden`, and return a function that waits for it."""
        found = self.hidden(batch, layer)
        return lambda: found

    def hidden_layers(self, batch: Batch, layers: Sequence[int]) -> list[Floats]:
        """Return the states of several layers."""
        return [self.hidden(batch, layer) for layer in layers]

    def pooled_layers(self, batch: Batch, layers: Sequence[int], pooling: Pooling) -> list[Floats]:
        """Return one vector per row for each of several layers."""
        lengths = batch.mask.sum(axis=1).tolist()
        return [
            np.stack([pool(states[:length], pooling, ()) for states, length in zip(layer, lengths, strict=True)])
            for layer in self.hidden_layers(batch, layers)
        ]


class MaskedLM:
    """Judges tokens at places, masked or not."""

    def log_probs(self, batch: Batch, rows: Ints, places: Ints, wanted: Ints) -> Floats:
        """Return the log-probability of each wanted id at its row and place; rows come in order."""
        return self.begin_log_probs(batch, rows, places, wanted)()

    def begin_log_probs(self, batch: Batch, rows: Ints, places: Ints, wanted: Ints) -> Later:
        """Begin `log_probs`, and return a function that waits for it."""
        found = self.log_probs(batch, rows, places, wanted)
        return lambda: found


class CausalLM(ABC):
    """Judges tokens by those before them."""

    def log_probs(self, prefixes: Batch, source: Ints, batch: Batch, wanted: Ints) -> Floats:
        """Return the log-probability (rows, tokens) of each wanted id after the tokens up to there.

        Row i of `batch` continues prefix `source[i]`, so a prefix that many rows share is read once.
        """
        return self.begin_log_probs(prefixes, source, batch, wanted)()

    def begin_log_probs(self, prefixes: Batch, source: Ints, batch: Batch, wanted: Ints) -> Later:
        """Begin `log_probs`, and return a function that waits for it."""
        found = self.log_probs(prefixes, source, batch, wanted)
        return lambda: found

    @abstractmethod
    def advance(self, ids: Ints, past: Any) -> tuple[Floats, Any]:
        """Read on: return logits (rows, words) of the token after these, and the state up to there.

        Rows are equally long. `past` is None at the start of a text, and is used up.
        """

    @abstractmethod
    def select(self, past: Any, rows: Ints) -> Any:
        """Return the state of these rows, in this order; a row may come several times."""


class Classifier:
    """Assigns labels."""

    labels: tuple[str, ...]

    def logits(self, batch: Batch) -> Floats:
        """Return the unnormalised log-probabilities (rows, labels)."""
        return self.begin_logits(batch)()

    def begin_logits(self, batch: Batch) -> Later:
        """Begin `logits`, and return a function that waits for it."""
        found = self.logits(batch)
        return lambda: found


def pool(states: Floats, pooling: Pooling, places: Sequence[int]) -> Floats:
    """Return one vector of many: their mean, the first, their element-wise maximum; or those at `places`, unpooled.

    >>> pool(np.array([[0, 4], [2, 0]], dtype=np.float32), "max", ()).tolist()
    [2.0, 4.0]
    """
    if pooling == "tokens":
        return np.ascontiguousarray(states[list(places)])
    if pooling == "cls":
        return np.array(states[0])
    pooled: Floats = (
        states.max(axis=0) if pooling == "max" else states.mean(axis=0, dtype=np.float64).astype(np.float32)
    )
    return pooled
