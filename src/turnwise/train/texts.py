"""Texts by number, and what a pack knows of each: its words as rows of a table of vectors, or one encoder's vector."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from turnwise.engine.answer import answer_requests
from turnwise.engine.cache import Cache
from turnwise.models.heads_numpy import CONTEXT_TURNS, CONTEXT_WORDS, LAYER, directions
from turnwise.models.pack import Pack
from turnwise.models.requests import Embed, Lookup
from turnwise.text.tokenise import plain_words

NOTHING = -1


class Texts:
    """Gives every text that is added a number, the same text the same one."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, texts: Iterable[str]) -> npt.NDArray[np.int64]:
        """The numbers of these texts."""
        return np.array([self._numbers.setdefault(text, len(self._numbers)) for text in texts], dtype=np.int64)

    def listed(self) -> list[str]:
        """All texts in the order of their numbers."""
        return list(self._numbers)

    def vectors(self, pack: Pack, cache: Cache | None) -> npt.NDArray[np.float32]:
        """The encoder's vector of every text."""
        requests = [Embed(text, layer=LAYER) for text in self.listed()]
        answers = answer_requests(requests, pack, cache=cache)
        return np.stack([np.asarray(answers[request], dtype=np.float32) for request in requests])

    def words(self, pack: Pack) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
        """Vectors of length one of all words that occur, and each text's last words as numbers of their rows."""
        split = [plain_words(text)[-CONTEXT_WORDS:] for text in self.listed()]
        names = {word: i for i, word in enumerate(dict.fromkeys(word for words in split for word in words))}
        request = Lookup(tuple(names))
        vectors = directions(np.asarray(answer_requests([request], pack)[request], dtype=np.float32))
        ids = np.full((len(split), CONTEXT_WORDS), NOTHING, dtype=np.int32)
        for row, words in zip(ids, split, strict=True):
            row[: len(words)] = [names[word] for word in words]
        return vectors, ids


def context_of(turns: Sequence[str]) -> str:
    """The part of a context that the baselines see, as one text."""
    return " ".join(turns[-CONTEXT_TURNS:])
