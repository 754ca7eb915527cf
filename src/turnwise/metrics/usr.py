"""USR (Mehri and Eskenazi 2020): three sub-metrics, and how they become one score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.dialogue import Example, is_blank
from turnwise.metrics.base import MODES, Metric, Mode, Need, PartScore, Score, TurnMetric
from turnwise.metrics.composite import Composite
from turnwise.metrics.masked import (
    NO_FAST_PART,
    SHORTEST,
    SHORTEST_PAIR,
    Likelihood,
    Reduction,
    Scope,
    Truncation,
    as_published,
    check_length,
    check_separators,
    check_turns,
    dialogue_request,
    fast_form,
    last_turns,
    split_separators,
)
from turnwise.metrics.registry import load_part, plain_form, register
from turnwise.metrics.scaling import BATCH, DEFAULT, CalibratedMetric, check_count, load_constants
from turnwise.models.quality import yes
from turnwise.models.requests import Classify, Request, Window
from turnwise.problems import Problem
from turnwise.text.inputs import TfIdf, choose_fact, context_text

CITE = "Mehri and Eskenazi 2020, USR: An Unsupervised and Reference Free Evaluation Metric for Dialog"
# What stands for a missing fact in the corpora of the paper.
NO_FACT = "_nofact"

# The authors' three sub-metrics. Another metric can stand for a quality too, under its own name.
PARTS = ("mlm", "dr_c", "dr_f")
QUALITIES = ("Understandable", "Natural", "Maintains Context", "Interesting", "Uses Knowledge")


@dataclass(frozen=True, slots=True)
class Term:
    """One quality of the regression: the sub-metric that stands for it, standardised, and its weight."""

    quality: str
    part: str
    weight: float
    mean: float
    std: float


@dataclass(frozen=True, slots=True)
class Regression:
    """A linear model of overall quality on standardised sub-metrics."""

    intercept: float
    terms: tuple[Term, ...]

    def slopes(self) -> dict[str, float]:
        """Return what one unit of each raw sub-metric adds to the score."""
        slopes: dict[str, float] = {}
        for term in self.terms:
            slopes[term.part] = slopes.get(term.part, 0.0) + term.weight / term.std
        return slopes

    def standardised_on(self, scores: Mapping[str, ArrayLike]) -> Regression:
        """Return the same weights on z-scores of other data: means and population deviations of these scores.

        A sub-metric that does not vary is only centred, so that it adds nothing.
        """
        columns = {part: np.asarray(values, dtype=np.float64) for part, values in scores.items()}
        mean = {part: float(column.mean()) for part, column in columns.items()}
        std = {part: float(column.std()) or 1.0 for part, column in columns.items()}
        terms = (replace(term, mean=mean[term.part], std=std[term.part]) for term in self.terms)
        return replace(self, terms=tuple(terms))

    def contributions(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        """Return what each quality adds to the intercept; one whose sub-metric is missing adds nothing."""
        known = (term for term in self.terms if term.part in scores)
        return {term.quality: term.weight * (scores[term.part] - term.mean) / term.std for term in known}


def _published() -> Regression:
    """Return the authors' own numbers: weights of their fitted model, moments of their 300 Topical-Chat scores."""
    constants = load_constants("published")
    mlm, dr_c, dr_f = (constants.moments(name) for name in ("usr-mlm", "usr-dr-c", "usr-dr-f"))
    return Regression(
        intercept=3.597475447630256,
        terms=(
            Term("Understandable", "mlm", 0.6601100065238369, *mlm),
            Term("Natural", "mlm", 0.4035348605308456, *mlm),
            Term("Maintains Context", "dr_c", 0.5132785702080678, *dr_c),
            Term("Interesting", "dr_c", 0.9605336086924106, *dr_c),
            Term("Uses Knowledge", "dr_f", 0.35642553823787765, *dr_f),
        ),
    )


PUBLISHED = _published()


def usr_score(
    mlm: ArrayLike, dr_c: ArrayLike, dr_f: ArrayLike, regression: Regression = PUBLISHED
) -> NDArray[np.float64]:
    """USR of one response or of many: unbounded, higher is better.

    >>> usr_score(-1, 1, 1).round(6).item()
    4.505073
    """
    columns = np.broadcast_arrays(*(np.asarray(values, dtype=np.float64) for values in (mlm, dr_c, dr_f)))
    added = regression.contributions(dict(zip(PARTS, columns, strict=True)))
    return np.asarray(sum(added.values(), np.full(columns[0].shape, regression.intercept)))


