"""Sampling of turns and of wrong responses; small corpora are drawn more often than their size alone would give."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Literal

from turnwise.errors import TurnwiseError
from turnwise.text.corrupt import drop, reorder, repeat
from turnwise.text.inputs import TfIdf, cosine
from turnwise.train.dialogues import Dialogue

Place = tuple[Dialogue, int]


class TooLittleError(TurnwiseError):
    """Too few dialogues for an objective."""


class Places:
    """Draws (dialogue, turn), the corpus with probability proportional to weight x turns ** power."""

    def __init__(
        self,
        dialogues: Sequence[Dialogue],
        *,
        first: int = 1,
        power: float = 0.5,
        weights: Mapping[str, float] | None = None,
        usable: Callable[[Dialogue, int], bool] | None = None,
    ) -> None:
        places: dict[str, list[Place]] = defaultdict(list)
        for dialogue in dialogues:
            for turn in range(first, len(dialogue.turns)):
                if usable is None or usable(dialogue, turn):
                    places[dialogue.corpus].append((dialogue, turn))
        if not places:
            raise TooLittleError("dialogues: expected a turn that this objective can use, got none")
        self.corpora = sorted(places)
        self.places = [places[corpus] for corpus in self.corpora]
        self.weights = [_weight(corpus, weights or {}) * len(places[corpus]) ** power for corpus in self.corpora]
        self._cumulative = list(accumulate(self.weights))

    def draw(self, rng: Random) -> Place:
        """Return one place."""
        drawn = rng.random() * self._cumulative[-1]
        within = self.places[min(bisect(self._cumulative, drawn), len(self.places) - 1)]
        return within[rng.randrange(len(within))]

    def shares(self) -> dict[str, float]:
        """Return how often each corpus is drawn."""
        total = self._cumulative[-1]
        return {corpus: round(w / total, 4) for corpus, w in zip(self.corpora, self.weights, strict=True)}


def _weight(corpus: str, weights: Mapping[str, float]) -> float:
    """Return the weight of the longest name in `weights` that the corpus begins with, else one."""
    named = [name for name in weights if corpus.startswith(name)]
    return weights[max(named, key=len)] if named else 1.0


WrongKind = Literal["random", "corpus", "dialogue", "similar", "corrupted", "written"]


WRITTEN_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Mix:
    """How often each kind of wrong response is drawn; the shares need not add up to one."""

    random: float = 0.35
    corpus: float = 0.25
    dialogue: float = 0.15
    similar: float = 0.10
    corrupted: float = 0.15

    def draw(self, rng: Random) -> WrongKind:
        """Return one kind."""
        kinds: tuple[WrongKind, ...] = ("random", "corpus", "dialogue", "similar", "corrupted")
        return rng.choices(kinds, [getattr(self, kind) for kind in kinds])[0]


def corrupted(response: str, rng: Random) -> str | None:
    """Return the response with its words reordered, dropped or repeated; None if it is too short to be harmed."""
    words = response.split()
    if len(words) < 3:
        return None
    return " ".join(rng.choice((reorder, drop, repeat))(words, rng))


class Negatives:
    """Draws wrong responses for a turn of a dialogue out of a pool of dialogues."""

    def __init__(self, pool: Sequence[Dialogue], tfidf: TfIdf | None = None, candidates: int = 40) -> None:
        if len(pool) < 2:
            raise TooLittleError("dialogues: expected at least two, as wrong responses come from others")
        self._pool = pool
        self._tfidf = tfidf
        self._candidates = candidates
        self._by_corpus: dict[str, list[int]] = defaultdict(list)
        for index, dialogue in enumerate(pool):
            self._by_corpus[dialogue.corpus].append(index)

    def draw(self, dialogue: Dialogue, turn: int, mix: Mix, rng: Random) -> tuple[str, WrongKind]:
        """Return a wrong response in place of `dialogue.turns[turn]`, and its kind.

        A kind that this turn does not allow (nothing else in the dialogue, too short to corrupt) falls back to
        a random utterance. Where people wrote wrong answers, half of the time it is one of theirs. The true
        response itself is never returned.
        """
        truth = dialogue.turns[turn].text
        if dialogue.wrong and turn == len(dialogue.turns) - 1 and rng.random() < WRITTEN_SHARE:
            return rng.choice(dialogue.wrong), "written"
        kind = mix.draw(rng)
        wrong: str | None = None
        if kind == "corpus":
            wrong = self._elsewhere(dialogue, truth, self._by_corpus.get(dialogue.corpus, ()), rng)
        elif kind == "dialogue":
            wrong = self.same_dialogue(dialogue, turn, rng)
        elif kind == "similar":
            wrong = self.similar(dialogue, turn, rng)
        elif kind == "corrupted":
            wrong = corrupted(truth, rng)
        if wrong is None or wrong == truth:
            return self.random_utterance(dialogue, truth, rng), "random"
        return wrong, kind

    def random_utterance(self, dialogue: Dialogue, truth: str, rng: Random) -> str:
        """Return a random turn of another dialogue, any corpus: first the dialogue, then the turn, as MAUDE draws."""
        found = self._elsewhere(dialogue, truth, range(len(self._pool)), rng)
        if found is None:
            raise ValueError("all other dialogues have the same text")
        return found

    def same_dialogue(self, dialogue: Dialogue, turn: int, rng: Random) -> str | None:
        """Return another turn of the same dialogue, however near."""
        truth = dialogue.turns[turn].text
        others = [t.text for i, t in enumerate(dialogue.turns) if i != turn and t.text != truth]
        return rng.choice(others) if others else None

    def similar(self, dialogue: Dialogue, turn: int, rng: Random) -> str | None:
        """Return the one of some random turns of the same corpus whose words are closest to the context or the truth.

        Choosing among a sample keeps wrong answers hard without looking for the one that is right after all.
        """
        if self._tfidf is None:
            raise ValueError("similar negatives need a TfIdf")
        truth = dialogue.turns[turn].text
        near = dialogue.turns[turn - 1].text if turn and rng.random() < 0.5 else truth
        wanted = self._tfidf.vector(near)
        same = self._by_corpus.get(dialogue.corpus, ())
        drawn = [self._elsewhere(dialogue, truth, same, rng) for _ in range(self._candidates)]
        found = [text for text in drawn if text is not None]
        if not found:
            return None
        return max(found, key=lambda text: cosine(wanted, self._tfidf.vector(text)))  # type: ignore[union-attr]

    def _elsewhere(
        self, dialogue: Dialogue, truth: str, among: Sequence[int], rng: Random, tries: int = 20
    ) -> str | None:
        """Return a random turn of a random other dialogue, or None if chance brings up nothing new."""
        for _ in range(tries if among else 0):
            other = self._pool[among[rng.randrange(len(among))]]
            if other.id != dialogue.id and other.turns:
                text = other.turns[rng.randrange(len(other.turns))].text
                if text != truth:
                    return text
        return None
