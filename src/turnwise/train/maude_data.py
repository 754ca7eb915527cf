"""What MAUDE learns from: dialogues, with the wrong and the reworded responses at some of their turns.

Negatives are those of Sinha et al. 2020. Their files hold one draw of each kind for every response; so do ours for
what changes words. `maude_draws` draws the others and makes batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Any, Literal, get_args

from turnwise.text.corrupt import word_drop, word_order, word_repeat
from turnwise.text.inputs import spaced
from turnwise.train.dialogues import Dialogue

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
    reply: Callable[[Sequence[Sequence[str]]], list[str]] | None = None,
    replies: int = 0,
    restyle: float = 1.0,
) -> list[Sampled]:
    """Dialogues with their variants; at most `corrupt` turns of each are varied, at all of them if it is None.

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
