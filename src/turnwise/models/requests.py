"""Requests, which metrics build and models answer, and the forms of the answers.

Metrics have no access to models. Requests are frozen, hashable and made of plain values, so that equal ones are
answered once and answers can be cached by content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
# The JSON part of an answer, beside its numbers.
Facts = Mapping[str, Any]
Pooling = Literal["mean", "cls", "max", "tokens", "pieces"]


@dataclass(frozen=True, slots=True)
class Window:
    """Limits on the tokens of a text; None is no limit but the model's own.

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


class Request:
    """Base of every request: a frozen dataclass of plain values, whose `role` names the model that answers it.

    `key` and the field names are part of the cache's keys: never change them. With `runs = False` no network runs for
    it: its answer is looked up, or computed from the answers of other requests, and is not kept in the cache.
    """

    __slots__ = ()
    key: ClassVar[str]
    runs: ClassVar[bool] = True
    role: str


@dataclass(frozen=True, slots=True)
class Embed(Request):
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
class MaskedLikelihood(Request):
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
class Continuation(Request):
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
class Classify(Request):
    """The probability of each label for a text, or for a pair of texts."""

    key: ClassVar[str] = "Classify"
    text: str
    pair: str | None = None
    window: Window | None = None
    role: str = "nup"


@dataclass(frozen=True, slots=True)
class Lookup(Request):
    """Static facts about words: vectors (a row of NaN for an unknown word) or unigram log-probabilities.

    `unit` says what the items are: words, or tokens of the masked language model.
    """

    key: ClassVar[str] = "Lookup"
    runs: ClassVar[bool] = False
    items: tuple[str, ...]
    unit: Literal["word", "token"] = "word"
    role: str = "vectors"


@dataclass(frozen=True, slots=True)
class Converse(Request):
    """The probability that a response comes next in a conversation, by label."""

    key: ClassVar[str] = "Converse"
    turns: tuple[str, ...]
    response: str
    role: str = "maude"


@dataclass(frozen=True, slots=True)
class Relate(Request):
    """How a response relates to a context, by a small network over the vectors of both: a `Relation`."""

    key: ClassVar[str] = "Relate"
    runs: ClassVar[bool] = False
    context: str
    response: str
    role: str


@dataclass(frozen=True, slots=True)
class Read(Request):
    """The vector of a text that small networks read word by word: one after the other, side by side."""

    key: ClassVar[str] = "Read"
    runs: ClassVar[bool] = False
    text: str
    networks: tuple[str, ...]
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


@dataclass(frozen=True, slots=True)
class Relation:
    """The probability that a response belongs to a context.

    `bounds` are the cosines with a reference between which most responses lay when the network was trained.
    """

    probability: float
    bounds: tuple[float, float] = (0.0, 1.0)


Answer = npt.NDArray[Any] | TokenScores | Pieces | Relation | Mapping[str, float]


def encode_answer(answer: Answer) -> tuple[Facts, npt.NDArray[Any]]:
    """Return the JSON part of an answer, and its numbers."""
    if isinstance(answer, TokenScores):
        return {"kind": "tokens", "names": answer.tokens}, np.array(answer.log_probs, dtype="<f8")
    if isinstance(answer, Pieces):
        facts = {"kind": "pieces", "names": answer.tokens, "added": answer.added}
        return facts, np.ascontiguousarray(answer.vectors)
    if isinstance(answer, Relation):
        return {"kind": "relation", "bounds": answer.bounds}, np.array([answer.probability])
    if isinstance(answer, Mapping):
        return {"kind": "labels", "names": list(answer)}, np.array(list(answer.values()), dtype="<f8")
    return {"kind": "array"}, np.ascontiguousarray(answer)


def decode_answer(facts: Facts, numbers: npt.NDArray[Any]) -> Answer:
    """Return the answer that `encode_answer` split."""
    if facts["kind"] == "tokens":
        return TokenScores(tuple(facts["names"]), tuple(numbers.tolist()))
    if facts["kind"] == "pieces":
        return Pieces(tuple(facts["names"]), tuple(facts["added"]), numbers.copy())
    if facts["kind"] == "relation":
        low, high = facts["bounds"]
        return Relation(float(numbers[0]), (low, high))
    if facts["kind"] == "labels":
        return dict(zip(facts["names"], numbers.tolist(), strict=True))
    return numbers.copy()
