"""Labelled pairs of texts for each objective, drawn from a seeded generator, and their evaluation."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from turnwise.engine.session import Session
from turnwise.errors import TurnwiseError
from turnwise.models.requests import Embed, Floats
from turnwise.text.corrupt import valid_or_corrupted
from turnwise.text.inputs import (
    LEAST_OF_MEANING,
    LEAST_OF_WORDS,
    ChooseFact,
    TfIdf,
    by_meaning,
    by_words,
    context_text,
    restyled,
)
from turnwise.train import contradictions
from turnwise.train.config import Config
from turnwise.train.dialogues import Dialogue, lines_of, merge_runs
from turnwise.train.sampling import Mix, Negatives, Places, WrongKind

if TYPE_CHECKING:
    from tokenizers import Tokenizer


NO_EMOTION = frozenset({"no_emotion", "none", "neutral"})
# The label of an example that only a teacher can judge: no loss is taken from it.
UNKNOWN = -100
NLI_NAMES = {"c": "contradiction", "n": "neutral", "e": "entailment"}


@dataclass(frozen=True, slots=True)
class Labelled:
    """One example: text A (or none), text B, and the index of its label."""

    first: str | None
    second: str
    label: int
    source: str = ""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A context, a reply that a model wrote, and the last turn of the replaced speaker, if any."""

    context: tuple[str, ...]
    response: str
    earlier: str = ""


@lru_cache(maxsize=2)
def read_replies(path: Path | None) -> tuple[ModelReply, ...]:
    """Return the replies in a file; none without a file."""
    if path is None:
        return ()
    rows = (json.loads(line) for _, line in lines_of(path))
    return tuple(ModelReply(tuple(row["context"]), row["response"], row["earlier"]) for row in rows)


class Task(ABC):
    """An objective of a classifier: the name and the labels of its head."""

    name: str
    labels: tuple[str, ...]

    @abstractmethod
    def draw(self, rng: Random) -> Labelled:
        """Return one example."""


class NextUtteranceTask(Task):
    """True responses against wrong ones, half of the time with a fact before the context."""

    name = "nup"
    labels = ("other", "next")

    def __init__(self, dialogues: Sequence[Dialogue], config: Config, tfidf: TfIdf) -> None:
        pool = [merge_runs(dialogue) for dialogue in dialogues]
        self.places = Places(pool, power=config.corpus_power, weights=config.corpus_weights)
        self.negatives = Negatives(pool, tfidf)
        self._choose_fact, self._config = fact_chooser(config, tfidf), config
        self._replies = read_replies(config.replies)

    def draw(self, rng: Random) -> Labelled:
        if self._replies and rng.random() < self._config.reply_share:
            return self._unjudged(rng.choice(self._replies), rng)
        dialogue, turn = self.places.draw(rng)
        label = rng.randrange(2)
        truth, kind = dialogue.turns[turn].text, "true"
        response = truth
        if not label:
            response, kind = self.negatives.draw(dialogue, turn, self._config.mix, rng)
        return self.example(dialogue, turn, response, label, kind, rng)

    def _unjudged(self, reply: ModelReply, rng: Random) -> Labelled:
        *turns, response = restyled([*reply.context, reply.response], rng, self._config.restyle)
        return Labelled(context_text(turns), response, UNKNOWN, "written by a model")

    def example(self, dialogue: Dialogue, turn: int, response: str, label: int, kind: str, rng: Random) -> Labelled:
        """Return the example of this response at this turn, true or not."""
        fact = None
        facts = dialogue.facts_for(dialogue.turns[turn].speaker)
        if facts and rng.random() < self._config.fact_share:
            # The fact of the true response, also for a wrong one: otherwise it would reveal the label.
            fact = self._choose_fact(dialogue.turns[turn].text, facts, -1.0)
        kept = rng.randint(1, 6) if rng.random() < 0.3 else 6
        turns = [t.text for t in dialogue.turns[max(0, turn - kept) : turn]]
        *texts, response = restyled([fact or "", *turns, response], rng, self._config.restyle)
        context = context_text(texts[1:], texts[0] or None)
        return Labelled(context, response, label, f"{dialogue.corpus}:{kind}")


