"""Writing with a causal language model: the best continuations of a text by beam search, or one drawn at random.

A text is read once; what its tokens leave behind is shared by all that continues it, on either backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from turnwise.models.requests import Floats
from turnwise.models.text import CausalModel

Method = Literal["greedy", "top-k", "nucleus"]
Doubles = NDArray[np.float64]

# A turn ends at a new line, however the tokenizer spells it.
NEWLINES = ("\n", "Ċ")
MOST_TOKENS = 40
# Runs of tokens up to this length may come again within a beam.
LONGEST_REPEAT = 3


@dataclass(frozen=True, slots=True)
class Decoding:
    """How the next token is chosen: the likeliest, one of the k likeliest, or one of those that share p among them."""

    method: Method = "greedy"
    k: int = 50
    p: float = 0.9
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise ValueError(f"decoding={self.method}: choose one of {', '.join(get_args(Method))}")
        if self.k < 1:
            raise ValueError(f"k={self.k}: write a whole number of at least 1")
        if not 0 < self.p <= 1:
            raise ValueError(f"p={self.p:g}: write a number above 0, at most 1")
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature={self.temperature:g}: write a number above 0")

    def chances(self, logits: Floats | Doubles) -> Doubles:
        """Return the probability with which each token is drawn.

        >>> Decoding("nucleus", p=0.7).chances(np.log([0.5, 0.3, 0.2])).round(3).tolist()
        [0.625, 0.375, 0.0]
        """
        scores = np.asarray(logits, dtype=np.float64)
        order = np.argsort(-scores, kind="stable")
        if self.method == "greedy":
            kept = order[:1]
        else:
            scores = scores / self.temperature
            sorted_chances = np.exp(log_softmax(scores)[order])
            # A token stays while those before it have not filled p yet; so the first always stays.
            within = np.cumsum(sorted_chances) - sorted_chances < self.p
            kept = order[: self.k] if self.method == "top-k" else order[within]
        chances = np.zeros_like(scores)
        chances[kept] = np.exp(log_softmax(scores[kept]))
        return chances


@dataclass(frozen=True, slots=True)
class Written:
    """A continuation and its log-probability, that of its end included where it came to one."""

    text: str
    log_prob: float
    tokens: int

    @property
    def mean(self) -> float:
        """Return the log-probability of its average token."""
        return self.log_prob / self.tokens


def log_softmax(logits: Doubles) -> Doubles:
    """Return log-probabilities, in double precision.

    >>> np.exp(log_softmax(np.zeros(4))).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    shifted = logits - logits.max(axis=-1, keepdims=True)
    found: Doubles = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return found


