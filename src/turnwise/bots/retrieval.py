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
from turnwise.models.protocols import Embed
from turnwise.text.facts import TfIdf

if TYPE_CHECKING:
    from turnwise.engine.local import Ask

# A dual encoder reads this many turns; the last ones say what is talked about.
TURNS = 2


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and what was answered."""

    query: str
    response: str


def _allowed(pairs: Sequence[Pair], prompt: Prompt) -> npt.NDArray[np.bool_]:
    """Which responses may be given: not those that are known to be true here, however they are spelt."""
    hidden = {_plain(text) for text in prompt.hidden}
    return np.array([_plain(pair.response) not in hidden for pair in pairs], dtype=np.bool_)


def _plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


def _best(scores: npt.NDArray[np.floating], pairs: Sequence[Pair], prompt: Prompt) -> str:
    allowed = _allowed(pairs, prompt)
    if not allowed.any():
        raise TurnwiseError("the bot's corpus has no response but the true one; give it another with corpus=FILE")
    return pairs[int(np.where(allowed, scores, -np.inf).argmax())].response


class TfIdfBot:
    """Answers as the query that shares most of the rare words of this one was answered."""

    name = "tfidf"

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._pairs = _checked(pairs)
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
        return _best(scores, self._pairs, prompt)

    def close(self) -> None:
        """See `Bot`; there is nothing to give back."""


class DualEncoderBot:
    """Answers with the response whose vector is closest to that of the context."""

    name = "dual-encoder"

    def __init__(self, pairs: Sequence[Pair], ask: Ask) -> None:
        self._pairs, self._ask = _checked(pairs), ask
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
        return _best(self._vectors @ asked, self._pairs, prompt)

    def close(self) -> None:
        """See `Bot`; there is nothing to give back."""


def _checked(pairs: Sequence[Pair]) -> Sequence[Pair]:
    if not pairs:
        raise TurnwiseError("the bot's corpus has no row with a context and a response; give another with corpus=FILE")
    return pairs
