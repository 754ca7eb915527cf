"""The four kinds of model (and word tables): requests to rows of ids, results to answers, whatever the backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from turnwise.models.protocols import (
    Batch,
    CausalLM,
    Classifier,
    Classify,
    Continuation,
    Embed,
    Encoder,
    Floats,
    Lookup,
    MaskedLikelihood,
    MaskedLM,
    Pieces,
    Pooling,
    Row,
    TokenScores,
)
from turnwise.models.tokens import Tokens, rectangle

if TYPE_CHECKING:
    from tokenizers import Encoding

# Small batches waste least on padding and stay in the cache; more of them keep many cores busy (see Pack).
CPU_BUDGET = 512
# The groups of a masked language model's rows: their places are masked, or stay as they are.
MASKED, PLAIN = 0, 1


@dataclass
class EncoderModel:
    """Answers `Embed`."""

    network: Encoder
    tokens: Tokens
    fingerprint: str
    budget: int = CPU_BUDGET
    elsewhere: bool = False

    def rows(self, request: Embed) -> list[Row]:
        """One row; its places are the tokens that are not special."""
        encoding = self.tokens.encode(request.text, request.pair, request.window)
        ids = tuple(encoding.ids)
        places = tuple(i for i, token in enumerate(ids) if token not in self.tokens.special)
        return [Row(ids, tuple(encoding.type_ids), places, group=request.layer)]

    def run(self, rows: Sequence[Row]) -> list[Floats]:
        """The hidden states of each row, without padding."""
        hidden = self.network.hidden(_batch(rows), rows[0].group)
        return [states[: len(row.ids)] for states, row in zip(hidden, rows, strict=True)]

    def answer(self, request: Embed, rows: Sequence[Row], results: Sequence[Floats]) -> Floats | Pieces:
        """The pooled vector, or the tokens with theirs."""
        if request.pooling != "pieces":
            return pool(results[0], request.pooling, rows[0].places)
        name, template = self.tokens.tokenizer.id_to_token, set(self.tokens.encode("", None, None).ids)
        ids = rows[0].ids
        return Pieces(tuple(name(i) or "" for i in ids), tuple(i in template for i in ids), np.array(results[0]))


def pool(states: Floats, pooling: Pooling, places: Sequence[int]) -> Floats:
    """One vector of many: their mean, the first, their element-wise maximum; or those at `places`, unpooled.

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


@dataclass
class MaskedModel:
    """Answers `MaskedLikelihood`: one row per token with that token masked, or one row for all of them."""

    network: MaskedLM
    tokens: Tokens
    fingerprint: str
    budget: int = CPU_BUDGET
    elsewhere: bool = False

    def rows(self, request: MaskedLikelihood) -> list[Row]:
        """Rows of one text share its ids and are masked only when they run, so that a long text fits into memory."""
        encoding = self.tokens.encode(request.text, request.pair, request.window)
        ids, types = tuple(encoding.ids), tuple(encoding.type_ids)
        places = self._places(encoding, request.span)
        if request.masked:
            return [Row(ids, types, (place,), (ids[place],), group=MASKED) for place in places]
        wanted = tuple(ids[place] for place in places)
        return [Row(ids, types, places, wanted, group=PLAIN)] if places else []

    def _places(self, encoding: Encoding, span: tuple[int, int] | None) -> tuple[int, ...]:
        """The tokens that are asked for."""
        sequences, offsets = encoding.sequence_ids, encoding.offsets
        last = max((sequence for sequence in sequences if sequence is not None), default=0)

        def inside(place: int) -> bool:
            begin, end = offsets[place]
            return span is None or (sequences[place] == last and begin >= span[0] and end <= span[1])

        special = self.tokens.special
        return tuple(place for place, token in enumerate(encoding.ids) if token not in special and inside(place))

    def run(self, rows: Sequence[Row]) -> list[list[float]]:
        """The log-probabilities of the tokens at each row's places."""
        batch, sizes = _batch(rows), [len(row.places) for row in rows]
        numbers = np.repeat(np.arange(len(rows), dtype=np.int64), sizes)
        places, wanted = (
            np.fromiter(chain.from_iterable(values), np.int64, sum(sizes))
            for values in ((row.places for row in rows), (row.wanted for row in rows))
        )
        if rows[0].group == MASKED:
            batch.ids[numbers, places] = self.tokens.mask
        found = iter(self.network.log_probs(batch, numbers, places, wanted).tolist())
        return [list(islice(found, size)) for size in sizes]

    def answer(self, request: MaskedLikelihood, rows: Sequence[Row], results: Sequence[list[float]]) -> TokenScores:
        """The tokens and their log-probabilities, in the order of the text."""
        name = self.tokens.tokenizer.id_to_token
        tokens = tuple(name(token) or "" for row in rows for token in row.wanted)
        return TokenScores(tokens, tuple(chain.from_iterable(results)))


