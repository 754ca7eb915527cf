"""The four networks over onnxruntime sessions. The graphs are those that `turnwise.models.export` writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from turnwise.errors import TurnwiseError
from turnwise.models.kinds import CPU_BUDGET, Batch, CausalLM, Classifier, Encoder, MaskedLM
from turnwise.models.requests import Floats, Ints
from turnwise.models.text import check_layer

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from onnxruntime import InferenceSession

BLOCKED = np.float32(-1e9)
# Each place takes a number for every word of the vocabulary, several times over; beyond these, halves run in turn.
MOST_PLACES = 128
# Numbers that the runtime computes at a time, between two boundaries of memory. A sum over the vocabulary starts at a
# boundary, so its order of additions depends on where in memory it begins; and what is left over at the end of an
# array is computed by other code, whose last bit may differ.
AT_ONCE = 8


def check_graph(session: InferenceSession, kind: str, needed: set[str]) -> None:
    """Raise ValueError if a graph lacks an input or output that a kind of model needs."""
    there = {of.name for of in (*session.get_inputs(), *session.get_outputs())}
    if absent := sorted(needed - there):
        raise ValueError(f"a {kind} has '{absent[0]}', and this file has not")


@dataclass
class OnnxEncoder(Encoder):
    """Hidden states of any layer. Given a pool of threads, the rows of a batch are shared out among them."""

    session: InferenceSession
    pool: ThreadPoolExecutor | None = None

    @property
    def layers(self) -> int:
        """See `Encoder`."""
        return len(self._outputs)

    @cached_property
    def _outputs(self) -> list[str]:
        return [output.name for output in self.session.get_outputs() if output.name.startswith("layer_")]

    def hidden(self, batch: Batch, layer: int) -> Floats:
        """See `Encoder`."""
        return self.hidden_layers(batch, [layer])[0]

    def hidden_layers(self, batch: Batch, layers: Sequence[int]) -> list[Floats]:
        """Return the states of several layers, in one pass."""
        for layer in layers:
            check_layer(layer, self.layers)
        names = [self._outputs[layer] for layer in layers]
        if self.pool is None:
            states: list[Floats] = self.session.run(names, _inputs(batch))
            return states
        parts = [self.pool.submit(self.session.run, names, _inputs(part)) for part in _shared_out(batch)]
        found = [part.result() for part in parts]
        return [np.concatenate([_widened(part[i], batch) for part in found]) for i in range(len(names))]


@dataclass
class OnnxMaskedLM(MaskedLM):
    """Likelihood at places."""

    session: InferenceSession

    def log_probs(self, batch: Batch, rows: Ints, places: Ints, wanted: Ints) -> Floats:
        """See `MaskedLM`."""
        if len(places) > MOST_PLACES and len(batch.ids) > 1:
            half = len(batch.ids) // 2
            early, late = rows < half, rows >= half
            first = self.log_probs(_part(batch, slice(half)), rows[early], places[early], wanted[early])
            second = self.log_probs(_part(batch, slice(half, None)), rows[late] - half, places[late], wanted[late])
            return np.concatenate([first, second])
        slots = _slots(places)
        asked = {"asked_rows": rows, "asked_places": places, "wanted": wanted}
        spread = {name: _spread(values, slots) for name, values in asked.items()}
        found: Floats = self.session.run(["log_probs"], {**_inputs(batch), **spread})[0]
        return found[slots]


@dataclass
class OnnxClassifier(Classifier):
    """One of the heads in a file."""

    session: InferenceSession
    head: str
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        width = next(output.shape[-1] for output in self.session.get_outputs() if output.name == self.head)
        if width != len(self.labels):
            raise ValueError(f"'{self.head}' gives {width} numbers, for {len(self.labels)} labels")

    def logits(self, batch: Batch) -> Floats:
        """See `Classifier`."""
        found: Floats = self.session.run([self.head], _inputs(batch))[0]
        return found


@dataclass
class OnnxCausalLM(CausalLM):
    """Likelihood after a prefix, whose keys and values are computed once for all rows that share it."""

    session: InferenceSession

    def log_probs(self, prefixes: Batch, source: Ints, batch: Batch, wanted: Ints) -> Floats:
        """See `CausalLM`."""
        layers, two, _, heads, _, width = self.session.get_inputs()[3].shape
        # A product of a single row is computed by other code, whose last bit may differ.
        if prefixes.ids.size == 1:
            prefixes = Batch(*(np.repeat(of, 2, axis=0) for of in (prefixes.ids, prefixes.mask, prefixes.types)))
        if batch.ids.shape[1] == 1:
            batch = Batch(*(np.pad(of, ((0, 0), (0, 1))) for of in (batch.ids, batch.mask, batch.types)))
            wanted = np.pad(wanted, ((0, 0), (0, 1)))
        past = np.zeros((layers, two, len(prefixes.ids), heads, 0, width), dtype=np.float32)
        if prefixes.ids.shape[1]:
            nothing = np.zeros(0, dtype=np.int64)
            inputs = self._inputs(prefixes, np.zeros((len(prefixes.ids), 0), dtype=np.int64), past, nothing, nothing)
            past = self.session.run(["present"], inputs)[0]
        places = np.flatnonzero(batch.mask)
        # Rows of an even vocabulary all begin at a boundary.
        slots = np.arange(len(places)) if self._words % AT_ONCE == 0 else _slots(places % batch.ids.shape[1])
        at, sought = _spread(places, slots), _spread(wanted.reshape(-1)[places], slots)
        inputs = self._inputs(batch, prefixes.mask[source], past[:, :, source], at, sought)
        found = np.zeros(batch.ids.shape, dtype=np.float32)
        found.reshape(-1)[places] = self.session.run(["log_probs"], inputs)[0][slots]
        return found

    @cached_property
    def _words(self) -> int:
        """The size of the vocabulary; 1 if the graph does not tell."""
        return next((of.shape[-1] for of in self.session.get_outputs() if of.name == "logits"), 1)

    def advance(self, ids: Ints, past: Floats | None) -> tuple[Floats, Floats]:
        """See `CausalLM`."""
        if "logits" not in [output.name for output in self.session.get_outputs()]:
            raise TurnwiseError("this pack's language model was made to judge, not to write; build the pack again")
        rows, length = ids.shape
        if past is None:
            layers, two, _, heads, _, width = self.session.get_inputs()[3].shape
            past = np.zeros((layers, two, rows, heads, 0, width), dtype=np.float32)
        batch = Batch(ids, np.ones_like(ids), np.zeros_like(ids))
        seen, last = np.ones((rows, past.shape[4]), dtype=np.int64), np.arange(1, rows + 1) * length - 1
        inputs = self._inputs(batch, seen, past, last, np.zeros_like(last))
        logits, present = self.session.run(["logits", "present"], inputs)
        return logits, np.concatenate([past, present], axis=4)

    def select(self, past: Floats, rows: Ints) -> Floats:
        """See `CausalLM`."""
        return past[:, :, rows]

    def _inputs(
        self, batch: Batch, past_mask: Ints, past: Floats, places: Ints, wanted: Ints
    ) -> dict[str, Floats | Ints]:
        length = batch.ids.shape[1]
        seen = np.broadcast_to(past_mask[:, None, :], (len(batch.ids), length, past_mask.shape[1]))
        earlier = np.broadcast_to(np.tri(length, dtype=np.int64), (len(batch.ids), length, length))
        allowed = np.concatenate([seen, earlier], axis=2)
        return {
            "ids": batch.ids,
            # Padding is at place 0: beside a long prefix it would lie beyond the last position of the model.
            "positions": (past_mask.sum(axis=1, keepdims=True) + np.arange(length)) * batch.mask,
            "blocked": np.where(allowed == 1, np.float32(0), BLOCKED),
            "past": past,
            "places": places,
            "wanted": wanted,
        }


def _shared_out(batch: Batch) -> Iterator[Batch]:
    """Yield parts of about as many tokens as one thread takes at a time, none wider than its longest row."""
    lengths = batch.mask.sum(axis=1)
    start = 0
    while start < len(lengths):
        count = max(1, CPU_BUDGET // max(1, int(lengths[start])))
        width = int(lengths[start : start + count].max())
        yield Batch(*(of[start : start + count, :width] for of in (batch.ids, batch.mask, batch.types)))
        start += count


def _slots(places: Ints) -> Ints:
    """Return where to put the numbers of each place, so that they lie as far from a boundary in any batch.

    >>> _slots(np.array([1, 2, 3, 9])).tolist()
    [1, 2, 3, 9]
    >>> _slots(np.array([17, 2, 33])).tolist()
    [1, 2, 9]
    """
    offsets = places % AT_ONCE
    order = np.argsort(offsets, kind="stable")
    ordered = offsets[order]
    before = np.arange(len(places)) - np.searchsorted(ordered, ordered)
    slots: Ints = np.empty_like(places)
    slots[order] = ordered + AT_ONCE * before
    return slots


def _spread(values: Ints, slots: Ints) -> Ints:
    """Return values in their slots, zeros elsewhere, and nothing left over at the end."""
    spread: Ints = np.zeros(-(-(int(slots.max(initial=-1)) + 1) // AT_ONCE) * AT_ONCE, dtype=np.int64)
    spread[slots] = values
    return spread


def _widened(states: Floats, batch: Batch) -> Floats:
    return np.pad(states, ((0, 0), (0, batch.ids.shape[1] - states.shape[1]), (0, 0)))


def _part(batch: Batch, rows: slice) -> Batch:
    return Batch(batch.ids[rows], batch.mask[rows], batch.types[rows])


def _inputs(batch: Batch) -> dict[str, Ints]:
    return {"ids": batch.ids, "mask": batch.mask, "types": batch.types}
