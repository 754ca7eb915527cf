"""Results to report on, scored by small metrics of the tests' own: each has one trait that the page must cope with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from turnwise.analyses.evaluate import Result
from turnwise.dialogue import Example
from turnwise.engine.aggregate import Summary
from turnwise.engine.score import Judged
from turnwise.io.read import read_rows
from turnwise.metrics.base import Metric, Need, Score

EXAMPLES = Path(__file__).parents[2] / "examples" / "chats.jsonl"


@dataclass(frozen=True, kw_only=True)
class Words(Metric):
    """A count without a better direction."""

    summary: ClassVar[str] = "number of words"
    cite: ClassVar[str] = "the tests"
    higher_is_better = None

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        return Score(float(len(example.response.split())))


@dataclass(frozen=True, kw_only=True)
class Overlap(Metric):
    """A share, higher is better, that needs references."""

    summary: ClassVar[str] = "share of a reference's words that the response has"
    cite: ClassVar[str] = "the tests"
    needs: ClassVar[frozenset[Need]] = frozenset({"references"})

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        said = set(example.response.lower().split())
        return Score(max(len(said & set(r.lower().split())) / len(r.split()) for r in example.references))


@dataclass(frozen=True, kw_only=True)
class Vowels(Metric):
    """A number that lower is better for, and that may be negative."""

    summary: ClassVar[str] = "share of vowels, minus a third"
    cite: ClassVar[str] = "the tests"
    higher_is_better = False

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        text = example.response.lower()
        return Score(sum(text.count(vowel) for vowel in "aeiou") / max(len(text), 1) - 1 / 3)


@dataclass(frozen=True, kw_only=True)
class Same(Metric):
    """A constant."""

    summary: ClassVar[str] = "always a half"
    cite: ClassVar[str] = "the tests"

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        return Score(0.5)


@dataclass(frozen=True, kw_only=True)
class Silent(Metric):
    """Never a score, always a reason."""

    summary: ClassVar[str] = "never says anything"
    cite: ClassVar[str] = "the tests"

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        return Score(None, note="nothing to say")


@dataclass(frozen=True, kw_only=True)
class Letters(Metric):
    """A score that says what each word costs: its letters, in pieces of three as a tokenizer makes them."""

    summary: ClassVar[str] = "mean number of letters"
    cite: ClassVar[str] = "the tests"

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        words = example.response.lower().split()
        cuts = [[word[start : start + 3] for start in range(0, len(word), 3)] for word in words]
        tokens = [(f"##{p}" if n else p, float(len(p))) for pieces in cuts for n, p in enumerate(pieces)]
        return Score(sum(map(len, words)) / max(1, len(words)), tokens=tuple(tokens))


KINDS: Mapping[str, type[Metric]] = {
    "letters": Letters,
    "words": Words,
    "overlap": Overlap,
    "vowels": Vowels,
    "same": Same,
    "silent": Silent,
}


def score(source: object, metrics: Iterable[str] = ("words", "overlap", "vowels")) -> Result:
    """What `evaluate` does, with the metrics above."""
    chosen = {name: KINDS[name.partition(" ")[0]](name=name) for name in metrics}
    summary = Summary(chosen)
    judged = [
        Judged(row, {key: _judge(metric, row.example) for key, metric in chosen.items()} if row.example else {})
        for row in read_rows(source, corpus=None, mapping=None)
    ]
    for item in judged:
        summary.add(item)
    return Result(chosen, judged, summary.system_values(seed=0), summary)


def _judge(metric: Metric, example: Example) -> Score:
    unmet = metric.unmet_need(example)
    return Score(None, note=unmet) if unmet else metric.judge(example)