PUBLISHED_FEEDS = ("mlm", "mlm", "dr_c", "dr_c", "dr_f")
PUBLISHED_WEIGHTS = tuple(term.weight for term in PUBLISHED.terms)
# What the bundled models can tell, found on dialogues alone (tools/pack/choose.py): a classifier for broken
# utterances tells those apart best, and dull replies by being likely, so that weight changes its sign.
FEEDS = ("vup", "vup", "nup", "mlm", "dr_f")
WEIGHTS = tuple(-t.weight if t.quality == "Interesting" else t.weight for t in PUBLISHED.terms)


@register({"usr": {}})
class Usr(CalibratedMetric, Composite):
    """The regression on the three sub-metrics. Which of them feeds which quality is an option, as are its numbers.

    `constants` says where means and deviations come from: a named set, a JSON file, or `batch`, the responses that
    are judged. `means` and `stds` overrule it. Without facts, `missing=average` counts an average one, and says so.
    `fast` takes the fast form of every part that has one.
    """

    mlm: str = "usr-mlm"
    dr_c: str = "usr-dr-c"
    dr_f: str = "usr-dr-f"
    feeds: tuple[str, ...] = FEEDS
    weights: tuple[float, ...] = WEIGHTS
    intercept: float = PUBLISHED.intercept
    constants: str = DEFAULT
    means: tuple[float, ...] = ()
    stds: tuple[float, ...] = ()
    missing: Literal["average", "none"] = "average"
    fast: bool = False

    summary: ClassVar[str] = "weighted sum of likelihood, fit to the context and use of the fact"
    cite: ClassVar[str] = CITE
    needs: ClassVar[frozenset[Need]] = frozenset({"context"})
    modes: ClassVar[tuple[Mode, ...]] = MODES
    _published: ClassVar[Mapping[str, object]] = {
        "feeds": PUBLISHED_FEEDS,
        "weights": PUBLISHED_WEIGHTS,
        "missing": "none",
    }
    # The paper prints a lower-is-better likelihood and weighs it as higher-is-better: its sign is mended here.
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "released": {**_published, "constants": "published"},
        "paper": {**_published, "mlm": "usr-mlm:paper[sign=1]", "constants": BATCH},
    }
    range = (-math.inf, math.inf)

    def __post_init__(self) -> None:
        if len(self.feeds) != len(QUALITIES):
            named = f"{', '.join(PARTS)}, or other metrics"
            raise ValueError(f"option feeds={'/'.join(self.feeds)}: write five of {named}, with / between them")
        check_count(self.weights, "weights", len(QUALITIES))
        if bool(self.means) != bool(self.stds):
            raise ValueError("options means and stds go together: three numbers each, for mlm, dr_c and dr_f")
        if self.means:
            check_count(self.means, "means", len(PARTS))
            check_count(self.stds, "stds", len(PARTS))
            if not set(self.feeds) <= set(PARTS):
                raise ValueError(f"options means and stds are those of {', '.join(PARTS)}; give constants for others")
            if min(self.stds) <= 0:
                raise ValueError("option stds: deviations are greater than 0")
        # Parts and numbers are looked up now, so that a wrong request fails before any work is done.
        if self.fast and not any(getattr(part, "fast", False) for part in self.members.values()):
            raise ValueError(NO_FAST_PART)
        _ = self.regression, self.members

    @cached_property
    def members(self) -> dict[str, Metric]:
        """Return the sub-metrics that feed a quality."""
        return {part: load_part(self.label(part), self.mode) for part in dict.fromkeys(self.feeds)}

    @property
    def waits(self) -> bool:
        return self.constants == BATCH and not self.means

    @property
    def uses_stored(self) -> bool:
        return super().uses_stored and not self.means

    @cached_property
    def regression(self) -> Regression:
        """Return the linear model with the numbers that the options ask for."""
        if self.waits:
            moments = dict.fromkeys(self.members, (0.0, 1.0))
        elif self.means:
            moments = dict(zip(PARTS, zip(self.means, self.stds, strict=True), strict=True))
        else:
            moments = {
                part: self._stored.moments(plain_form(metric, self.mode)) for part, metric in self.members.items()
            }
        each = zip(QUALITIES, self.feeds, self.weights, strict=True)
        return Regression(self.intercept, tuple(Term(name, part, w, *moments[part]) for name, part, w in each))

    @property
    def stored(self) -> Regression:
        return self.regression

    @property
    def excused(self) -> frozenset[str]:
        # A response can be judged without facts, but not without words or a context.
        known = self.missing == "average"
        return frozenset(part for part, metric in self.members.items() if known and "facts" in metric.needs)

    def unscored(self, lacking: Mapping[str, Problem | None]) -> Problem | None:
        first, *others = lacking.values()
        return Problem.of("score.parts_unscored", all="; ".join(map(str, lacking.values()))) if others else first

    def fit(self, evidence: Sequence[Mapping[str, float]]) -> Regression:
        """Return the regression on z-scores over this run."""
        columns = {part: [raw[part] for raw in evidence if part in raw] or [0.0] for part in self.members}
        return self.regression.standardised_on(columns)

    def finish(self, raw: Score, fitted: Regression) -> Score:
        """Return the score of raw parts, with the z-score of each and what each quality contributes."""
        found = raw.evidence
        scale = {term.part: (term.mean, term.std) for term in fitted.terms}
        normal = {part: (value - scale[part][0]) / scale[part][1] for part, value in found.items()}
        added = fitted.contributions(found)
        parts = {**raw.parts, **{f"{self.label(part)} normalised": value for part, value in normal.items()}}
        parts |= {"intercept": fitted.intercept}
        parts |= {f"{quality} contribution": value for quality, value in added.items()}
        absent = [self.label(part) for part in self.members if part not in found]
        note = Problem.of("score.average_counted", part=absent[0]) if absent else None
        breakdown = tuple(
            PartScore(
                self.label(part),
                found[part],
                normal[part],
                sum(term.weight for term in fitted.terms if term.part == part),
                sum(added[term.quality] for term in fitted.terms if term.part == part),
            )
            for part in found
        )
        return Score(fitted.intercept + sum(added.values()), parts, note, raw.tokens, breakdown=breakdown)

    def label(self, name: str) -> str:
        request: str = getattr(self, name) if name in PARTS else name
        return fast_form(request) if self.fast else request


