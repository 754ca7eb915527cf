"""Held-out results of a classifier: the numbers by which a recipe is chosen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from random import Random

import numpy as np
import numpy.typing as npt

from turnwise.train.negatives import Kind, Mix
from turnwise.train.tasks import Labelled, NextUtterance, Task

Ask = Callable[[Sequence[Labelled]], npt.NDArray[np.floating]]
RANKED_AGAINST: Mapping[Kind, int] = {"random": 2, "corpus": 3, "similar": 3, "dialogue": 1, "corrupted": 1}


def f1(truth: npt.NDArray[np.bool_], guess: npt.NDArray[np.bool_]) -> float:
    """F1 of one class.

    >>> f1(np.array([True, True, False]), np.array([True, False, False]))
    0.6666666666666666
    """
    hits = int((truth & guess).sum())
    total = int(truth.sum() + guess.sum())
    return 2 * hits / total if total else 0.0


def macro_f1(truth: npt.NDArray[np.integer], guess: npt.NDArray[np.integer], labels: int) -> float:
    """Mean F1 over the labels."""
    return float(np.mean([f1(truth == label, guess == label) for label in range(labels)]))


def best_threshold(truth: npt.NDArray[np.integer], chance: npt.NDArray[np.floating]) -> tuple[float, float]:
    """The cut of a probability at which the macro-F1 of two labels is largest, and that F1."""
    cuts = [round(0.02 * step, 2) for step in range(1, 50)]
    scores = [macro_f1(truth, (chance >= cut).astype(np.int64), 2) for cut in cuts]
    best = int(np.argmax(scores))
    return cuts[best], scores[best]


def accuracy(task: Task, ask: Ask, count: int, seed: int) -> dict[str, object]:
    """Accuracy, macro-F1 and accuracy by source on freshly drawn held-out examples."""
    rng = Random(f"held out:{seed}")
    rows = [task.draw(rng) for _ in range(count)]
    chances = ask(rows)
    truth, guess = np.array([row.label for row in rows]), chances.argmax(axis=1)
    by_source: dict[str, list[bool]] = defaultdict(list)
    for row, right in zip(rows, truth == guess, strict=True):
        by_source[row.source.split(":")[-1]].append(bool(right))
    result: dict[str, object] = {
        "examples": count,
        "accuracy": round(float((truth == guess).mean()), 4),
        "macro_f1": round(macro_f1(truth, guess, len(task.labels)), 4),
        "by_source": {name: [len(r), round(sum(r) / len(r), 4)] for name, r in sorted(by_source.items())},
    }
    if len(task.labels) == 2:
        cut, score = best_threshold(truth, chances[:, 1])
        result |= {"threshold": cut, "macro_f1_at_threshold": round(score, 4)}
    return result


def ranking(task: NextUtterance, ask: Ask, count: int, seed: int) -> dict[str, object]:
    """How the true response fares against ten wrong ones to the same context, by corpus and by kind."""
    rng = Random(f"ranking:{seed}")
    kinds = [kind for kind, times in RANKED_AGAINST.items() for _ in range(times)]
    rows: list[Labelled] = []
    for number in range(count):
        within = task.places.places[number % len(task.places.places)]
        dialogue, turn = within[rng.randrange(len(within))]
        # One seed for a whole list keeps context, fact and style the same for every response in it.
        style = rng.random()
        truth = dialogue.turns[turn].text
        rows.append(task.example(dialogue, turn, truth, 1, dialogue.corpus, Random(style)))
        for kind in kinds:
            only = Mix(**{name: float(name == kind) for name in RANKED_AGAINST})
            wrong, drawn = task.negatives.draw(dialogue, turn, only, rng)
            rows.append(task.example(dialogue, turn, wrong, 0, drawn, Random(style)))
    chances = ask(rows)[:, 1].reshape(count, len(kinds) + 1)
    wins = chances[:, :1] > chances[:, 1:]
    by_corpus: dict[str, list[float]] = defaultdict(list)
    by_kind: dict[str, list[bool]] = defaultdict(list)
    for number in range(count):
        start = number * (len(kinds) + 1)
        by_corpus[rows[start].source.split(":")[0]].append(float(wins[number].mean()))
        for place in range(len(kinds)):
            by_kind[rows[start + 1 + place].source.split(":")[-1]].append(bool(wins[number, place]))
    return {
        "contexts": count,
        "pairwise": round(float(wins.mean()), 4),
        "first_of_eleven": round(float(wins.all(axis=1).mean()), 4),
        "across_contexts": round(float(np.mean(chances[:, :1, None] > chances[:, 1:].reshape(1, 1, -1))), 4),
        "by_kind": {name: round(float(np.mean(w)), 4) for name, w in sorted(by_kind.items())},
        "by_corpus": {name: round(float(np.mean(w)), 4) for name, w in sorted(by_corpus.items())},
    }
