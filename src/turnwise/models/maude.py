"""MAUDE as it is used: a recurrent network over the vectors of utterances, one step per turn.

A conversation is read turn by turn. What a turn leaves behind is kept, so the next one costs one utterance to encode
and one step; the bidirectional form reads its small network over all kept vectors again, since each turn changes every
state before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnwise.errors import TurnwiseError
from turnwise.models.heads_numpy import Remembered
from turnwise.models.kinds import CPU_BUDGET, KINDS, Model, ModelKind, Row
from turnwise.models.maude_head import Head, State, header, read_head
from turnwise.models.onnx.session import thread_count
from turnwise.models.requests import Converse, Floats
from turnwise.models.text import ASKED, REPLY
from turnwise.models.utterances import UtteranceEncoder

if TYPE_CHECKING:
    from turnwise.models.pack import Pack

__all__ = ["LABELS", "Conversation", "Head", "MaudeModel", "State", "header", "read_head"]

LABELS = ("other", "next")
# Utterances, and conversations up to some turn, that are remembered: enough for a few hundred conversations at once.
REMEMBERED = 8192


@dataclass
class Conversation:
    """A conversation that is judged while it goes on: `say` a turn, or ask how well a response would fit now.

    Each utterance is encoded once, however many turns follow it.
    """

    model: MaudeModel
    _said: list[str] = field(default_factory=list)

    def say(self, turn: str) -> None:
        """Something was said, by whomever."""
        self._said.append(_text(turn, "turn"))

    def score(self, response: str) -> float:
        """How well a response fits what was said so far; it is not said yet."""
        if not self._said:
            raise TurnwiseError("nothing was said yet; say a turn before a response is judged")
        request = Converse(tuple(self._said), _text(response, "response"))
        rows = self.model.rows(request)
        return self.model.answer(request, rows, self.model.run(rows))[LABELS[1]]


def _text(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise TurnwiseError(f"{what}: {text!r} where text belongs; give a string")
    return text


@dataclass
class MaudeModel(Model):
    """Answers `Converse`."""

    encoder: UtteranceEncoder
    head: Head
    fingerprint: str
    budget: int = CPU_BUDGET
    _rows: Remembered[Row] = field(default_factory=lambda: Remembered(REMEMBERED))
    _vectors: Remembered[Floats] = field(default_factory=lambda: Remembered(REMEMBERED))
    _states: Remembered[State] = field(default_factory=lambda: Remembered(REMEMBERED))

    def rows(self, request: Converse) -> list[Row]:
        """Return one row for each turn of the context, and one for the response."""
        return [self._row(" ".join(text.split())) for text in (*request.turns, request.response)]

    def _row(self, text: str) -> Row:
        known = self._rows.get(text)
        return known if known is not None else self._rows.put(text, self.encoder.row(text))

    def run(self, rows: Sequence[Row]) -> list[Floats]:
        """The projected vector of each utterance; those that are remembered are not encoded again."""
        new = list(dict.fromkeys(row for row in rows if self._vectors.get(row.ids) is None))
        found = dict(zip((row.ids for row in new), self._projected(new), strict=True))
        kept = [found[row.ids] if row.ids in found else self._vectors[row.ids] for row in rows]
        for ids, vector in found.items():
            self._vectors.put(ids, vector)
        return kept

    def _projected(self, rows: Sequence[Row]) -> Sequence[Floats]:
        # Row by row: one product over a batch rounds by its size, and the same turn must always score the same.
        return [self.head.project(vector) for vector in self.encoder.vectors(rows)] if rows else []

    def answer(self, request: Converse, rows: Sequence[Row], results: Sequence[Floats]) -> dict[str, float]:
        """The probability that the response comes next."""
        state = self._after([row.ids for row in rows[:-1]], results[:-1])
        chance = self.head.score(self.head.context(state), results[-1])
        return dict(zip(LABELS, (1 - chance, chance), strict=True))

    def _after(self, turns: Sequence[tuple[int, ...]], vectors: Sequence[Floats]) -> State:
        """The state after these turns, from the longest beginning of them that is remembered."""
        keys = tuple(turns)
        start = next((n for n in range(len(keys), 0, -1) if self._states.get(keys[:n]) is not None), 0)
        state = self._states[keys[:start]] if start else State()
        for place in range(start, len(keys)):
            state = self._states.put(keys[: place + 1], self.head.read(state, vectors[place]))
        return state

    def conversation(self) -> Conversation:
        """A conversation to be judged while it goes on."""
        return Conversation(self)


def _from_pack(pack: Pack, role: str) -> MaudeModel:
    from turnwise.models.onnx import networks

    entry, tokens, session = pack.manifest.role(role), pack.tokens(role), pack.session(role)
    networks.check_graph(session, entry.kind, {"types", "layer_0"})
    if entry.weights is None:
        raise TurnwiseError(f"pack '{pack.name}': a recurrent role names no weights in the manifest")
    head, reading = read_head(pack.read(entry.weights), entry.weights)
    # It takes one batch at a time, so the encoder shares each out.
    encoder = UtteranceEncoder(networks.OnnxEncoder(session, pack.pool), tokens, reading)
    return MaudeModel(encoder, head, pack.fingerprint(role), 4 * thread_count() * CPU_BUDGET)


KINDS.add(
    "recurrent",
    ModelKind("recurrent", Converse, _from_pack, probe=lambda role: Converse((ASKED,), REPLY, role=role)),
    module=__name__,
)