class FactTask(Task):
    """Responses about a fact against responses from elsewhere or without the fact."""

    name = "dr-f"
    labels = ("other", "about the fact")

    def __init__(self, dialogues: Sequence[Dialogue], config: Config, tfidf: TfIdf) -> None:
        pool = [merge_runs(dialogue) for dialogue in dialogues]
        choose_fact = fact_chooser(config, tfidf)
        least = LEAST_OF_WORDS if config.facts_by == "words" else LEAST_OF_MEANING
        self._facts: dict[tuple[str, int], str] = {}

        def about_a_fact(dialogue: Dialogue, turn: int) -> bool:
            facts = dialogue.facts_for(dialogue.turns[turn].speaker)
            fact = choose_fact(dialogue.turns[turn].text, facts, least) if facts else None
            if fact:
                self._facts[dialogue.id, turn] = fact
            return fact is not None

        self.places = Places(
            pool, first=0, power=config.corpus_power, weights=config.corpus_weights, usable=about_a_fact
        )
        self.negatives = Negatives(pool, tfidf)
        self._config = config

    def draw(self, rng: Random) -> Labelled:
        dialogue, turn = self.places.draw(rng)
        fact = self._facts[dialogue.id, turn]
        label, kind, response = 1, "true", dialogue.turns[turn].text
        if rng.random() < 0.5:
            label = 0
            # A broken response is still about its fact.
            response, kind = self.negatives.draw(dialogue, turn, replace(self._config.mix, corrupted=0.0), rng)
        fact, response = restyled([fact, response], rng, self._config.restyle)
        return Labelled(context_text([], fact), response, label, f"{dialogue.corpus}:{kind}")


class ValidityTask(Task):
    """Human utterances against corrupted ones."""

    name = "vup"
    labels = ("broken", "valid")

    def __init__(self, dialogues: Sequence[Dialogue], config: Config) -> None:
        self.places = Places(dialogues, first=0, power=config.corpus_power, weights=config.corpus_weights)
        self._config = config
        self._split = str.split if config.corruption.unit == "word" else _reading_pieces(config.base)

    def draw(self, rng: Random) -> Labelled:
        dialogue, turn = self.places.draw(rng)
        drawn = valid_or_corrupted(dialogue.turns[turn].text, rng, split=self._split, rules=self._config.corruption)
        (text,) = restyled([drawn.text], rng, self._config.restyle)
        return Labelled(None, text, int(drawn.valid), drawn.kind)


def _reading_pieces(base: Path) -> Callable[[str], Sequence[str]]:
    """Return a function that cuts a text as the base model's tokenizer does, with the marks of pieces."""
    from tokenizers import Tokenizer

    return partial(_pieces, Tokenizer.from_file(str(base / "tokenizer.json")))


def _pieces(tokenizer: Tokenizer, text: str) -> Sequence[str]:
    pieces: Sequence[str] = tokenizer.encode(text, add_special_tokens=False).tokens
    return pieces


class InferenceTask(Task):
    """Contradiction, entailment or neither between two utterances, of labelled files and of dialogues."""

    name = "nli"
    labels = contradictions.LABELS

    def __init__(self, dialogues: Sequence[Dialogue], config: Config, rows: Sequence[Labelled]) -> None:
        self._rows = {label: [r for r in rows if r.label == label] for label in range(len(self.labels))}
        self._made = contradictions.InferencePairs(dialogues)
        self._replies = [reply for reply in read_replies(config.replies) if reply.earlier]
        self._config = config

    def draw(self, rng: Random) -> Labelled:
        if self._replies and rng.random() < self._config.reply_share:
            reply = rng.choice(self._replies)
            earlier, response = restyled([reply.earlier, reply.response], rng, self._config.restyle)
            return Labelled(earlier, response, UNKNOWN, "written by a model")
        label = rng.randrange(len(self.labels))
        if self._rows[label] and rng.random() < 0.4:
            row = rng.choice(self._rows[label])
            premise, hypothesis = restyled([row.first or "", row.second], rng, self._config.restyle / 2)
            return Labelled(premise, hypothesis, row.label, row.source)
        pair = self._made.draw(rng)
        return Labelled(pair.premise, pair.hypothesis, self.labels.index(pair.label), pair.source)


class EmotionTask(Task):
    """Utterances with and without an emotion, alone or after the turns before them."""

    name = "emotion"
    labels = ("no emotion", "emotion")

    def __init__(self, dialogues: Sequence[Dialogue], config: Config) -> None:
        self.places = [
            Places(dialogues, first=0, power=config.corpus_power, weights=config.corpus_weights, usable=usable)
            for usable in (_calm, _moved)
        ]
        self._config = config

    def draw(self, rng: Random) -> Labelled:
        label = int(rng.random() < 0.35)
        dialogue, turn = self.places[label].draw(rng)
        return self.example(dialogue, turn, rng.random() < 0.75, rng)

    def example(self, dialogue: Dialogue, turn: int, with_context: bool, rng: Random) -> Labelled:
        """Return the example of one turn, with up to three turns before it if asked."""
        before = [t.text for t in dialogue.turns[max(0, turn - 3) : turn]] if with_context else []
        *before, text = restyled([*before, dialogue.turns[turn].text], rng, self._config.restyle)
        label = int(_moved(dialogue, turn))
        return Labelled(context_text(before) if before else None, text, label, dialogue.corpus)


