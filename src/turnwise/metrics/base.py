"""What a metric is: facts about itself, and a pure judgement of one example.

A metric never loads a model, batches, caches or prints; the engine does. Its options are the fields of a
frozen dataclass, so that `NAME[key=value]`, the signature and the documentation all read them off the class.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar, get_args

from turnwise.dialogue import Example, is_blank
from turnwise.errors import TurnwiseError
from turnwise.models.requests import Request
from turnwise.problems import Problem
from turnwise.stats.arrays import FloatArray, IntArray

Mode = Literal["recommended", "paper", "released"]
MODES: tuple[Mode, ...] = get_args(Mode)
Level = Literal["turn", "group", "system"]
Need = Literal["context", "references", "facts", "group"]

K = TypeVar("K", bound=str)


@dataclass(frozen=True, slots=True)
class PartScore:
    """Hold what one part adds to a composite's score; None for what its rule does not have."""

    name: str
    raw: float
    scaled: float
    weight: float | None = None
    contribution: float | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """Hold a judgement. `value` is None if there is nothing to judge; `note` then says why.

    `tokens` are the tokens that a language model judged, each with its surprisal in nats.
    `breakdown` holds the parts of a composite; `parts` has the same numbers, and more, by name.
    `evidence` is what the turn adds to a value that is computed from many turns: of its group, system or run.

    >>> import turnwise as tw
    >>> score = tw.load_metric("f1").score(response="Hello there.", references=["Hello!"])
    >>> score.value, score.explanation
    (0.4, '0.4 (precision 0.3333, recall 0.5)')
    """

    value: float | None
    parts: Mapping[str, float] = field(default_factory=dict)
    note: Problem | None = None
    tokens: tuple[tuple[str, float], ...] = ()
    evidence: Any = None
    breakdown: tuple[PartScore, ...] = ()

    @property
    def counts(self) -> bool:
        """Return whether the turn has a share in its system's value."""
        return self.value is not None or self.evidence is not None

    @property
    def explanation(self) -> str:
        """Return the value and what it is made of, in words."""
        value = "no score" if self.value is None else f"{self.value:.4g}"
        parts = ", ".join(f"{name} {part:.4g}" for name, part in self.parts.items())
        return value + (f" ({parts})" if parts else "") + (f": {self.note}" if self.note else "")


@dataclass(frozen=True, slots=True)
class Measured:
    """The value of a whole system: what it is made of, the curve that it is read off, and its resamples' values.

    `note` says why there is no value.
    """

    value: float | None
    parts: Mapping[str, float] = field(default_factory=dict)
    curve: tuple[tuple[float, float], ...] = ()
    resampled: tuple[float, ...] = ()
    note: Problem | None = None


class Statistic(Protocol):
    """What a pooled value is made of: it adds up over examples, shards and machines, in any order."""

    def __add__(self, other: Self, /) -> Self: ...

    def __sub__(self, other: Self, /) -> Self:
        """Return what is left without a part that was added before: an interval leaves out one block at a time."""
        ...


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """Define what every metric has. Subclasses are frozen dataclasses; their extra fields are their options.

    >>> import turnwise as tw
    >>> metric = tw.load_metric("bleu-4[corpus=true]")
    >>> metric.name, metric.corpus, metric.higher_is_better, sorted(metric.needs)
    ('bleu-4', True, True, ['references'])
    """

    name: str
    mode: Mode = "recommended"

    summary: ClassVar[str]
    cite: ClassVar[str]
    needs: ClassVar[frozenset[Need]] = frozenset()
    level: ClassVar[Level] = "turn"
    # Whether a single turn has a score.
    per_turn: ClassVar[bool] = True
    modes: ClassVar[tuple[Mode, ...]] = ("recommended",)
    # The options that a mode sets; the fields' own defaults are those of the recommended form.
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {}
    # Options with which it asks fewer of them: the form that a group takes where some are not there.
    fewer_roles: ClassVar[str] = ""

    # Facts that a class gives as plain attributes, or as properties if they depend on its options.

    @property
    def roles(self) -> frozenset[str]:
        """Return the roles of the models that it asks."""
        return frozenset()

    @property
    def higher_is_better(self) -> bool | None:
        """Return the direction, None without one."""
        return True

    @property
    def range(self) -> tuple[float, float]:
        """Return the ends of its scale. Intervals of systems end there too."""
        return -math.inf, math.inf

    def requests(self, example: Example) -> Sequence[Request]:
        """Return what this metric asks of models to judge an example; `judge` gets the answers in the same order."""
        return ()

    @abstractmethod
    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        """Return the score of one example, all of whose `needs` are met."""

    @property
    def waits(self) -> bool:
        """Return whether it has no score before the whole run is judged."""
        return False

    def settle(self, scores: Sequence[Score]) -> list[Score]:
        """Return the final scores of a whole run, given what `judge` returned."""
        return list(scores)

    @property
    def mean_of_turns(self) -> bool:
        """Return whether a system's value is the mean of its turns' scores."""
        return self.per_turn

    @property
    def scaled_by(self) -> str:
        """Return the name and hash of the stored constants that the scores are made with; nothing without any."""
        return ""

    @property
    def calibrated_to(self) -> str | None:
        """Return the pack whose stored constants the scores are made with, where they are made with any."""
        return None

    def options(self) -> dict[str, object]:
        """Return the options in force, by name, without those that the metric's own name already fixes."""
        from turnwise.metrics.registry import preset_of

        fixed = {"name", "mode", *preset_of(self.name)}
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in fixed}

    def unmet_need(self, example: Example) -> Problem | None:
        """Return why this example cannot be judged, or None."""
        for need in sorted(self.needs):
            given = getattr(example, need)
            # Turns without a word are no context: a classifier would take the response for an opening, and like it.
            if not given or (need == "context" and all(map(is_blank, given))):
                return Problem.of(f"score.no_{need}")
        return None

    def score(
        self,
        *,
        response: str,
        context: str | Sequence[str] = (),
        references: str | Sequence[str] = (),
        facts: str | Sequence[str] = (),
        speakers: Sequence[str] = (),
        models: str | Path | None = None,
    ) -> Score:
        """Judge one response given as plain text; one string stands for a list of one.

        Args:
            response: The reply to judge.
            context: The turns before it, oldest first.
            references: Good replies to the same context.
            facts: What the reply should draw on.
            speakers: Who said each turn of the context and the response; default: two in turn.
            models: A pack's name or folder, a folder of models, or `paper`; default: the bundled pack.

        Returns:
            The score; if it has no value, its note says why.
        """
        # The engine stands above the metrics; only this convenience reaches up to it.
        from turnwise.engine.score import judge_examples
        from turnwise.engine.session import Session

        example = Example(
            response=_texts(response, "response")[0],
            context=_texts(context, "context"),
            references=_texts(references, "references"),
            facts=_texts(facts, "facts"),
            speakers=_texts(speakers, "speakers"),
        )
        if example.speakers and len(example.speakers) != len(example.context) + 1:
            raise TurnwiseError("speakers: name one for every turn of the context, and one for the response")
        with Session(models) as session:
            session.labels({self.name: self})  # says what the models lack
            # Files with blank responses are refused. Metrics of words count none; vectors are looked up word by word.
            if self.roles - {"vectors"} and is_blank(example.response):
                return Score(None, note=Problem.of("score.blank_response"))
            score = judge_examples([example], {self.name: self}, session.answer)[0][self.name]
        if score.value is None and score.note is None:
            # One turn has a share in such a value, and none of its own.
            return Score(None, note=Problem.of("score.judged_together", metric=self.name))
        return score