@dataclass
class CausalModel:
    """Answers `Continuation`. Rows with the same context share one reading of it."""

    network: CausalLM
    tokens: Tokens
    fingerprint: str
    budget: int = CPU_BUDGET
    elsewhere: bool = False

    def rows(self, request: Continuation) -> list[Row]:
        """One row that ends before the last response token: what is judged is always the next token."""
        encoding = self.tokens.plain(request.context + request.response)
        # A token that reaches over the seam belongs to the response, so none of the response goes unjudged.
        start = sum(end <= len(request.context) for _, end in encoding.offsets)
        context, response = encoding.ids[:start], encoding.ids[start:]
        window = request.window or self.tokens.window
        response = response[: window.second]
        bounds = [bound for bound in (window.total, self.tokens.limit) if bound is not None]
        room = min(bounds) - request.begin if bounds else len(context) + len(response)
        response = response[:room]
        kept = min(len(context), room - len(response), *([window.first] if window.first is not None else []))
        context = context[len(context) - kept :]
        if request.begin:
            context = [self.tokens.begin, *context]
        elif not context:
            context, response = response[:1], response[1:]
        if not response:
            return []
        return [Row((context[-1], *response[:-1]), wanted=tuple(response), prefix=tuple(context[:-1]))]

    def run(self, rows: Sequence[Row]) -> list[Floats]:
        """The log-probabilities of each row's wanted tokens."""
        prefixes = list(dict.fromkeys(row.prefix for row in rows))
        source = np.array([prefixes.index(row.prefix) for row in rows], dtype=np.int64)
        wanted = rectangle([row.wanted for row in rows]).ids
        found = self.network.log_probs(rectangle(prefixes), source, rectangle([row.ids for row in rows]), wanted)
        return [values[: len(row.wanted)] for values, row in zip(found, rows, strict=True)]

    def answer(self, request: Continuation, rows: Sequence[Row], results: Sequence[Floats]) -> TokenScores:
        """The response's tokens and their log-probabilities."""
        if not rows:
            return TokenScores((), ())
        name = self.tokens.tokenizer.id_to_token
        return TokenScores(tuple(name(token) or "" for token in rows[0].wanted), tuple(map(float, results[0])))


@dataclass
class ClassifierModel:
    """Answers `Classify`."""

    network: Classifier
    tokens: Tokens
    fingerprint: str
    budget: int = CPU_BUDGET
    elsewhere: bool = False

    def rows(self, request: Classify) -> list[Row]:
        """One row."""
        encoding = self.tokens.encode(request.text, request.pair, request.window)
        return [Row(tuple(encoding.ids), tuple(encoding.type_ids))]

    def run(self, rows: Sequence[Row]) -> list[npt.NDArray[np.float64]]:
        """The probabilities of each row's labels."""
        return list(softmax(self.network.logits(_batch(rows))))

    def answer(self, request: Classify, rows: Sequence[Row], results: Sequence[Any]) -> dict[str, float]:
        """Probabilities by label."""
        return dict(zip(self.network.labels, map(float, results[0]), strict=True))


def softmax(logits: Floats) -> npt.NDArray[np.float64]:
    """Probabilities in double precision, since good responses crowd together just below 1.

    >>> softmax(np.zeros((1, 2), dtype=np.float32)).tolist()
    [[0.5, 0.5]]
    """
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    probabilities: npt.NDArray[np.float64] = shifted / shifted.sum(axis=-1, keepdims=True)
    return probabilities


@dataclass
class Table:
    """Answers `Lookup` from rows of numbers by name; `missing` stands for a name that is not there."""

    values: Mapping[str, Mapping[str, int]]
    numbers: Mapping[str, Floats]
    missing: Mapping[str, float]
    fingerprint: str
    budget: int = CPU_BUDGET

    def rows(self, request: Lookup) -> list[Row]:
        """None: nothing has to run."""
        return []

    def run(self, rows: Sequence[Row]) -> list[Any]:
        """Never asked for."""
        return []

    def answer(self, request: Lookup, rows: Sequence[Row], results: Sequence[Any]) -> Floats:
        """One row of numbers per item, or one number where the table has only one."""
        names, numbers = self.values[request.unit], self.numbers[request.unit]
        found = np.full((len(request.items), *numbers.shape[1:]), self.missing[request.unit], dtype=np.float32)
        for i, item in enumerate(request.items):
            if (index := names.get(item)) is not None:
                found[i] = numbers[index]
        return found


def _batch(rows: Sequence[Row]) -> Batch:
    return rectangle([row.ids for row in rows], [row.types for row in rows])
