"""The local engine: rows in, judged rows out, in the same order and number, a window at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice

from turnwise.dialogue import Example, Row
from turnwise.errors import TurnwiseError
from turnwise.interrupts import at_once
from turnwise.metrics.base import Metric, Score
from turnwise.models.requests import Answer, Request
from turnwise.models.text import MissingLayer
from turnwise.problems import Problem

# All requests of a window are answered together: enough rows to fill batches of equal length, few enough for memory.
WINDOW = 2048

Ask = Callable[[Iterable[Request]], Mapping[Request, Answer]]


@dataclass(frozen=True, slots=True)
class Judged:
    """A row and its scores by requested metric; a row that could not be read has none.

    `number` is the row's place in the whole run, of which this process may see only a part.
    """

    row: Row
    scores: Mapping[str, Score]
    number: int = 0


def judge_rows(rows: Iterable[Row], metrics: Mapping[str, Metric], ask: Ask) -> Iterator[Judged]:
    """Judge every readable row by every metric. `ask` puts all requests of a window to the models at once."""
    stream = iter(rows)
    while window := _window(stream):
        examples = [row.example for row in window]
        scores = judge_examples([example for example in examples if example], metrics, ask)
        judged = iter(scores)
        for row in window:
            yield Judged(row, next(judged) if row.example else {})


def _window(stream: Iterator[Row]) -> list[Row]:
    """Return the next rows; an interrupt need not wait for a pipe, since no row of these is counted yet."""
    with at_once():
        return list(islice(stream, WINDOW))


def judge_examples(examples: Sequence[Example], metrics: Mapping[str, Metric], ask: Ask) -> list[dict[str, Score]]:
    """The scores of each example; what is missing becomes a note, never an exception."""
    asking = {key: metric for key, metric in metrics.items() if type(metric).requests is not Metric.requests}
    unmet = [{key: metric.unmet_need(example) for key, metric in metrics.items()} for example in examples]
    requests = [
        {key: metric.requests(example) for key, metric in asking.items() if lacking[key] is None}
        for example, lacking in zip(examples, unmet, strict=True)
    ]
    wanted = [request for by_metric in requests for asked in by_metric.values() for request in asked]
    try:
        answers = ask(wanted) if wanted else {}
    except MissingLayer as problem:
        raise TurnwiseError(f"{_asking_for(problem.layer, requests)}: {problem}") from None
    return [
        {
            key: _judged(metric, example, [answers[request] for request in asked.get(key, ())])
            if lacking[key] is None
            else Score(None, note=lacking[key])
            for key, metric in metrics.items()
        }
        for example, lacking, asked in zip(examples, unmet, requests, strict=True)
    ]


def _asking_for(layer: int, requests: Iterable[Mapping[str, Sequence[Request]]]) -> str:
    """The metrics that ask for a layer."""
    every = ((key, request) for by_metric in requests for key, asked in by_metric.items() for request in asked)
    return ", ".join(dict.fromkeys(key for key, request in every if getattr(request, "layer", None) == layer))


def _judged(metric: Metric, example: Example, answers: Sequence[Answer]) -> Score:
    """A metric's score; what somebody else's metric does wrong costs its own score of that row, and says so."""
    try:
        score = metric.judge(example, answers)
    except Exception as problem:
        if isinstance(problem, TurnwiseError) or type(metric).__module__.partition(".")[0] == "turnwise":
            raise
        return Score(None, note=Problem.of("score.metric_failed", error=type(problem).__name__, text=str(problem)))
    note: object = score.note
    if isinstance(note, str):
        # Metrics from outside may give plain text.
        score = replace(score, note=Problem.of("other", text=note))
    if score.value is not None and not math.isfinite(score.value):
        return replace(score, value=None, note=Problem.of("score.not_finite", value=score.value))
    return score


def context_key(example: Example) -> int:
    """Which context a response answers, as 64 bits: two systems are paired where their keys are equal.

    Responses without a context have nothing in common but, perhaps, the name of the row.
    """
    if example.context_id is not None:
        return hash64("i", example.context_id)
    return hash64("c", *example.context) if example.context or not example.id else hash64("r", example.id)


def cluster_key(example: Example) -> int:
    """What is resampled together: turns of one dialogue, or responses to one context, are not independent."""
    if example.dialogue_id is not None:
        return hash64("d", example.dialogue_id)
    return context_key(example)


def hash64(*parts: str) -> int:
    """Return texts as 64 bits, the same on every machine."""
    digest = blake2b("\x1f".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