class TurnMetric(Metric):
    """Judge single responses; a system's value is the mean of its scores."""


class PooledMetric(TurnMetric):
    """Judge single responses, and a system by statistics that are added up over its responses."""

    @property
    def pools(self) -> bool:
        """Return whether this form has a pooled value, and not the mean of its turns."""
        return True

    @property
    def mean_of_turns(self) -> bool:
        return not self.pools

    @abstractmethod
    def statistic(self, example: Example) -> Statistic:
        """Return what one response adds."""

    @abstractmethod
    def value(self, total: Any) -> float | None:
        """Return the value of added statistics."""


class GroupMetric(Metric):
    """Judge all responses of a group together; a system's value is the mean over its groups."""

    level: ClassVar[Level] = "group"
    per_turn: ClassVar[bool] = False

    @abstractmethod
    def statistic(self, example: Example) -> Statistic:
        """Return what one response adds to its group."""

    @abstractmethod
    def value(self, total: Any) -> float | None:
        """Return the value of one group."""

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        return Score(None, evidence=self.statistic(example))


class SystemMetric(Metric):
    """Judge all responses of a system together."""

    level: ClassVar[Level] = "system"
    per_turn: ClassVar[bool] = False

    @abstractmethod
    def evidence(self, example: Example, answers: Sequence[Any] = ()) -> Any:
        """Return what one response adds to its system."""

    @abstractmethod
    def value(self, evidence: Sequence[Any], units: IntArray, draws: FloatArray) -> Measured:
        """Return the value of a whole system from the evidence of its turns.

        `units` says which turns are drawn together, and each row of `draws` how often each unit occurs in a resample.
        """

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        return Score(None, evidence=self.evidence(example, answers))


class RunMetric(TurnMetric):
    """Judge each response in relation to all responses of the run, or to stored numbers in their place.

    `raw` gives a score without a value, whose `evidence` goes into `fit`; a score without evidence is final.
    """

    @abstractmethod
    def raw(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        """Return what one example adds to the run, or a note on why it adds nothing."""

    @abstractmethod
    def fit(self, evidence: Sequence[Any]) -> Any:
        """Return what `finish` needs, from the evidence of all turns."""

    @abstractmethod
    def finish(self, raw: Score, fitted: Any) -> Score:
        """Return the score of one turn."""

    @property
    @abstractmethod
    def stored(self) -> Any:
        """Return what stands for `fit` if the metric does not wait for the run."""

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        raw = self.raw(example, answers)
        return raw if self.waits or raw.evidence is None else self.finish(raw, self.stored)

    def settle(self, scores: Sequence[Score]) -> list[Score]:
        evidence = [score.evidence for score in scores if score.evidence is not None]
        if not self.waits or not evidence:
            return list(scores)
        fitted = self.fit(evidence)
        return [score if score.evidence is None else self.finish(score, fitted) for score in scores]


def _texts(given: str | Sequence[str], field: str) -> tuple[str, ...]:
    texts = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else (given,)
    if not all(isinstance(text, str) for text in texts):
        raise TurnwiseError(f"{field}: {given!r} where text belongs; give a string")
    return texts


def requests_of_parts(parts: Mapping[K, Metric], example: Example) -> list[Request]:
    """Return all that the parts of a composite ask for; a part whose needs are not met asks for nothing."""
    met = (part for part in parts.values() if part.unmet_need(example) is None)
    return [request for part in met for request in part.requests(example)]


def judge_parts(parts: Mapping[K, Metric], example: Example, answers: Sequence[Any]) -> dict[K, Score]:
    """Return the score of each part of a composite, given the answers to `requests_of_parts`."""
    scores, given = {}, iter(answers)
    for key, part in parts.items():
        lacking = part.unmet_need(example)
        if lacking is not None:
            scores[key] = Score(None, note=lacking)
        else:
            scores[key] = part.judge(example, [next(given) for _ in part.requests(example)])
    return scores
