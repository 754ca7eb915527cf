"""MAUDE's test: the true response to every context of some dialogues, and the same contexts with other responses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.bots.local import prompt_text
from turnwise.engine.cache import open_cache
from turnwise.models.generate import Writer
from turnwise.models.pack import load_models
from turnwise.models.text import CausalModel
from turnwise.reproduce.cells import Ours, ended
from turnwise.reproduce.workspace import Workspace
from turnwise.stats.bootstrap import mean_interval
from turnwise.text.augment.substitute import paraphrases
from turnwise.text.corrupt import word_drop, word_order, word_repeat
from turnwise.text.tokenise import sentences

ROLE = "causal-lm"
LONGEST_REPLY = 30


def replies_to(space: Workspace, contexts: Sequence[Sequence[str]]) -> list[str] | None:
    """Return one reply to each context; None where no model can write."""
    if ROLE not in space.roles:
        return None
    source = load_models(space.models, space.device)
    fingerprint = source.fingerprint(ROLE)
    prompts = [prompt_text(context) for context in contexts]
    keys = [_key(fingerprint, prompt) for prompt in prompts]
    cache = open_cache(space.cache)
    found = {key: _text(np.asarray(answer)) for key, answer in ({} if cache is None else cache.get(keys)).items()}
    if missing := {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in found}:
        model = source.model(ROLE)
        if not isinstance(model, CausalModel):
            return None
        writer = Writer(model)
        for key, prompt in missing.items():
            found[key] = writer.sample(prompt, most=LONGEST_REPLY).text
            if cache is not None:
                cache.put({key: _numbers(found[key])})
    if cache is not None:
        cache.close()
    return [found[key] for key in keys]


def _key(fingerprint: str, prompt: str) -> bytes:
    text = json.dumps([fingerprint, "greedy reply", prompt, LONGEST_REPLY])
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).digest()


def _numbers(text: str) -> NDArray[np.float32]:
    """Return a text as the cache can hold it: the code point of every character.

    >>> _text(_numbers("na, so was – 🙂"))
    'na, so was – 🙂'
    """
    return np.array([ord(character) for character in text], dtype=np.float32)


def _text(numbers: NDArray[np.float32]) -> str:
    return "".join(chr(int(number)) for number in numbers)


TRUE = "Gold Truth Response"
REWORDED, WRITTEN = "BackTranslation", "Seq2Seq"
RANDOM, RANDOM_WRITTEN = "Random Utterance", "Random Seq2Seq"
CORRUPTIONS: Mapping[str, Callable[[str, Random], str]] = {
    "Word Drop": word_drop,
    "Word Order": word_order,
    "Word Repeat": word_repeat,
}
KINDS = (TRUE, REWORDED, WRITTEN, RANDOM, RANDOM_WRITTEN, *CORRUPTIONS)
# Samples: all the models together take some fifty milliseconds for a pair. What is compared differs by far more than
# the error of such a mean, which is shown beside it.
DIALOGUES, REPLIES = 50, 50
ZERO_SHOT_DIALOGUES = 40
TASK_ORIENTED = frozenset({"frames_train", "multiwoz_test"})


class SampledReply(NamedTuple):
    """A response to a context, which is the one before the turn `place` of a dialogue of the sample."""

    context: tuple[str, ...]
    dialogue: int
    place: int
    response: str


Answers = dict[str, list[SampledReply]]
# By dialogue, and place in it.
Scores = dict[tuple[int, int], float]
Spread = dict[str, dict[str, Ours]]


def turns_of(space: Workspace, corpus: str, most: int) -> list[tuple[str, ...]]:
    """Return what was said in a sample of dialogues, in lower case as ConvAI2 comes."""
    dialogues = [one for one in space.dialogues(corpus) if len(one.turns) > 1]
    some = Random(f"{space.seed}:{corpus}").sample(dialogues, min(most, len(dialogues)))
    return [tuple(" ".join(turn.text.lower().split()) for turn in one.turns) for one in some]


def variants(space: Workspace, corpus: str, most: int = DIALOGUES, kinds: Sequence[str] = KINDS) -> Answers:
    """Return some kinds of response to every context of a sample; written ones to a few, where a model can write.

    As in the paper, contexts of task-oriented corpora are read sentence by sentence.
    """
    test = turns_of(space, corpus, min(most, space.limit or most))
    rng = Random(f"{space.seed}:{corpus}:variants")
    found: Answers = {kind: [] for kind in kinds}
    replies = _replies(space, test, rng) if WRITTEN in kinds else {}
    said = [turns[1:] for turns in test]
    for number, turns in enumerate(test):
        for place in range(1, len(turns)):
            before = turns[:place]
            if corpus in TASK_ORIENTED:
                before = tuple(sentence for turn in before for sentence in sentences(turn))
            true = SampledReply(before, number, place, turns[place])
            found[TRUE].append(true)
            found[RANDOM].append(true._replace(response=_other(said, number, rng)))
            for kind, change in CORRUPTIONS.items():
                if kind in kinds:
                    found[kind].append(true._replace(response=change(true.response, rng)))
            if REWORDED in kinds and (again := _reworded(true.response)) != true.response:
                found[REWORDED].append(true._replace(response=again))
        if number in replies:
            place, reply = replies[number]
            written = SampledReply(turns[:place], number, place, reply)
            found[WRITTEN].append(written)
            others = [other for key, (_, other) in replies.items() if key != number]
            if others:
                found[RANDOM_WRITTEN].append(written._replace(response=rng.choice(others)))
    return {kind: some for kind, some in found.items() if some}


def _other(said: Sequence[Sequence[str]], number: int, rng: Random) -> str:
    """Return a random response of a random other dialogue."""
    place = rng.randrange(len(said) - 1) if len(said) > 1 else 0
    return rng.choice(said[place + (len(said) > 1 and place >= number)])


def _reworded(text: str) -> str:
    found = paraphrases(text, sense="first", seed=0)
    return found[0].text if found else text


def _replies(space: Workspace, test: Sequence[tuple[str, ...]], rng: Random) -> dict[int, tuple[int, str]]:
    """Return what the causal language model in use answers to one context of some dialogues."""
    places = [rng.randrange(1, len(turns)) for turns in test[:REPLIES]]
    written = replies_to(space, [turns[:place] for turns, place in zip(test, places, strict=False)])
    texts = [" ".join(text.lower().split()) for text in written or ()]
    return dict(enumerate(zip(places, texts, strict=False)))


def spread(space: Workspace, answers: Answers, requests: Sequence[str]) -> dict[str, Spread]:
    """Return by metric and kind of response: mean, deviation, and how far the mean lies below that of true ones.

    A kind that only some contexts have is held against the true responses to those contexts.
    """
    # Responses to a context come one after the other, while what was read of it is still remembered.
    rows = sorted((one, kind) for kind, some in answers.items() for one in some)
    examples = [{"context": list(one.context), "response": one.response, "system": kind} for one, kind in rows]
    judged = space.evaluated(examples, requests, intervals=False).judged
    found: dict[str, Spread] = {}
    for request in requests:
        scores: dict[str, Scores] = {}
        for (one, kind), item in zip(rows, judged, strict=True):
            if item.row.example and (value := item.scores[request].value) is not None:
                scores.setdefault(kind, {})[one.dialogue, one.place] = value
        truth = scores.get(TRUE, {})
        found[request] = {kind: _measured(some, truth, request, space.seed) for kind, some in scores.items()}
    return found


def _measured(some: Scores, truth: Scores, request: str, seed: int) -> dict[str, Ours]:
    values = np.array(list(some.values()))
    below = np.array([truth.get(place, np.nan) - value for place, value in some.items()])
    interval = mean_interval(below, [dialogue for dialogue, _ in some], seed=seed) if below.any() else None
    n = len(values)
    return {
        "mean": Ours(float(values.mean()), n=n, how=request),
        "std": Ours(float(values.std()), n=n, how=request),
        "delta": replace(ended(float(np.nanmean(below)), interval, n), how=request),
    }