def _calm(dialogue: Dialogue, turn: int) -> bool:
    emotion = dialogue.turns[turn].emotion
    return emotion is not None and emotion.lower() in NO_EMOTION


def _moved(dialogue: Dialogue, turn: int) -> bool:
    emotion = dialogue.turns[turn].emotion
    return emotion is not None and emotion.lower() not in NO_EMOTION


def read_pairs(paths: Sequence[Path], labels: Sequence[str] = contradictions.LABELS) -> list[Labelled]:
    """Return labelled premise-hypothesis rows; of files with two labels only the entailment rows are used."""
    rows: list[Labelled] = []
    for path in paths:
        for number, line in lines_of(path):
            premise, hypothesis, label = _parse_pair(line, f"{path}:{number}")
            name = NLI_NAMES.get(label, label)
            if name in labels:
                rows.append(Labelled(premise, hypothesis, labels.index(name), path.name.split(".")[0]))
    return rows


def _parse_pair(line: str, where: str) -> tuple[str, str, str]:
    try:
        item = json.loads(line)
        return str(item["premise"]), str(item["hypothesis"]), str(item["label"])
    except (ValueError, KeyError, TypeError) as problem:
        expected = '{"premise": "...", "hypothesis": "...", "label": "contradiction"}'
        raise TurnwiseError(f"{where}: not a labelled pair ({problem}); expected {expected}") from None


def fact_chooser(config: Config, tfidf: TfIdf) -> ChooseFact:
    """Return the function that picks the fact that a response is about."""
    if config.facts_by == "words":
        return by_words(tfidf)
    ask = Session(cache="off").answer

    @lru_cache(maxsize=100_000)
    def vector(text: str) -> Floats:
        request = Embed(text)
        return np.asarray(ask([request])[request])

    return by_meaning(lambda texts: np.array([vector(text) for text in texts]))


def build(name: str, dialogues: Sequence[Dialogue], config: Config, rows: Sequence[Labelled] = ()) -> Task:
    """Return the task of one objective over these dialogues."""
    if name == "vup":
        return ValidityTask(dialogues, config)
    if name == "nli":
        return InferenceTask(dialogues, config, rows)
    if name == "emotion":
        labelled = [dialogue for dialogue in dialogues if dialogue.corpus.startswith(config.emotions_from)]
        return EmotionTask(labelled, config)
    tfidf = TfIdf(turn.text for dialogue in dialogues for turn in dialogue.turns)
    return (NextUtteranceTask if name == "nup" else FactTask)(dialogues, config, tfidf)


Ask = Callable[[Sequence[Labelled]], npt.NDArray[np.floating]]
RANKED_AGAINST: Mapping[WrongKind, int] = {"random": 2, "corpus": 3, "similar": 3, "dialogue": 1, "corrupted": 1}


def f1(truth: npt.NDArray[np.bool_], guess: npt.NDArray[np.bool_]) -> float:
    """Return F1 of one class.

    >>> f1(np.array([True, True, False]), np.array([True, False, False]))
    0.6666666666666666
    """
    hits = int((truth & guess).sum())
    total = int(truth.sum() + guess.sum())
    return 2 * hits / total if total else 0.0


def macro_f1(truth: npt.NDArray[np.integer], guess: npt.NDArray[np.integer], labels: int) -> float:
    """Return mean F1 over the labels."""
    return float(np.mean([f1(truth == label, guess == label) for label in range(labels)]))


def best_threshold(truth: npt.NDArray[np.integer], chance: npt.NDArray[np.floating]) -> tuple[float, float]:
    """Return the cut of a probability at which the macro-F1 of two labels is largest, and that F1."""
    cuts = [round(0.02 * step, 2) for step in range(1, 50)]
    scores = [macro_f1(truth, (chance >= cut).astype(np.int64), 2) for cut in cuts]
    best = int(np.argmax(scores))
    return cuts[best], scores[best]


def accuracy(task: Task, ask: Ask, count: int, seed: int) -> dict[str, object]:
    """Return accuracy, macro-F1 and accuracy by source on freshly drawn held-out examples."""
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


def ranking(task: NextUtteranceTask, ask: Ask, count: int, seed: int) -> dict[str, object]:
    """Return how often the true response beats ten wrong ones to the same context, by corpus and by kind."""
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
