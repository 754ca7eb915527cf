"""Bots that answer with what somebody once said: by the words of the query, or by the meaning of the response."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from turnwise.bots.base import Prompt
from turnwise.errors import TurnwiseError
from turnwise.models.requests import Embed
from turnwise.text.facts import TfIdf

if TYPE_CHECKING:
    from turnwise.engine.score import Ask

# A dual encoder reads this many turns; the last ones say what is talked about.
TURNS = 2


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and what was answered."""

    query: str
    response: str


def _plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


class _Responses:
    """What may be answered; where each response is, however it is spelt, is found out once and not at every prompt."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._pairs = pairs
        self._places: dict[str, list[int]] = defaultdict(list)
        for place, pair in enumerate(pairs):
            self._places[_plain(pair.response)].append(place)

    def best(self, scores: npt.NDArray[np.floating], prompt: Prompt) -> str:
        """The response with the highest score that is not known to be true here."""
        allowed = np.ones(len(self._pairs), dtype=np.bool_)
        for text in prompt.hidden:
            allowed[self._places.get(_plain(text), [])] = False
        if not allowed.any():
            raise TurnwiseError("the bot's corpus has no response but the true one; give it another with corpus=FILE")
        return self._pairs[int(np.where(allowed, scores, -np.inf).argmax())].response


class TfIdfBot:
    """Answers as the query that shares most of the rare words of this one was answered."""

    name = "tfidf"

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._pairs = _checked(pairs)
        self._responses = _Responses(pairs)
        self._tfidf = TfIdf(pair.query for pair in pairs)
        self._places: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for place, pair in enumerate(pairs):
            for word, weight in self._tfidf.vector(pair.query).items():
                self._places[word].append((place, weight))

    def reply(self, prompt: Prompt) -> str:
        """See `Bot`."""
        scores = np.zeros(len(self._pairs))
        for word, weight in self._tfidf.vector(prompt.context[-1]).items():
            for place, other in self._places.get(word, ()):
                scores[place] += weight * other
        return self._responses.best(scores, prompt)

    def close(self) -> None:
        """See `Bot`; there is nothing to give back."""


class DualEncoderBot:
    """Answers with the response whose vector is closest to that of the context."""

    name = "dual-encoder"

    def __init__(self, pairs: Sequence[Pair], ask: Ask) -> None:
        self._pairs, self._ask = _checked(pairs), ask
        self._responses = _Responses(pairs)
        self._vectors: npt.NDArray[np.float64] | None = None

    def _embed(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        requests = [Embed(text) for text in texts]
        answers = self._ask(requests)
        vectors = np.array([answers[request] for request in requests], dtype=np.float64)
        units: npt.NDArray[np.float64] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return units

    def reply(self, prompt: Prompt) -> str:
        """See `Bot`."""
        if self._vectors is None:
            self._vectors = self._embed([pair.response for pair in self._pairs])
        (asked,) = self._embed([" ".join(prompt.context[-TURNS:])])
        return self._responses.best(self._vectors @ asked, prompt)

    def close(self) -> None:
        """See `Bot`; there is nothing to give back."""


def _checked(pairs: Sequence[Pair]) -> Sequence[Pair]:
    if not pairs:
        raise TurnwiseError("the bot's corpus has no row with a context and a response; give another with corpus=FILE")
    return pairs
