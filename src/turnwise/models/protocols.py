"""The questions that metrics put to models, and what a model must be able to do to answer them.

A metric builds requests; it never sees a model. Requests are frozen, hashable and made of plain values, so that
equal ones are answered once and answers can be cached by content; `key` and the field names are part of the cache's
keys and outlive every renaming. Two layers answer them: a *network* (one of the
four protocols below, arrays in and arrays out, one class per backend) and a *model* that turns requests into rows
of token ids and results into answers, written once for all backends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Pooling = Literal["mean", "cls", "max", "tokens", "pieces"]


@dataclass(frozen=True, slots=True)
class Window:
    """How much of a text a model sees, in tokens; None is no limit but the model's own.

    `first` and `second` bound the two texts of a pair (a text without a partner is bounded as the second is),
    `total` bounds everything with its special tokens, cutting the longer text first. The first text loses its
    beginning if `keep` is "end", the second always loses its end. If `keep` is "last", a text without a partner keeps
    the last `total` tokens of all, so that one that is too long loses its opening special token too.

    With `together`, `first` and `second` hold only where the two texts are longer than both bounds together, and
    what `total` then still cuts are ends.
    """

    total: int | None = None
    first: int | None = None
    second: int | None = None
    keep: Literal["start", "end", "last"] = "end"
    together: bool = False

    @property
    def key(self) -> str:
        """Name this window in the fingerprints of models. Packs and caches hold this text: never change it."""
        facts = f"total={self.total}, first={self.first}, second={self.second}, keep={self.keep!r}"
        return f"Window({facts})"


WHOLE = Window()


@dataclass(frozen=True, slots=True)
class Embed:
    """The vector of a text or a pair; `tokens` gives one vector per token, without the special ones.

    `pieces` gives `Pieces`: the tokens themselves too, and those that the model's template adds. Of several layers the
    first that the encoder has is read.
    """

    key: ClassVar[str] = "Embed"
    text: str
    pair: str | None = None
    pooling: Pooling = "mean"
    layer: int | tuple[int, ...] = -1
    window: Window | None = None
    role: str = "encoder"


@dataclass(frozen=True, slots=True)
class MaskedLikelihood:
    """How likely each token is when it alone is masked.

    `span` keeps to the tokens within these characters of the last text (the pair's second, or the only one);
    without it every token that is not special is asked for. `masked=False` reads all of them off one pass over the
    text as it is: an approximation, since each token then sees itself.
    """

    key: ClassVar[str] = "MaskedLikelihood"
    text: str
    pair: str | None = None
    span: tuple[int, int] | None = None
    window: Window | None = None
    masked: bool = True
    role: str = "masked-lm"


@dataclass(frozen=True, slots=True)
class Continuation:
    """How likely each token of the response is after the context; the two are joined as they are.

    Without a context the first token is judged after the begin-of-text token if `begin` is true, and not at
    all otherwise. `begin` also puts that token in front of a context.
    """

    key: ClassVar[str] = "Continuation"
    context: str
    response: str
    begin: bool = True
    window: Window | None = None
    role: str = "causal-lm"


@dataclass(frozen=True, slots=True)
class Classify:
    """The probability of each label for a text, or for a pair of texts."""

    key: ClassVar[str] = "Classify"
    text: str
    pair: str | None = None
    window: Window | None = None
    role: str = "nup"


@dataclass(frozen=True, slots=True)
class Lookup:
    """Static facts about words: vectors (a row of NaN for an unknown word) or unigram log-probabilities.

    `unit` says what the items are: words, or tokens of the masked language model.
    """

    key: ClassVar[str] = "Lookup"
    items: tuple[str, ...]
    unit: Literal["word", "token"] = "word"
    role: str = "vectors"


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a small network, by name: its metric works them out on vectors that other roles give.

    So every such metric shares the encoder's answers, and a network of a few thousand numbers needs no runtime.
    """

    key: ClassVar[str] = "Weights"
    role: str


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Tokens as the model spells them, and their log-probabilities (natural logarithm)."""

    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """All tokens of a text as the model spells them, which of them its template added, and a vector for each."""

    tokens: tuple[str, ...]
    added: tuple[bool, ...]
    vectors: Floats


Request = Embed | MaskedLikelihood | Continuation | Classify | Lookup | Weights
Answer = npt.NDArray[Any] | TokenScores | Pieces | Mapping[str, float] | Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence for a network: ids after a shared prefix, and the places that are asked about.

    Rows of different `group` cannot run together; `wanted` holds the true ids at `places`.
    """

    ids: tuple[int, ...]
    types: tuple[int, ...] = ()
    places: tuple[int, ...] = ()
    wanted: tuple[int, ...] = ()
    prefix: tuple[int, ...] = ()
    group: int = 0


class Model(Protocol):
    """Answers one kind of request. `fingerprint` names everything that its answers depend on."""

    fingerprint: str
    budget: int

    def rows(self, request: Any) -> list[Row]:
        """The sequences that have to run to answer a request; possibly none."""

    def run(self, rows: Sequence[Row]) -> list[Any]:
        """One result per row; all rows are of one group."""

    def answer(self, request: Any, rows: Sequence[Row], results: Sequence[Any]) -> Answer:
        """The answer, from the results of the request's rows."""


class ModelSource(Protocol):
    """Where models come from: a pack, or names on a hub."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that it has a model for."""

    def model(self, role: str) -> Model:
        """The model of a role, opened when first asked for."""

    def label(self, roles: Iterable[str]) -> str:
        """A name for what answers for these roles, so that scores can say what made them."""


@runtime_checkable
class ReadySource(Protocol):
    """A source that knows its models before they are opened, and opens several at a time."""

    def fingerprint(self, role: str) -> str:
        """What the model of a role will call itself."""

    def open_together(self, roles: Iterable[str]) -> None:
        """Open the models of all these roles."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Token ids, filled up on the right; `mask` is 1 where there is a token."""

    ids: Ints
    mask: Ints
    types: Ints


class Encoder(Protocol):
    """Embeds text."""

    @property
    def layers(self) -> int:
        """How many layers can be asked for, the embeddings of the words included."""

    def hidden(self, batch: Batch, layer: int) -> Floats:
        """Hidden states (rows, tokens, width) of a layer, counted as Python counts: -1 is the last."""


class MaskedLM(Protocol):
    """Judges tokens at places, masked or not."""

    def log_probs(self, batch: Batch, rows: Ints, places: Ints, wanted: Ints) -> Floats:
        """The log-probability of each wanted id at its row and place; rows come in order."""


class CausalLM(Protocol):
    """Judges tokens by those before them."""

    def log_probs(self, prefixes: Batch, source: Ints, batch: Batch, wanted: Ints) -> Floats:
        """The log-probability (rows, tokens) of each wanted id after the tokens up to there.

        Row i of `batch` continues prefix `source[i]`, so a prefix that many rows share is read once.
        """

    def advance(self, ids: Ints, past: Any) -> tuple[Floats, Any]:
        """Read on: logits (rows, words) of the token after these, and what is remembered up to there.

        Rows are equally long. `past` is None at the start of a text, and is used up.
        """

    def select(self, past: Any, rows: Ints) -> Any:
        """What is remembered of these rows, in this order; a row may come several times."""


class Classifier(Protocol):
    """Assigns labels."""

    labels: tuple[str, ...]

    def logits(self, batch: Batch) -> Floats:
        """The unnormalised log-probabilities (rows, labels)."""
