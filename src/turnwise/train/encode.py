"""Texts into token ids: pairs for classifiers, masked sequences for masked language models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

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


class EncodePairs:
    """Pairs of texts as ids; A, which may be missing, keeps its end and B its beginning."""

    pad: int

    def __init__(self, tokenizer: Path | str, first_tokens: int, second_tokens: int) -> None:
        from tokenizers import Tokenizer

        self.tokenizer: Tokenizer = Tokenizer.from_file(str(tokenizer))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.first_tokens, self.second_tokens = first_tokens, second_tokens

    def __call__(self, first: Sequence[str | None], second: Sequence[str]) -> Sequences:
        """Encode many pairs at once."""
        encoded = Sequences([], [])
        for a, b in zip(self._ids(map(self._opening, first)), self._ids(second), strict=True):
            head, tail = self._marked(a[-self.first_tokens :], b[: self.second_tokens])
            encoded.ids.append(head + tail)
            encoded.segments.append([0] * len(head) + [self._segment(a)] * len(tail))
        return encoded

    def _ids(self, texts: Iterable[str]) -> list[list[int]]:
        return [e.ids for e in self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def _opening(self, text: str | None) -> str:
        return text or ""

    def _segment(self, first: list[int]) -> int:
        return 1

    def _marked(self, first: list[int], second: list[int]) -> tuple[list[int], list[int]]:
        raise NotImplementedError


class PairEncoder(EncodePairs):
    """`[CLS] A [SEP] B [SEP]`, or `[CLS] B [SEP]` without A, all of segment 0."""

    def __init__(self, tokenizer: Path | str, first_tokens: int, second_tokens: int) -> None:
        super().__init__(tokenizer, first_tokens, second_tokens)
        self.cls, self.sep, self.mask, self.pad = map(self._special, ("[CLS]", "[SEP]", "[MASK]", "[PAD]"))

    def _special(self, token: str) -> int:
        index = self.tokenizer.token_to_id(token)
        if index is None:
            raise TurnwiseError(f"tokenizer: expected {token}, got none. Fix: start from a BERT model")
        return int(index)

    def _segment(self, first: list[int]) -> int:
        return 1 if first else 0

    def _marked(self, first: list[int], second: list[int]) -> tuple[list[int], list[int]]:
        return [self.cls, *first, self.sep] if first else [self.cls], [*second, self.sep]


class LinesEncoder(EncodePairs):
    """`<start>A\\nB<end>` for a causal model, each turn of A on its own line; segment 1 is B with its end.

    Only the positions of segment 1 come after the whole input, so only they are pooled.
    """

    def __init__(self, tokenizer: Path | str, start: int, end: int, first_tokens: int, second_tokens: int) -> None:
        super().__init__(tokenizer, first_tokens, second_tokens)
        self._start, self._end, self.pad = start, end, end

    def _opening(self, text: str | None) -> str:
        return text.replace(SEPARATOR, "\n") + "\n" if text else ""

    def _marked(self, first: list[int], second: list[int]) -> tuple[list[int], list[int]]:
        return [self._start, *first], [*second, self._end]


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