# --- USR's three sub-metrics (Mehri and Eskenazi 2020): one masked language model, two retrieval cl-------


@register({"usr-mlm": {}})
class UsrMlm(Likelihood):
    """Released: the mean over context and response alike. Paper: the negated sum over the response, as printed.

    `fast` reads all likelihoods off one pass over the text, with nothing masked: a rough guide to the exact score.
    """

    scope: Scope = "response"
    reduction: Reduction = "mean"
    sign: int = 1
    turns: str = "1"
    separators: tuple[str, ...] = ()
    max_length: int | None = None
    truncation: Truncation | None = None
    tokenised: bool = False
    fast: bool = False

    summary: ClassVar[str] = "how likely a masked language model finds the response after its context"
    cite: ClassVar[str] = CITE
    needs: ClassVar[frozenset[Need]] = frozenset({"context"})
    modes: ClassVar[tuple[Mode, ...]] = MODES
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "released": {"scope": "all", "separators": ("_eos", "_go"), "tokenised": True},
        "paper": {"reduction": "sum", "sign": -1, "separators": ("_eos", "_go"), "tokenised": True},
    }
    roles = frozenset({"masked-lm"})

    @property
    def range(self) -> tuple[float, float]:
        return (-math.inf, 0.0) if self.sign > 0 else (0.0, math.inf)

    @property
    def higher_is_better(self) -> bool | None:
        return self.sign > 0

    def __post_init__(self) -> None:
        check_turns(self.turns)
        check_separators(self.separators)
        check_length(self.max_length, SHORTEST if self.separators else SHORTEST_PAIR)
        if self.sign not in (1, -1):
            raise ValueError(f"option sign={self.sign}: write 1 or -1")
        if self.scope == "response+eos" and not self.separators:
            raise ValueError("option scope=response+eos needs separators, for example separators=_eos/_go")

    def requests(self, example: Example) -> Sequence[Request]:
        turns, response = last_turns(example.context, self.turns), example.response
        if self.tokenised:
            turns, response = [as_published(turn) for turn in turns], as_published(response)
        asked = dialogue_request(
            turns,
            response,
            scope=self.scope,
            separators=self.separators,
            max_length=self.max_length,
            truncation=self.truncation,
            fast=self.fast,
        )
        return (asked,)

    def value(self, total: float, tokens: int) -> float:
        return self.sign * (total if self.reduction == "sum" else total / tokens)


