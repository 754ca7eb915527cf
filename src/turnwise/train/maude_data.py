"""Batches for MAUDE: dialogues with every turn's responses, the random ones among them drawn as the paper does.

Texts are numbers here, and a whole batch is drawn at once: on a GPU the network is faster than any loop over texts.
Random utterances are drawn anew in every epoch unless `fresh` is false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from turnwise.models.requests import Floats
from turnwise.text.corrupt import word_drop, word_order, word_repeat
from turnwise.text.inputs import spaced
from turnwise.train.dialogues import Dialogue
from turnwise.train.loop import Indices

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
# Training uses only so many turns of a long conversation; scoring uses all of them.
MOST_TURNS = 24


@dataclass(frozen=True)
class Sampled:
    """A dialogue with variants of some turns: corruptions, paraphrases, responses of a model."""

    turns: tuple[str, ...]
    corrupted: Mapping[Kind, Mapping[int, str]] = field(default_factory=dict)
    reworded: Mapping[int, str] = field(default_factory=dict)
    generated: Mapping[int, str] = field(default_factory=dict)

    def texts(self) -> Iterable[str]:
        """Yield all texts that need a vector."""
        yield from self.turns
        for variants in (*self.corrupted.values(), self.reworded, self.generated):
            yield from variants.values()

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Sampled:
        """Return the dialogue of a record; JSON keys are turned back into numbers of turns."""
        kinds = {kind: _by_place(variants) for kind, variants in record["corrupted"].items()}
        return cls(tuple(record["turns"]), kinds, _by_place(record["reworded"]), _by_place(record["generated"]))


def _by_place(variants: Mapping[str, str]) -> dict[int, str]:
    return {int(place): text for place, text in variants.items()}


def plain_turns(dialogue: Dialogue, style: Callable[[str], str] = spaced) -> tuple[str, ...]:
    """Return the turns in lower case with spaced punctuation, as in ConvAI2, without silent turns."""
    said = (" ".join(style(turn.text).lower().split()) for turn in dialogue.turns)
    return tuple(text for text in said if text and text != SILENCE)[:MOST_TURNS]


def sample(
    dialogues: Sequence[Dialogue],
    rng: Random,
    *,
    corrupt: int | None = None,
    say_again: Callable[[Sequence[str]], list[str]] | None = None,
    reply: Callable[[Sequence[Sequence[str]]], list[str]] | None = None,
    replies: int = 0,
    restyle: float = 1.0,
) -> list[Sampled]:
    """Return dialogues with their variants; at most `corrupt` turns of each are varied, at all of them if it is None.

    `reply` writes responses to contexts, one in each of the first `replies` dialogues. `restyle` is the share of
    dialogues with marks apart.
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
        found.append(Sampled(turns, corrupted, reworded))
    if reply is None:
        return found
    answered = [(one, rng.randrange(1, len(one.turns))) for one in found[:replies]]
    written = reply([one.turns[:place] for one, place in answered])
    for number, ((one, place), text) in enumerate(zip(answered, written, strict=True)):
        found[number] = replace(one, generated={place: " ".join(spaced(text).lower().split())})
    return found


Numbers = npt.NDArray[np.int64]
NONE = -1


@dataclass
class DialogueBatch:
    """Dialogues, and for each example its row among them, how many turns came before, and its responses.

    Every text comes once, as it is or as a vector; `turns` (rows, turns) and `responses` (examples, 1 + kinds), with
    the true response first, are places among them. `present` says which responses there are.
    """

    texts: list[str]
    vectors: Tensor | None
    turns: Tensor
    row: Tensor
    length: Tensor
    responses: Tensor
    present: Tensor
    other_turns: Tensor | None = None


class Pool:
    """Responses by dialogue. Dialogues without any are not drawn from, but others may be drawn for them."""

    def __init__(self, responses: Sequence[Sequence[int]]) -> None:
        filled = [number for number, texts in enumerate(responses) if texts]
        self._own = np.full(len(responses), NONE)
        self._own[filled] = np.arange(len(filled))
        self._counts = np.array([len(responses[number]) for number in filled], dtype=np.int64)
        self._starts = np.cumsum(self._counts) - self._counts
        self._texts = np.array([text for number in filled for text in responses[number]], dtype=np.int64)

    def draw(self, dialogues: Numbers, rng: np.random.Generator) -> Numbers:
        """Return a random response for each of these dialogues, drawn from a random other dialogue."""
        own, count = self._own[dialogues], len(self._counts)
        others = count - (own != NONE)
        if not len(dialogues) or others.min() < 1:
            return np.full(len(dialogues), NONE)
        drawn = rng.integers(others)
        drawn += (own != NONE) & (drawn >= own)
        found: Numbers = self._texts[self._starts[drawn] + rng.integers(self._counts[drawn])]
        return found