class Writer:
    """Continues texts, up to the end of a line."""

    def __init__(self, model: CausalModel) -> None:
        self._model, self._network = model, model.network

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """Return tokens that end a turn: new lines, and everything that is no text."""
        names = self._model.tokens.tokenizer.get_vocab()
        ends = {index for name, index in names.items() if any(mark in name for mark in NEWLINES)}
        return np.array(sorted(ends | self._model.tokens.special), dtype=np.int64)

    @property
    def room(self) -> int | None:
        """Return the most tokens that can be written after a begin-of-text token; None if unlimited."""
        limit = self._model.tokens.limit
        return None if limit is None else limit - 1

    def _prompt(self, text: str, most: int) -> NDArray[np.int64]:
        ids = self._model.tokens.plain(text).ids
        limit = self._model.tokens.limit
        # What was said last matters most: a text that is too long loses its beginning.
        room = len(ids) if limit is None else max(0, limit - most - 1)
        return np.array([[self._model.tokens.begin, *ids[max(0, len(ids) - room) :]]], dtype=np.int64)

    def _scores(self, logits: Floats, first: bool) -> Doubles:
        """Return logits in which what must not come is impossible: an end before anything was written."""
        scores = logits.astype(np.float64)
        if first:
            scores[:, self._ends] = -np.inf
        return scores

    def _text(self, ids: tuple[int, ...]) -> str:
        return str(self._model.tokens.tokenizer.decode(list(ids))).strip()

    def sample(
        self,
        text: str,
        decoding: Decoding | None = None,
        rng: np.random.Generator | None = None,
        most: int = MOST_TOKENS,
    ) -> Written:
        """Return one continuation, token by token."""
        decoding, rng = decoding or Decoding(), rng or np.random.default_rng(0)
        ends = set(self._ends.tolist())
        logits, past = self._network.advance(self._prompt(text, most), None)
        written: tuple[int, ...] = ()
        total = 0.0
        for step in range(most):
            scores = self._scores(logits, first=step == 0)[0]
            token = int(rng.choice(len(scores), p=decoding.chances(scores)))
            total += float(log_softmax(scores)[token])
            if token in ends:
                return Written(self._text(written), total, step + 1)
            written = (*written, token)
            if step + 1 < most:
                logits, past = self._network.advance(np.array([[token]], dtype=np.int64), past)
        return Written(self._text(written), total, most)

    def greedy(self, texts: Sequence[str], longest: int, most: int = MOST_TOKENS, batch: int = 32) -> list[str]:
        """Return the greedy continuation of each text, of which the last `longest` tokens are read."""
        prompts = [self._prompt(text, most)[0] for text in texts]
        prompts = [np.concatenate([ids[:1], ids[1:][-longest:]]) for ids in prompts]
        written: list[tuple[int, ...]] = [()] * len(prompts)
        # Texts of equal length are read together: nothing has to be filled up.
        order = sorted(range(len(prompts)), key=lambda place: len(prompts[place]))
        for _, group in groupby(order, key=lambda place: len(prompts[place])):
            places = list(group)
            for start in range(0, len(places), batch):
                part = places[start : start + batch]
                for place, ids in zip(part, self._likeliest(np.stack([prompts[p] for p in part]), most), strict=True):
                    written[place] = ids
        return [self._text(ids) for ids in written]

    def _likeliest(self, ids: NDArray[np.int64], most: int) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = [()] * len(ids)
        alive = np.arange(len(ids))
        logits, past = self._network.advance(ids, None)
        for step in range(most):
            tokens = self._scores(logits, first=step == 0).argmax(axis=1)
            on = ~np.isin(tokens, self._ends)
            alive, tokens = alive[on], tokens[on]
            for row, token in zip(alive.tolist(), tokens.tolist(), strict=True):
                found[row] = (*found[row], token)
            if not len(alive) or step + 1 == most:
                break
            past = self._network.select(past, np.flatnonzero(on))
            logits, past = self._network.advance(tokens[:, None], past)
        return found

    def beams(self, text: str, count: int, most: int = MOST_TOKENS) -> list[Written]:
        """Return the best continuations, likeliest average token first; fewer where the search finds no more.

        None says the same four tokens twice: what has begun to go round only gets likelier with every round.
        """
        logits, past = self._network.advance(self._prompt(text, most), None)
        beams: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
        ends, done = set(self._ends.tolist()), list[Written]()
        for step in range(most):
            scores = log_softmax(self._scores(logits, first=step == 0))
            totals = scores + np.array([total for _, total in beams])[:, None]
            for place, (ids, _) in enumerate(beams):
                totals[place, _said_before(ids)] = -np.inf
            # Each beam may end in one way only that matters, so twice as many candidates leave enough that go on.
            alive: list[tuple[int, int, float]] = []
            for place in _highest(totals, 2 * count):
                beam, token = divmod(place, totals.shape[1])
                total = float(totals[beam, token])
                if total == -np.inf:
                    break
                if token in ends:
                    done.append(Written(self._text(beams[beam][0]), total, step + 1))
                elif len(alive) < count:
                    alive.append((beam, token, total))
            done = _best(done, count)
            if not alive or (len(done) == count and done[-1].mean >= alive[0][2] / (step + 1)):
                return done
            beams = [((*beams[beam][0], token), total) for beam, token, total in alive]
            if step + 1 < most:
                past = self._network.select(past, np.array([beam for beam, _, _ in alive], dtype=np.int64))
                logits, past = self._network.advance(np.array([[token] for _, token, _ in alive], dtype=np.int64), past)
        unfinished = [Written(self._text(ids), total, most) for ids, total in beams]
        return _best([*done, *unfinished], count)


def _said_before(ids: tuple[int, ...], run: int = LONGEST_REPEAT) -> list[int]:
    """Return the tokens that would repeat a longer run of tokens than may be repeated.

    >>> _said_before((1, 2, 3, 9, 7, 1, 2, 3)), _said_before((1, 2, 3))
    ([9], [])
    """
    return [ids[end] for end in range(run, len(ids)) if ids[end - run : end] == ids[-run:]]


def _highest(totals: Doubles, count: int) -> list[int]:
    """Return the flat places of the highest values, the highest first."""
    flat = totals.reshape(-1)
    near = np.argpartition(-flat, min(count, flat.size - 1))[:count]
    found: list[int] = near[np.lexsort((near, -flat[near]))].tolist()
    return found


def _best(found: list[Written], count: int) -> list[Written]:
    """Return the likeliest of different, non-empty texts."""
    kept: dict[str, Written] = {}
    for written in sorted(found, key=lambda item: -item.mean):
        if written.text:
            kept.setdefault(written.text, written)
    return list(kept.values())[:count]
