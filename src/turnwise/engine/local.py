"""The local engine: rows in, judged rows out, in the same order and number, a window at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from turnwise.dialogue import Example, Row
from turnwise.metrics.base import Metric, Score

NOT_SCORED: Mapping[str, Score] = {}


@dataclass(frozen=True, slots=True)
class Judged:
    """A row and its scores by requested metric; a row that could not be read has none."""

    row: Row
    scores: Mapping[str, Score]


def judge_rows(rows: Iterable[Row], metrics: Mapping[str, Metric]) -> Iterator[Judged]:
    """Judge every readable row by every turn-level metric."""
    for row in rows:
        if row.example is None:
            yield Judged(row, NOT_SCORED)
        else:
            yield Judged(row, {key: judge(metric, row.example) for key, metric in metrics.items()})


def judge(metric: Metric, example: Example) -> Score:
    """One metric on one example; what is missing becomes a note, never an exception."""
    unmet = metric.unmet_need(example)
    return Score(None, note=unmet) if unmet else metric.judge(example)


def context_key(example: Example) -> int:
    """Which context a response answers, as 64 bits: two systems are paired where their keys are equal."""
    named = example.context_id is not None
    return _hash64("i", example.context_id or "") if named else _hash64("c", *example.context)


def cluster_key(example: Example) -> int:
    """What is resampled together: turns of one dialogue, or responses to one context, are not independent."""
    if example.dialogue_id is not None:
        return _hash64("d", example.dialogue_id)
    return context_key(example)


def _hash64(*parts: str) -> int:
    digest = blake2b("\x1f".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