class DrawnDialogues:
    """Batches of dialogues: every turn but the first is an example, with all its negatives.

    Without a table of vectors, whoever learns from them has an encoder of its own.
    """

    def __init__(
        self,
        dialogues: Sequence[Sampled],
        table: Floats | Tensor | None = None,
        index: Mapping[str, int] | None = None,
        *,
        negatives: Sequence[Kind] = SYNTAX + SEMANTICS,
        reworded: float = 0.5,
        fresh: bool = True,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self._device, self._negatives, self._reworded = device, tuple(negatives), reworded
        self._kinds = [kind for kind in self._negatives if kind != "corrupt_context"]
        self._table = None if table is None else torch.as_tensor(table).to(device)
        number = dict(index) if index is not None and table is not None else _numbered(dialogues)
        self._texts = sorted(number, key=number.__getitem__)
        self._lengths = np.array([len(one.turns) for one in dialogues])
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._turns = np.array([number[text] for one in dialogues for text in one.turns])
        # Variants of each turn.
        self._variants = {
            kind: _by_turn([one.corrupted.get(kind, {}) for one in dialogues], self._lengths, number)
            for kind in CORRUPTIONS
        }
        self._again = _by_turn([one.reworded for one in dialogues], self._lengths, number)
        self._pools: dict[Kind, Pool] = {
            "rand_utt": Pool([[number[text] for text in one.turns[1:]] for one in dialogues]),
            "model_false": Pool([[number[text] for text in one.generated.values()] for one in dialogues]),
            "rand_back": Pool([[number[text] for text in one.reworded.values()] for one in dialogues]),
        }
        ends = np.zeros(len(self._turns), dtype=bool)
        ends[self._starts + self._lengths - 1] = True
        self._said = self._turns[~ends]
        self._once: Numbers | None = None
        if not fresh:
            everything = np.arange(len(dialogues))
            self._once = np.full((len(self._turns), 1 + len(self._kinds)), NONE)
            rows, places = self._examples(everything)
            self._once[places] = self._responses(rows, places, np.random.default_rng([seed, 2]))

    def __len__(self) -> int:
        return len(self._lengths)

    def batch(self, places: Indices, rng: np.random.Generator) -> DialogueBatch:
        """Return the dialogues with these numbers."""
        lengths = self._lengths[places]
        rows, turns = self._examples(places)
        wanted = self._responses(places[rows], turns, rng) if self._once is None else self._once[turns]
        column = np.arange(lengths.max())
        spoken = column < lengths[:, None]
        said = np.where(spoken, self._turns[np.where(spoken, self._starts[places][:, None] + column, 0)], NONE)
        tables = [wanted, said]
        if "corrupt_context" in self._negatives:
            tables.append(np.where(spoken, rng.choice(self._said, said.shape), NONE))
        # A text that is not there is read as some text that is, and does not count.
        filled = [np.where(table == NONE, said[0, 0], table) for table in tables]
        numbers, found = np.unique(np.concatenate([table.ravel() for table in filled]), return_inverse=True)
        ends = np.cumsum([table.size for table in tables])[:-1]
        placed = [self._on(part.reshape(t.shape)) for part, t in zip(np.split(found, ends), tables, strict=True)]
        return DialogueBatch(
            [self._texts[text] for text in numbers.tolist()] if self._table is None or self._device == "cpu" else [],
            None if self._table is None else self._table[self._on(numbers)].float(),
            placed[1],
            self._on(rows),
            self._on(turns - self._starts[places][rows]),
            placed[0],
            self._on(wanted != NONE),
            placed[2] if len(placed) > 2 else None,
        )

    def _on(self, array: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def _examples(self, dialogues: Indices) -> tuple[Numbers, Numbers]:
        """Return the row of each example among these dialogues, and its turn among all turns."""
        counts = self._lengths[dialogues] - 1
        rows = np.repeat(np.arange(len(dialogues)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, self._starts[dialogues][rows] + 1 + within

    def _responses(self, dialogues: Numbers, turns: Numbers, rng: np.random.Generator) -> Numbers:
        """Return the true responses, or now and then their paraphrases, and a response of each kind of negative."""
        again = self._again[turns]
        true = np.where((again != NONE) & (rng.random(len(turns)) < self._reworded), again, self._turns[turns])
        wrong = [
            self._variants[kind][turns] if kind in CORRUPTIONS else self._pools[kind].draw(dialogues, rng)
            for kind in self._kinds
        ]
        return np.stack([true, *wrong], axis=1)


def _numbered(dialogues: Sequence[Sampled]) -> dict[str, int]:
    texts = dict.fromkeys(text for one in dialogues for text in one.texts())
    return {text: number for number, text in enumerate(texts)}


def _by_turn(variants: Sequence[Mapping[int, str]], lengths: Numbers, number: Mapping[str, int]) -> Numbers:
    """Return the number of the text that may stand in place of each turn of all dialogues."""
    found, start = np.full(int(lengths.sum()), NONE), 0
    for of, length in zip(variants, lengths.tolist(), strict=True):
        for place, text in of.items():
            found[start + place] = number[text]
        start += length
    return found
