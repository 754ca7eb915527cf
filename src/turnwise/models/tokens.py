"""Texts to token ids, with each model's own template, cut to a window. The same for every backend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from turnwise.errors import TurnwiseError, in_brief
from turnwise.models.protocols import WHOLE, Batch, Ints, Window

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

MASKS = ("[MASK]", "<mask>")


class Tokens:
    """A tokenizer that knows its model's limit, and the id that its model expects before a text."""

    def __init__(
        self, tokenizer: Tokenizer, limit: int | None, window: Window | None = None, begin: int | None = None
    ) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.tokenizer, self.limit, self.window, self._begin = tokenizer, limit, window or WHOLE, begin
        added = tokenizer.get_added_tokens_decoder()
        self.special = frozenset(index for index, token in added.items() if token.special)
        self._names: dict[int, str] = {}
        self._read: dict[str, list[Encoding]] = {}

    @classmethod
    def from_bytes(
        cls,
        content: bytes,
        limit: int | None,
        window: Window | None = None,
        begin: int | None = None,
        *,
        file: str | Path = "tokenizer.json",
    ) -> Tokens:
        """The tokenizer that a tokenizer.json holds; `file` is what it is called if it cannot be read."""
        return cls(read_tokenizer(content, file), limit, window, begin)

    @property
    def mask(self) -> int:
        """The id of the mask token."""
        for name in MASKS:
            if (index := self.tokenizer.token_to_id(name)) is not None:
                return int(index)
        raise TurnwiseError(f"this model's tokenizer has no mask token (looked for {', '.join(MASKS)})")

    @property
    def begin(self) -> int:
        """The id of the token that stands before a text."""
        if self._begin is None:
            raise TurnwiseError("this model names no begin-of-text token; ask without it (begin=False)")
        return self._begin

    def name(self, token: int) -> str:
        """How the tokenizer spells a token."""
        if token not in self._names:
            self._names[token] = self.tokenizer.id_to_token(token) or ""
        return self._names[token]

    def read_ahead(self, texts: Iterable[str]) -> None:
        """Read texts that are about to be asked for, on all cores at a time; each is kept until it is asked for."""
        wanted = [_clean(text) for text in texts]
        self._read = {}
        for text, encoding in zip(wanted, self.tokenizer.encode_batch(wanted, add_special_tokens=False), strict=True):
            self._read.setdefault(text, []).append(encoding)

    def plain(self, text: str) -> Encoding:
        """The text alone, without the template's special tokens."""
        text = _clean(text)
        # One that was read ahead is given away, since whoever gets it may cut it.
        return ready.pop() if (ready := self._read.get(text)) else self.tokenizer.encode(text, add_special_tokens=False)

    def encode(self, text: str, pair: str | None, window: Window | None) -> Encoding:
        """A text or a pair in the model's template. A pair whose first text is empty is its second alone."""
        window = window or self.window
        if pair is None or not text.strip():
            text, pair = (text if pair is None else pair), None
        first, second = (None, self.plain(text)) if pair is None else (self.plain(text), self.plain(pair))
        if first is None and window.keep == "last":
            whole = self.tokenizer.post_process(second)
            whole.truncate(min([len(whole.ids), *_totals(window, self.limit)]), direction="left")
            return whole
        special = self.tokenizer.num_special_tokens_to_add(pair is not None)
        lengths = (len(first.ids) if first else 0, len(second.ids))
        a, b = lengths_within(*lengths, special, window, self.limit)
        second.truncate(b, direction="right")
        if first is None:
            return self.tokenizer.post_process(second)
        if window.keep == "end":
            # Of bounds that hold together the total cuts ends, as longest-first truncation did for the authors.
            first.truncate(within_own_bounds(*lengths, window)[0] if window.together else a, direction="left")
        first.truncate(a, direction="right")
        return self.tokenizer.post_process(first, second)


def _clean(text: str) -> str:
    # A lone surrogate has no UTF-8 form, and the tokenizer would refuse the whole text for it.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def read_tokenizer(content: bytes, file: str | Path) -> Tokenizer:
    """The tokenizer that the content of a tokenizer.json holds."""
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_buffer(content)
    except Exception as problem:  # the library has no class of its own for this
        reason = in_brief(problem)
        raise TurnwiseError(f"{file}: not a tokenizer that can be read ({reason}); save it again") from None


def lengths_within(first: int, second: int, special: int, window: Window, limit: int | None) -> tuple[int, int]:
    """How many tokens of each text stay: each within its own bound, then the longer one shortened to the total.

    >>> lengths_within(200, 30, 3, Window(first=160, second=64), 512)
    (160, 30)
    >>> lengths_within(80, 80, 3, Window(total=128), 512)
    (63, 62)
    >>> lengths_within(40, 5, 3, Window(50, 25, 25, together=True), 512)
    (40, 5)
    """
    first, second = within_own_bounds(first, second, window)
    bounds = _totals(window, limit)
    excess = first + second + special - min(bounds) if bounds else 0
    for _ in range(min(max(0, excess), first + second)):
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


def within_own_bounds(first: int, second: int, window: Window) -> tuple[int, int]:
    """How many tokens of each text its own bound leaves; bounds that hold together may leave all of both.

    >>> within_own_bounds(60, 5, Window(first=25, second=25, together=True))
    (25, 5)
    """
    bound_a = first if window.first is None else window.first
    bound_b = second if window.second is None else window.second
    if window.together and first + second <= bound_a + bound_b:
        return first, second
    return min(first, bound_a), min(second, bound_b)


def _totals(window: Window, limit: int | None) -> list[int]:
    return [bound for bound in (window.total, limit) if bound is not None]


def rectangle(rows: Sequence[Sequence[int]], types: Sequence[Sequence[int]] = ()) -> Batch:
    """Rows of ids filled up with zeros on the right, and the mask that says so.

    >>> rectangle([[5, 6], [7]]).mask.tolist()
    [[1, 1], [1, 0]]
    """
    width = max(map(len, rows), default=0)
    ids, mask = _filled(rows, width)
    return Batch(ids, mask.astype(np.int64), _filled(types, width)[0] if types else np.zeros_like(ids))


def _filled(rows: Sequence[Sequence[int]], width: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Rows side by side, and where they have something. One object given many times is laid out once and copied."""
    places: dict[int, int] = {}
    index = [places.setdefault(id(row), len(places)) for row in rows]
    different = [row for row, place in zip(rows, index, strict=True) if places.pop(id(row), -1) == place]
    lengths = np.fromiter(map(len, different), np.int64, len(different))
    there = np.arange(width) < lengths[:, None]
    laid = np.zeros(there.shape, dtype=np.int64)
    laid[there] = np.fromiter(chain.from_iterable(different), np.int64, int(lengths.sum()))
    return laid[index], there[index]
