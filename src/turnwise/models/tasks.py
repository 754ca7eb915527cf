"""The four kinds of model: requests to rows of ids, results to answers, whatever the backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    MaskedLikelihood,
    MaskedLM,
    Pieces,
    Pooling,
    Row,
    TokenScores,
)
from turnwise.models.text_model import CPU_BUDGET as CPU_BUDGET
from turnwise.models.text_model import TextModel
from turnwise.models.tokens import rectangle

if TYPE_CHECKING:
    from tokenizers import Encoding

_NOTHING = TokenScores((), ())
# The groups of a masked language model's rows: their places are masked, or stay as they are.
MASKED, PLAIN = 0, 1


@dataclass
class EncoderModel(TextModel):
    """Answers `Embed`."""

    network: Encoder

    def rows(self, request: Embed) -> list[Row]:
        """One row; its places are the tokens that are not special."""
        encoding = self.tokens.encode(request.text, request.pair, request.window)
        ids = tuple(encoding.ids)
        places = tuple(i for i, token in enumerate(ids) if token not in self.tokens.special)
        return [Row(ids, tuple(encoding.type_ids), places, group=self._layer(request.layer))]

    def _layer(self, asked: int | tuple[int, ...]) -> int:
        if isinstance(asked, int):
            return asked
        count = self.network.layers
        # The embeddings of words, layer 0, know nothing of their neighbours: whoever offers a choice is not after them.
        return next((layer for layer in asked if 0 < (layer if layer >= 0 else count + layer) < count), asked[-1])

    def _start(self, rows: Sequence[Row]) -> Callable[[], list[Any]]:
        """The hidden states of each row, without padding."""
        hidden = self._later("hidden", _batch(rows), rows[0].group)
        return lambda: [states[: len(row.ids)] for states, row in zip(hidden(), rows, strict=True)]

    def answer(self, request: Embed, rows: Sequence[Row], results: Sequence[Floats]) -> Floats | Pieces:
        """The pooled vector, or the tokens with theirs."""
        if request.pooling != "pieces":
            return pool(results[0], request.pooling, rows[0].places)
        template, ids = set(self.tokens.encode("", None, None).ids), rows[0].ids
        return Pieces(tuple(map(self.tokens.name, ids)), tuple(i in template for i in ids), np.array(results[0]))


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
class MaskedModel(TextModel):
    """Answers `MaskedLikelihood`: one row per token with that token masked, or one row for all of them."""

    network: MaskedLM

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
            # A text that lost its opening special token has its first one in that one's place.
            if place == 0 and begin > 0:
                return False
            return span is None or (sequences[place] == last and begin >= span[0] and end <= span[1])

        special = self.tokens.special
        return tuple(place for place, token in enumerate(encoding.ids) if token not in special and inside(place))

    def _start(self, rows: Sequence[Row]) -> Callable[[], list[Any]]:
        """The log-probabilities of the tokens at each row's places."""
        batch, sizes = _batch(rows), [len(row.places) for row in rows]
        numbers = np.repeat(np.arange(len(rows), dtype=np.int64), sizes)
        places, wanted = (
            np.fromiter(chain.from_iterable(values), np.int64, sum(sizes))
            for values in ((row.places for row in rows), (row.wanted for row in rows))
        )
        if rows[0].group == MASKED:
            batch.ids[numbers, places] = self.tokens.mask
        found = self._later("log_probs", batch, numbers, places, wanted)

        def results() -> list[Any]:
            values = iter(found().tolist())
            return [list(islice(values, size)) for size in sizes]

        return results

    def answer(self, request: MaskedLikelihood, rows: Sequence[Row], results: Sequence[list[float]]) -> TokenScores:
        """The tokens and their log-probabilities, in the order of the text."""
        tokens = map(self.tokens.name, chain.from_iterable(row.wanted for row in rows))
        return TokenScores(tuple(tokens), tuple(chain.from_iterable(results)))


@dataclass
class CausalModel(TextModel):
    """Answers `Continuation`. Rows with the same context share one reading of it."""

    network: CausalLM

    def read_ahead(self, requests: Iterable[Continuation]) -> None:
        """Read the texts of requests whose rows are about to be asked for."""
        self.tokens.read_ahead(request.context + request.response for request in requests)

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

    def _start(self, rows: Sequence[Row]) -> Callable[[], list[Any]]:
        """The log-probabilities of each row's wanted tokens."""
        places: dict[tuple[int, ...], int] = {}
        source = np.array([places.setdefault(row.prefix, len(places)) for row in rows], dtype=np.int64)
        ids, wanted = (rectangle(each) for each in ([row.ids for row in rows], [row.wanted for row in rows]))
        found = self._later("log_probs", rectangle(list(places)), source, ids, wanted.ids)
        return lambda: [values[: len(row.wanted)].tolist() for values, row in zip(found(), rows, strict=True)]

    def answer(self, request: Continuation, rows: Sequence[Row], results: Sequence[list[float]]) -> TokenScores:
        """The response's tokens and their log-probabilities."""
        return TokenScores(tuple(map(self.tokens.name, rows[0].wanted)), tuple(results[0])) if rows else _NOTHING


@dataclass
class ClassifierModel(TextModel):
    """Answers `Classify`."""

    network: Classifier

    def rows(self, request: Classify) -> list[Row]:
        """One row."""
        encoding = self.tokens.encode(request.text, request.pair, request.window)
        return [Row(tuple(encoding.ids), tuple(encoding.type_ids))]

    def _start(self, rows: Sequence[Row]) -> Callable[[], list[Any]]:
        """The probabilities of each row's labels."""
        logits = self._later("logits", _batch(rows))
        return lambda: softmax(logits()).tolist()

    def answer(self, request: Classify, rows: Sequence[Row], results: Sequence[Any]) -> dict[str, float]:
        """Probabilities by label."""
        return dict(zip(self.network.labels, results[0], strict=True))


def softmax(logits: Floats) -> npt.NDArray[np.float64]:
    """Probabilities in double precision, since good responses crowd together just below 1.

    >>> softmax(np.zeros((1, 2), dtype=np.float32)).tolist()
    [[0.5, 0.5]]
    """
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    probabilities: npt.NDArray[np.float64] = shifted / shifted.sum(axis=-1, keepdims=True)
    return probabilities


def _batch(rows: Sequence[Row]) -> Batch:
    return rectangle([row.ids for row in rows], [row.types for row in rows])
