"""What MAUDE learns from: dialogues, the wrong and the reworded responses at some of their turns, and batches of them.

Negatives are those of Sinha et al. 2020. Their files hold one draw of each kind for every response; so do ours for
what changes words, while random utterances are drawn anew in every epoch unless `fresh` is false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from turnwise.models.protocols import Floats
from turnwise.text.corrupt import word_drop, word_order, word_repeat
from turnwise.train.dialogues import Dialogue
from turnwise.train.heads import Places
from turnwise.train.inputs import spaced
from turnwise.train.negatives import corrupt_context, maude_random

Kind = Literal[
    "word_drop", "word_order", "word_repeat", "rand_utt", "model_false", "rand_back", "corrupt_context"
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)
SYNTAX: tuple[Kind, ...] = KINDS[:3]
SEMANTICS: tuple[Kind, ...] = KINDS[3:6]
CORRUPTIONS: Mapping[Kind, Callable[[str, Random], str]] = {
    "word_drop": word_drop,
    "word_order": word_order,
    "word_repeat": word_repeat,
}
SILENCE = "__silence__"
# Of a long conversation only the last turns are learnt from; all of them are read when a response is judged.
MOST_TURNS = 24


@dataclass(frozen=True)
class Sampled:
    """A dialogue, with what else might have been said at some turns: corruptions, paraphrases, a model's responses."""

    turns: tuple[str, ...]
    corrupted: Mapping[Kind, Mapping[int, str]] = field(default_factory=dict)
    reworded: Mapping[int, str] = field(default_factory=dict)
    generated: Mapping[int, str] = field(default_factory=dict)

    def texts(self) -> Iterable[str]:
        """Everything that a vector is needed for."""
        yield from self.turns
        for variants in (*self.corrupted.values(), self.reworded, self.generated):
            yield from variants.values()

    def record(self) -> dict[str, Any]:
        """The dialogue as JSON can hold it."""
        return asdict(self)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Sampled:
        """What `record` gave; JSON has made text of the numbers of turns."""
        kinds = {kind: _by_place(variants) for kind, variants in record["corrupted"].items()}
        return cls(tuple(record["turns"]), kinds, _by_place(record["reworded"]), _by_place(record["generated"]))


def _by_place(variants: Mapping[str, str]) -> dict[int, str]:
    return {int(place): text for place, text in variants.items()}


def plain_turns(dialogue: Dialogue, style: Callable[[str], str] = spaced) -> tuple[str, ...]:
    """What was said, in lower case and with marks apart, as ConvAI2 comes; without a partner's silence."""
    said = (" ".join(style(turn.text).lower().split()) for turn in dialogue.turns)
    return tuple(text for text in said if text and text != SILENCE)[:MOST_TURNS]


def sample(
    dialogues: Sequence[Dialogue],
    rng: Random,
    *,
    corrupt: int | None = None,
    say_again: Callable[[Sequence[str]], list[str]] | None = None,
    reply: Callable[[Sequence[str]], str] | None = None,
    replies: int = 0,
    restyle: float = 1.0,
) -> list[Sampled]:
    """Dialogues with their variants; at most `corrupt` turns of each are varied, at all of them if it is None.

    `reply` writes responses to `replies` contexts in all. `restyle` is the share of dialogues with marks apart.
    """
    found = []
    for dialogue in dialogues:
        turns = plain_turns(dialogue, spaced if rng.random() < restyle else str)
        if len(turns) < 2:
            continue
        places = list(range(1, len(turns)))
        chosen = sorted(places if corrupt is None else rng.sample(places, min(corrupt, len(places))))
        corrupted = {
            kind: {place: change(turns[place], rng) for place in chosen} for kind, change in CORRUPTIONS.items()
        }
        again = say_again([turns[place] for place in chosen]) if say_again else []
        reworded = {place: said for place, said in zip(chosen, again, strict=False) if said != turns[place]}
        generated = {}
        if reply is not None and replies > 0:
            place = rng.choice(chosen)
            generated[place] = " ".join(spaced(reply(turns[:place])).lower().split())
            replies -= 1
        found.append(Sampled(turns, corrupted, reworded, generated))
    return found


