"""What the models that read text share: texts read ahead, and batches that are begun before they are waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from turnwise.errors import TurnwiseError
from turnwise.models.protocols import Floats, Row
from turnwise.models.tokens import Tokens

# Tokens of a batch: one core multiplies as fast as it can from about 128 on, and small batches waste least on padding.
CPU_BUDGET = 256


class MissingLayer(TurnwiseError):  # noqa: N818 - as its base, it names what is wrong
    """An encoder was asked for a layer that it does not have."""

    def __init__(self, layer: int, count: int) -> None:
        super().__init__(
            f"the encoder has layers 0 to {count - 1}, and no layer {layer}; write one of them, as layer=-1"
        )
        self.layer = layer


def check_layer(layer: int, count: int) -> None:
    """Refuse a layer that an encoder with so many does not have."""
    if not -count <= layer < count:
        raise MissingLayer(layer, count)


@dataclass
class TextModel:
    """A network that reads tokens; it may work on several batches at a time, or on a GPU meanwhile.

    `ahead` is the number of batches that should be begun before the first of them is waited for; `pool` holds the
    threads that they run in, where the network has none of its own.
    """

    network: Any
    tokens: Tokens
    fingerprint: str
    budget: int = CPU_BUDGET
    ahead: int = 0
    pool: Executor | None = None

    def read_ahead(self, requests: Iterable[Any]) -> None:
        """Read the texts of requests whose rows are about to be asked for."""
        self.tokens.read_ahead(text for request in requests for text in (request.text, request.pair) if text)

    def begin(self, rows: Sequence[Row]) -> Callable[[], list[Any]]:
        """Start on rows of one group; what comes back waits for their results."""
        return self._start(rows) if self.pool is None else self.pool.submit(self.run, rows).result

    def run(self, rows: Sequence[Row]) -> list[Any]:
        """One result per row."""
        return self._start(rows)()

    def _start(self, rows: Sequence[Row]) -> Callable[[], list[Any]]:
        """Give the rows to the network, and make results of what it finds once they are asked for."""
        raise NotImplementedError

    def _later(self, method: str, *arguments: Any) -> Callable[[], Floats]:
        """What a method of the network gives; begun, and not waited for, where the network can do that."""
        begin = getattr(self.network, f"begin_{method}", None)
        if begin is not None:
            waits: Callable[[], Floats] = begin(*arguments)
            return waits
        found: Floats = getattr(self.network, method)(*arguments)
        return lambda: found
