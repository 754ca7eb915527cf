"""MAUDE's test: the true response to every context of some dialogues, and the same contexts with other responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

import numpy as np

from turnwise.bots.language_model import prompt_text
from turnwise.models.generate import Writer
from turnwise.models.pack import load_models
from turnwise.models.tasks import CausalModel
from turnwise.reproduce.cells import Ours
from turnwise.reproduce.room import Room
from turnwise.text.augment.substitute import paraphrases
from turnwise.text.corrupt import word_drop, word_order, word_repeat

TRUE = "Gold Truth Response"
REWORDED, WRITTEN = "BackTranslation", "Seq2Seq"
RANDOM, RANDOM_WRITTEN = "Random Utterance", "Random Seq2Seq"
CORRUPTIONS: Mapping[str, Callable[[str, Random], str]] = {
    "Word Drop": word_drop,
    "Word Order": word_order,
    "Word Repeat": word_repeat,
}
KINDS = (TRUE, REWORDED, WRITTEN, RANDOM, RANDOM_WRITTEN, *CORRUPTIONS)
# Enough for a mean whose error is far below what is compared, few enough for a minute.
DIALOGUES, REPLIES, LONGEST_REPLY = 100, 60, 30
Pairs = dict[str, list[tuple[tuple[str, ...], str]]]
Spread = dict[str, dict[str, Ours]]


def turns_of(room: Room, corpus: str, most: int) -> list[tuple[str, ...]]:
    """What was said in a sample of dialogues, in lower case as ConvAI2 comes."""
    dialogues = [one for one in room.dialogues(corpus) if len(one.turns) > 1]
    some = Random(f"{room.seed}:{corpus}").sample(dialogues, min(most, len(dialogues)))
    return [tuple(" ".join(turn.text.lower().split()) for turn in one.turns) for one in some]


def variants(room: Room, corpus: str, *, written: bool) -> Pairs:
    """Every kind of response to the contexts of a test corpus; generated ones to a few, where a model can write."""
    most = min(DIALOGUES, room.limit or DIALOGUES)
    test = turns_of(room, corpus, most)
    rng = Random(f"{room.seed}:{corpus}:variants")
    found: Pairs = {kind: [] for kind in KINDS}
    replies = _replies(room, test, rng) if written else {}
    said = [turns[1:] for turns in test]
    for number, turns in enumerate(test):
        for place in range(1, len(turns)):
            context, response = turns[:place], turns[place]
            found[TRUE].append((context, response))
            found[RANDOM].append((context, _other(said, number, rng)))
            for kind, change in CORRUPTIONS.items():
                found[kind].append((context, change(response, rng)))
            if (again := _reworded(response)) != response:
                found[REWORDED].append((context, again))
        if number in replies:
            place, reply = replies[number]
            found[WRITTEN].append((turns[:place], reply))
            others = [other for key, (_, other) in replies.items() if key != number]
            if others:
                found[RANDOM_WRITTEN].append((turns[:place], rng.choice(others)))
    return {kind: pairs for kind, pairs in found.items() if pairs}


def _other(said: Sequence[Sequence[str]], number: int, rng: Random) -> str:
    """A random response of a random other dialogue."""
    place = rng.randrange(len(said) - 1) if len(said) > 1 else 0
    return rng.choice(said[place + (len(said) > 1 and place >= number)])


def _reworded(text: str) -> str:
    found = paraphrases(text, sense="first", seed=0)
    return found[0].text if found else text


def _replies(room: Room, test: Sequence[tuple[str, ...]], rng: Random) -> dict[int, tuple[int, str]]:
    """What the causal language model in use answers, greedily, to one context of some dialogues."""
    if "causal-lm" not in room.roles:
        return {}
    model = load_models(room.models, room.device).model("causal-lm")
    if not isinstance(model, CausalModel):
        return {}
    writer = Writer(model)
    replies = {}
    for number, turns in enumerate(test[:REPLIES]):
        place = rng.randrange(1, len(turns))
        text = writer.sample(prompt_text(turns[:place]), most=LONGEST_REPLY).text
        replies[number] = (place, " ".join(text.lower().split()))
    return replies


def spread(room: Room, pairs: Pairs, requests: Sequence[str]) -> dict[str, Spread]:
    """By metric and kind of response: mean, standard deviation, and how far the mean lies below the true ones'.

    A kind that only some contexts have is held against the true responses to those contexts.
    """
    rows = [
        {"context": list(context), "response": response, "system": kind}
        for kind, some in pairs.items()
        for context, response in some
    ]
    judged = [item for item in room.evaluated(rows, requests).judged if item.row.example]
    found: dict[str, Spread] = {}
    for request in requests:
        scores: dict[str, list[tuple[tuple[str, ...], float]]] = {}
        for item in judged:
            value = item.scores[request].value
            if item.row.example and value is not None:
                scores.setdefault(item.row.example.system, []).append((item.row.example.context, value))
        truth = dict(scores.get(TRUE, ()))
        found[request] = {kind: _measured(some, truth, request) for kind, some in scores.items()}
    return found


def _measured(
    some: Sequence[tuple[tuple[str, ...], float]], truth: Mapping[tuple[str, ...], float], request: str
) -> dict[str, Ours]:
    values = np.array([value for _, value in some])
    same = np.array([truth[context] for context, _ in some if context in truth])
    n = len(values)
    return {
        "mean": Ours(float(values.mean()), n=n, how=request),
        "std": Ours(float(values.std()), n=n, how=request),
        "delta": Ours(float(same.mean() - values.mean()), n=n, how=request),
    }
