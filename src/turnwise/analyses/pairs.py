"""Which answers of two systems belong together: those to the same context, or those of the same dialogue, or none.

A context holds what the system itself said before. Two systems that were led through the same dialogues therefore
share the first context of each and no later one; such dialogues are compared as wholes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from turnwise.dialogue import Example
from turnwise.engine.aggregate import SHARED, Key, in_pairs
from turnwise.engine.score import cluster_key, context_key
from turnwise.problems import counted

# A system that was given the baseline's contexts has hardly any other.
GIVEN = 0.9
Unit = Literal["context", "dialogue"]


class Unanswered(NamedTuple):
    """How many of so many of the baseline's contexts, or turns of its dialogues, a system left out."""

    missing: int
    of: int


@dataclass(frozen=True, slots=True)
class Answered:
    """What one system answered: contexts, with the cluster and the text of each, and dialogues, with their openings.

    `key` names a context: by its text, or by its dialogue too, as the same words may open many. `astray` counts turns
    that are in another dialogue than the first with their context.
    """

    key: Key
    contexts: dict[Hashable, int]
    openings: dict[str, Hashable]
    turns: Counter[str]
    texts: dict[Hashable, tuple[str, ...]] = field(default_factory=dict)
    astray: int = 0
    size: int = 0

    @classmethod
    def of(cls, examples: Iterable[Example], key: Key = context_key) -> Answered:
        """Return what these responses answer."""
        found = cls(key, {}, {}, Counter())
        shortest: dict[str, int] = {}
        astray = size = 0
        for example in examples:
            context = key(example)
            cluster = cluster_key(example)
            astray += found.contexts.setdefault(context, cluster) != cluster
            size += 1
            found.texts.setdefault(context, example.context)
            name, length = example.dialogue_id, len(example.context)
            if name is not None:
                found.turns[name] += 1
                if length < shortest.get(name, length + 1):
                    shortest[name], found.openings[name] = length, context
        return replace(found, astray=astray, size=size)

    @property
    def told_apart(self) -> bool:
        """Whether nearly every dialogue opens in a way of its own, and can be known by that."""
        return len(set(self.openings.values())) >= GIVEN * len(self.openings)

    @property
    def gathered(self) -> bool:
        """Return whether nearly all turns with one context are in one dialogue, so that a context has a place."""
        return self.astray <= (1 - GIVEN) * self.size

    @property
    def independent(self) -> int:
        """How many clusters there are."""
        return len(set(self.contexts.values()))


def turn_key(example: Example) -> Hashable:
    """Return which turn a response is: its context, within its dialogue where there is one."""
    context = context_key(example)
    return context if example.dialogue_id is None else (example.dialogue_id, context)


@dataclass(frozen=True, slots=True)
class Match:
    """How two systems are held against each other.

    `unit` is what is paired, None where nothing is, and `shared` how many of them both have; `contexts` is how many
    each has. `drawn` is what stands on its own, and `independent` how many there are on the side that has fewer. Of the
    shared contexts, `differing` have the same id but another text.
    """

    unit: Unit | None
    shared: int
    contexts: tuple[int, int]
    drawn: Unit
    independent: int
    unanswered: Unanswered | None
    keys: tuple[Key, Key]
    differing: int = 0

    @property
    def count(self) -> int:
        """How many contexts or dialogues the comparison stands on; unpaired, those of both systems."""
        return self.shared if self.unit is not None else sum(self.contexts)

    @property
    def basis(self) -> str:
        """What the comparison stands on, in words."""
        if self.unit is not None:
            return counted(self.shared, self.unit)
        return f"{self.contexts[0]:,} and {self.contexts[1]:,} contexts, unpaired"


def match(ours: Sequence[Example], theirs: Sequence[Example]) -> Match:
    """Return how a system is compared with a baseline.

    Turns are known by their dialogue and context if both name the same dialogues, else by their context alone.
    """
    named, plain = (tuple(Answered.of(side, key) for side in (ours, theirs)) for key in (turn_key, context_key))
    found = _match(*named)
    return found if found.unit is not None else _match(*plain)


def _match(ours: Answered, theirs: Answered) -> Match:
    mine, its = ours.contexts.keys(), theirs.contexts.keys()
    if _ways_parted(ours, theirs):
        by_opening = ours.told_apart and theirs.told_apart
        sides = [_dialogues(side, by_opening=by_opening) for side in (ours, theirs)]
        if in_pairs(sides[0].values(), sides[1].values()):
            return _by_dialogue(ours, theirs, sides[0], sides[1])
    shared = mine & its
    if in_pairs(mine, its) and ours.gathered and theirs.gathered:
        unit: Unit | None = "context"
        independent = len({ours.contexts[context] for context in shared})
    else:
        unit, independent = None, min(ours.independent, theirs.independent)
    given = len(shared) >= GIVEN * len(mine)
    gap = Unanswered(len(its - mine), len(its)) if given or unit else None
    drawn: Unit = "dialogue" if ours.openings or theirs.openings else "context"
    sizes, keys = (len(mine), len(its)), (ours.key, theirs.key)
    differing = sum(_differ(ours.texts.get(context), theirs.texts.get(context)) for context in shared)
    return Match(unit, len(shared), sizes, drawn, independent, gap, keys, differing)


def _differ(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> bool:
    """Whether two texts are both given and not the same; the id may stand for a text that was left out."""
    return bool(one and other) and one != other


def _ways_parted(ours: Answered, theirs: Answered) -> bool:
    """Whether dialogues that opened alike went on differently: of the contexts after an opening few are common."""
    mine, its = (side.contexts.keys() - set(side.openings.values()) for side in (ours, theirs))
    return bool(mine and its) and len(mine & its) < SHARED * min(len(mine), len(its))


def _dialogues(side: Answered, *, by_opening: bool) -> dict[str, Hashable]:
    """What stands for each dialogue of a system: how it opens, with its name where that does not tell them apart."""
    return {name: opening if by_opening else (name, opening) for name, opening in side.openings.items()}


def _by_dialogue(ours: Answered, theirs: Answered, mine: dict[str, Hashable], its: dict[str, Hashable]) -> Match:
    shared = set(mine.values()) & set(its.values())
    had, left = Counter[Hashable](), Counter[Hashable]()
    for turns, dialogues, side in ((had, its, theirs), (left, mine, ours)):
        for name, key in dialogues.items():
            turns[key] += side.turns[name]
    # Counters keep what is left over, and drop what was answered more often than asked.
    gap = Unanswered((had - left).total(), had.total())
    sizes = len(ours.contexts), len(theirs.contexts)
    return Match("dialogue", len(shared), sizes, "dialogue", len(shared), gap, (_in(mine), _in(its)))


def _in(dialogues: dict[str, Hashable]) -> Key:
    # A dialogue that nobody counted is one of its own.
    return lambda example: (
        context_key(example) if example.dialogue_id is None else dialogues.get(example.dialogue_id, example.dialogue_id)
    )