@dataclass
class Batch:
    """Dialogues, and for each example its row among them, how many turns came before, and its responses.

    Every text comes once, as it is or as a vector; `turns` (rows, turns) and `responses` (examples, 1 + kinds), with
    the true one first, are places among the texts. `present` says which responses are there at all.
    """

    texts: list[str]
    vectors: Tensor | None
    turns: Tensor
    row: Tensor
    length: Tensor
    responses: Tensor
    present: Tensor
    other_turns: Tensor | None = None


class Drawn:
    """Batches of dialogues: every turn but the first is an example, with all its negatives.

    Without a table of vectors, whoever learns from them has an encoder of its own.
    """

    def __init__(
        self,
        dialogues: Sequence[Sampled],
        table: Floats | None = None,
        index: Mapping[str, int] | None = None,
        *,
        negatives: Sequence[Kind] = SYNTAX + SEMANTICS,
        reworded: float = 0.5,
        fresh: bool = True,
        seed: int = 0,
    ) -> None:
        self._dialogues, self._index = dialogues, index or {}
        self._table = None if table is None else torch.from_numpy(table)
        self._negatives, self._reworded, self._fresh, self._seed = tuple(negatives), reworded, fresh, seed
        pools: dict[Kind, list[Sequence[str]]] = {
            "rand_utt": [dialogue.turns[1:] for dialogue in dialogues],
            "model_false": [tuple(dialogue.generated.values()) for dialogue in dialogues],
            "rand_back": [tuple(dialogue.reworded.values()) for dialogue in dialogues],
        }
        # A dialogue without such responses is no dialogue to draw from.
        self._places = {
            kind: {number: i for i, number in enumerate(n for n, texts in enumerate(pool) if texts)}
            for kind, pool in pools.items()
        }
        self._pools = {kind: [texts for texts in pool if texts] for kind, pool in pools.items()}
        self._everything = [text for dialogue in dialogues for text in dialogue.turns[:-1]]

    def __len__(self) -> int:
        return len(self._dialogues)

    def batch(self, places: Places, rng: np.random.Generator) -> Batch:
        """The dialogues with these numbers."""
        draw = Random(int(rng.integers(2**63)))
        rows, lengths, wanted = [], [], []
        for row, number in enumerate(places.tolist()):
            mine = draw if self._fresh else Random(f"{self._seed}:{number}")
            for place in range(1, len(self._dialogues[number].turns)):
                rows.append(row)
                lengths.append(place)
                wanted.append(self._responses(number, place, mine))
        said = [self._dialogues[number].turns for number in places.tolist()]
        others = []
        if "corrupt_context" in self._negatives:
            others = [corrupt_context(turns, self._everything, draw) for turns in said]
        place_of: dict[str, int] = {}
        responses = _places(wanted, place_of)
        turns = _places(said, place_of)
        other_turns = _places(others, place_of) if others else None
        texts = list(place_of)
        vectors = None if self._table is None else self._table[[self._index[text] for text in texts]]
        return Batch(
            texts,
            vectors,
            turns.clamp(min=0),
            torch.tensor(rows),
            torch.tensor(lengths),
            responses.clamp(min=0),
            responses >= 0,
            None if other_turns is None else other_turns.clamp(min=0),
        )

    def _responses(self, number: int, place: int, draw: Random) -> list[str | None]:
        """The true response, or now and then its paraphrase, and a response of each kind of negative."""
        dialogue = self._dialogues[number]
        true: str | None = dialogue.turns[place]
        if place in dialogue.reworded and draw.random() < self._reworded:
            true = dialogue.reworded[place]
        kinds = [kind for kind in self._negatives if kind != "corrupt_context"]
        return [true, *(self._wrong(kind, number, place, draw) for kind in kinds)]

    def _wrong(self, kind: Kind, number: int, place: int, draw: Random) -> str | None:
        if kind in CORRUPTIONS:
            return self._dialogues[number].corrupted.get(kind, {}).get(place)
        pool, own = self._pools[kind], self._places[kind].get(number)
        if own is None:
            return draw.choice(draw.choice(pool)) if pool else None
        return maude_random(pool, own, draw) if len(pool) > 1 else None


def _places(lists: Sequence[Sequence[str | None]], place_of: dict[str, int]) -> Tensor:
    """Lists of texts as a table of their places, -1 where there is none; new texts get the next places."""
    longest = max(map(len, lists))
    rows = [[-1 if text is None else place_of.setdefault(text, len(place_of)) for text in texts] for texts in lists]
    return torch.tensor([row + [-1] * (longest - len(row)) for row in rows])
