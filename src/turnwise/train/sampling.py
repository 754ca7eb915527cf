"""Which turn of which dialogue comes next: small corpora are heard more often than their size alone would allow."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from random import Random

from turnwise.errors import TurnwiseError
from turnwise.train.dialogues import Dialogue

Place = tuple[Dialogue, int]


class TooLittleError(TurnwiseError):
    """Dialogues that hold nothing of what an objective learns from."""


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
            raise TooLittleError("no turn of these dialogues can be used for this objective")
        self.corpora = sorted(places)
        self.places = [places[corpus] for corpus in self.corpora]
        self.weights = [_weight(corpus, weights or {}) * len(places[corpus]) ** power for corpus in self.corpora]
        self._cumulative = list(accumulate(self.weights))

    def draw(self, rng: Random) -> Place:
        """One place."""
        drawn = rng.random() * self._cumulative[-1]
        within = self.places[min(bisect(self._cumulative, drawn), len(self.places) - 1)]
        return within[rng.randrange(len(within))]

    def shares(self) -> dict[str, float]:
        """How often each corpus is drawn."""
        total = self._cumulative[-1]
        return {corpus: round(w / total, 4) for corpus, w in zip(self.corpora, self.weights, strict=True)}


def _weight(corpus: str, weights: Mapping[str, float]) -> float:
    """The weight of the longest name in `weights` that the corpus begins with, else one."""
    named = [name for name in weights if corpus.startswith(name)]
    return weights[max(named, key=len)] if named else 1.0
