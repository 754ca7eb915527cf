"""One vector per utterance: the states of some layers of an encoder, each averaged over the tokens, side by side.

The last layer of a sentence encoder says what an utterance is about and hardly notices the order of its words; a
middle layer notices it. A network over whole utterances needs both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from turnwise.models.kinds import Encoder, Row
from turnwise.models.requests import Floats, Pooling
from turnwise.models.text import Tokens, rectangle


@dataclass(frozen=True)
class Reading:
    """Which layers of which role an utterance's vector is made of, and how each is pooled."""

    role: str = "encoder"
    layers: tuple[int, ...] = (3, 6)
    pooling: Pooling = "mean"


@dataclass
class UtteranceEncoder:
    """Utterances to rows of ids, and rows to vectors."""

    network: Encoder
    tokens: Tokens
    reading: Reading

    def row(self, text: str) -> Row:
        """The sequence that has to run for an utterance."""
        encoding = self.tokens.encode(text, None, None)
        return Row(tuple(encoding.ids), tuple(encoding.type_ids))

    def vectors(self, rows: Sequence[Row]) -> Floats:
        """Return a vector for each row."""
        padded = rectangle([row.ids for row in rows], [row.types for row in rows])
        return np.concatenate(self.network.pooled_layers(padded, self.reading.layers, self.reading.pooling), axis=1)
