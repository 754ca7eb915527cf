"""One vector per utterance: the states of some layers of an encoder, each averaged over the tokens, side by side.

The last layer of a sentence encoder says what an utterance is about and hardly notices the order of its words; a
middle layer notices it. A network over whole utterances needs both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from turnwise.models.protocols import Batch, Encoder, Floats, Pooling, Row
from turnwise.models.tasks import pool
from turnwise.models.tokens import Tokens, rectangle


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
        """A vector for each row."""
        padded = rectangle([row.ids for row in rows], [row.types for row in rows])
        if (pooled := getattr(self.network, "pooled_layers", None)) is not None:
            return np.concatenate(pooled(padded, self.reading.layers, self.reading.pooling), axis=1)
        states = hidden_layers(self.network, padded, self.reading.layers)
        return np.stack(
            [
                np.concatenate([pool(layer[place, : len(row.ids)], self.reading.pooling, ()) for layer in states])
                for place, row in enumerate(rows)
            ]
        )


def hidden_layers(network: Encoder, batch: Batch, layers: Sequence[int]) -> list[Floats]:
    """The states of several layers; in one pass where the network can give them together."""
    together = getattr(network, "hidden_layers", None)
    if together is not None:
        found: list[Floats] = together(batch, layers)
        return found
    return [network.hidden(batch, layer) for layer in layers]
