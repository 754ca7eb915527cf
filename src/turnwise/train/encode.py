"""Texts into token ids: pairs for classifiers, masked sequences for masked language models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from turnwise.errors import TurnwiseError
from turnwise.text.inputs import SEPARATOR

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Ids = npt.NDArray[np.int64]
IGNORED = -100


@dataclass(frozen=True, slots=True)
class Sequences:
    """Token ids and segment ids, one list per example, not yet padded."""

    ids: list[list[int]]
    segments: list[list[int]]


class EncodePairs(Protocol):
    """Pairs of texts into ids; A, which may be missing, keeps its end and B its beginning."""

    pad: int

    def __call__(self, first: Sequence[str | None], second: Sequence[str]) -> Sequences:
        """Encode many pairs at once."""


class PairEncoder:
    """`[CLS] A [SEP] B [SEP]`, or `[CLS] B [SEP]` without A. A keeps its end and B its beginning."""

    def __init__(self, tokenizer: Path | str, first_tokens: int, second_tokens: int) -> None:
        from tokenizers import Tokenizer

        self.tokenizer: Tokenizer = Tokenizer.from_file(str(tokenizer))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.first_tokens, self.second_tokens = first_tokens, second_tokens
        self.cls, self.sep, self.mask, self.pad = map(self._special, ("[CLS]", "[SEP]", "[MASK]", "[PAD]"))

    def _special(self, token: str) -> int:
        index = self.tokenizer.token_to_id(token)
        if index is None:
            raise TurnwiseError(f"the tokenizer of the model to start from has no {token}; start from a BERT model")
        return int(index)

    def __call__(self, first: Sequence[str | None], second: Sequence[str]) -> Sequences:
        """Encode many pairs at once."""
        tokens_of = _ids(self.tokenizer, [text or "" for text in first]), _ids(self.tokenizer, second)
        ids, segments = [], []
        for a, b in zip(*tokens_of, strict=True):
            head = [self.cls, *a[-self.first_tokens :], self.sep] if a else [self.cls]
            tail = [*b[: self.second_tokens], self.sep]
            ids.append(head + tail)
            segments.append([0] * len(head) + [1 if a else 0] * len(tail))
        return Sequences(ids, segments)


class LinesEncoder:
    """`<start>A\\nB<end>` for a causal model, the turns of A on lines of their own; segment 1 is B with its end.

    Only those positions have read everything, so only they are worth asking.
    """

    def __init__(self, tokenizer: Path | str, start: int, end: int, first_tokens: int, second_tokens: int) -> None:
        from tokenizers import Tokenizer

        self._tokenizer: Tokenizer = Tokenizer.from_file(str(tokenizer))
        self._start, self._end, self.pad = start, end, end
        self._first_tokens, self._second_tokens = first_tokens, second_tokens

    def __call__(self, first: Sequence[str | None], second: Sequence[str]) -> Sequences:
        """Encode many pairs at once."""
        before = [text.replace(SEPARATOR, "\n") + "\n" if text else "" for text in first]
        ids, segments = [], []
        for a, b in zip(_ids(self._tokenizer, before), _ids(self._tokenizer, second), strict=True):
            head = [self._start, *a[-self._first_tokens :]]
            tail = [*b[: self._second_tokens], self._end]
            ids.append(head + tail)
            segments.append([0] * len(head) + [1] * len(tail))
        return Sequences(ids, segments)


def _ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [e.ids for e in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]


def pad(rows: Sequence[Sequence[int]], value: int) -> Ids:
    """Return a rectangle of ids, filled up on the right.

    >>> pad([[1, 2], [3]], 0).tolist()
    [[1, 2], [3, 0]]
    """
    width = max(map(len, rows))
    filled = np.full((len(rows), width), value, dtype=np.int64)
    for row, ids in zip(filled, rows, strict=True):
        row[: len(ids)] = ids
    return filled


def mask_tokens(
    ids: Sequence[int], special: frozenset[int], mask: int, vocabulary: int, rng: Random, share: float = 0.15
) -> tuple[list[int], list[int]]:
    """Return corrupt as BERT does: of a share of the tokens, 80 % become the mask, 10 % another token, 10 % stay.

    Returns the corrupted ids and the targets, which are `IGNORED` wherever nothing is to be predicted. At
    least one token is always chosen if there is one.
    """
    open_places = [place for place, token in enumerate(ids) if token not in special]
    chosen = [place for place in open_places if rng.random() < share]
    if open_places and not chosen:
        chosen = [rng.choice(open_places)]
    corrupted, targets = list(ids), [IGNORED] * len(ids)
    for place in chosen:
        targets[place] = ids[place]
        luck = rng.random()
        if luck < 0.8:
            corrupted[place] = mask
        elif luck < 0.9:
            corrupted[place] = rng.randrange(vocabulary)
    return corrupted, targets