@dataclass(frozen=True, kw_only=True)
class DialogueRetrieval(TurnMetric):
    """The probability that the response belongs to what it is given.

    Recommended: the two texts as the models of a pack were trained on them. Paper and released: the words `_eos`
    and `_go` between texts, facts joined, 128 tokens, cut at the ends.
    """

    fact: Literal["best", "closest", "all"] = "best"
    turns: str = "6"
    separators: tuple[str, ...] = ()
    max_length: int | None = None
    truncation: Truncation | None = None
    tokenised: bool = False

    cite: ClassVar[str] = CITE
    modes: ClassVar[tuple[Mode, ...]] = MODES
    _as_released: ClassVar[Mapping[str, object]] = {
        "fact": "all",
        "turns": "1",
        "separators": ("_eos", "_go"),
        "max_length": 128,
        "tokenised": True,
    }
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {"released": _as_released, "paper": _as_released}
    asked_role: ClassVar[str]
    reads_context: ClassVar[bool]
    range = (0.0, 1.0)

    def __post_init__(self) -> None:
        check_turns(self.turns)
        check_separators(self.separators)
        check_length(self.max_length, SHORTEST_PAIR)

    def facts(self, example: Example) -> list[str]:
        """Return the facts; released mode reads the corpora's mark for a missing one as a text, as the authors did."""
        said = (fact for fact in example.facts if not is_blank(fact))
        return [fact for fact in said if fact != NO_FACT or self.mode != "recommended"]

    def requests(self, example: Example) -> Sequence[Request]:
        return self._about_facts(example, self.asked_role, self.reads_context)

    def _about_facts(self, example: Example, role: str, reads_context: bool) -> list[Classify]:
        """Return the questions about the facts, one each or one in all."""
        facts = self.facts(example)
        if self.fact == "best" and facts:
            return [self._request(example, fact, role, reads_context) for fact in facts]
        if self.fact == "all" or not facts:
            return [self._request(example, " ".join(facts), role, reads_context)]
        # Words that all facts share tell nothing about which one is meant: the facts are their own corpus.
        closest = choose_fact(example.response, facts, TfIdf(facts), minimum=-1.0) or ""
        return [self._request(example, closest, role, reads_context)]

    def _request(self, example: Example, fact: str, role: str, reads_context: bool) -> Classify:
        turns = list(last_turns(example.context, self.turns)) if reads_context else []
        response = example.response
        if self.tokenised:
            turns, response, fact = [as_published(turn) for turn in turns], as_published(response), fact.lower()
        cut = Window(total=self.max_length, keep="end" if self.truncation == "start" else "start")
        window = None if self.max_length is None and self.truncation is None else cut
        if not self.separators:
            return Classify(context_text(turns, fact or None, len(turns)), response, window, role)
        eos, go = split_separators(self.separators)
        given = " ".join(word for text in [*turns, *([fact] if fact else [])] for word in (text, eos))
        return Classify(given, " ".join(filter(None, [go, response, eos])), window, role)

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        chances = [yes(answer) for answer in answers]
        parts = {f"fact {i}": chance for i, chance in enumerate(chances, 1)} if len(chances) > 1 else {}
        return Score(max(chances), parts)


@register({"usr-dr-c": {}})
class UsrDrC(DialogueRetrieval):
    """Given the context and, where there is one, the fact.

    Recommended: each is asked about by itself, by the model that learnt to, and the score is the mean of the two
    answers; paper and released: one question about both in one text. `reading` chooses.
    """

    reading: Literal["apart", "together"] = "apart"

    summary: ClassVar[str] = "how probable it is that the response follows its context and fact"
    needs: ClassVar[frozenset[Need]] = frozenset({"context"})
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        mode: {**DialogueRetrieval._as_released, "reading": "together"} for mode in ("released", "paper")
    }
    asked_role: ClassVar[str] = "nup"
    reads_context: ClassVar[bool] = True

    @property
    def roles(self) -> frozenset[str]:
        return frozenset({"nup"} if self.reading == "together" else {"nup", "dr-f"})

    def requests(self, example: Example) -> Sequence[Request]:
        facts = self.facts(example)
        if self.reading == "together" or not facts:
            return super().requests(example)
        return [self._request(example, "", "nup", True), *self._about_facts(example, "dr-f", False)]

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        if self.reading == "together" or not self.facts(example):
            return super().judge(example, answers)
        context, *facts = (yes(answer) for answer in answers)
        return Score((context + max(facts)) / 2, {"context": context, "fact": max(facts)})


@register({"usr-dr-f": {}})
class UsrDrF(DialogueRetrieval):
    """Given the fact alone."""

    summary: ClassVar[str] = "how probable it is that the response is about the fact"
    needs: ClassVar[frozenset[Need]] = frozenset({"facts"})
    roles = frozenset({"dr-f"})
    asked_role: ClassVar[str] = "dr-f"
    reads_context: ClassVar[bool] = False

    def unmet_need(self, example: Example) -> Problem | None:
        return None if self.facts(example) else Problem.of("score.no_facts")
