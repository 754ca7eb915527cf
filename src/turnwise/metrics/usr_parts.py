"""USR's three sub-metrics (Mehri and Eskenazi 2020): one masked language model, two retrieval classifiers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from turnwise.dialogue import Example, is_blank
from turnwise.metrics.base import Mode, Need, Score, TurnMetric
from turnwise.metrics.masked import (
    SHORTEST,
    SHORTEST_PAIR,
    Reduction,
    Scope,
    Truncation,
    as_published,
    check_length,
    check_turns,
    dialogue_request,
    last_turns,
    likelihood_score,
    split_separators,
)
from turnwise.metrics.registry import register
from turnwise.models.quality import yes
from turnwise.models.requests import Classify, Request, Window
from turnwise.problems import Problem
from turnwise.text.facts import TfIdf, choose_fact
from turnwise.text.inputs import context_text

CITE = "Mehri and Eskenazi 2020, USR: An Unsupervised and Reference Free Evaluation Metric for Dialog"
MODES: tuple[Mode, ...] = ("recommended", "paper", "released")
# What stands for a missing fact in the corpora of the paper.
NO_FACT = "_nofact"


@register({"usr-mlm": {}})
@dataclass(frozen=True, kw_only=True)
class UsrMlm(TurnMetric):
    """Released: the mean over context and response alike. Paper: the negated sum over the response, as printed.

    `fast` reads all likelihoods off one pass over the text, with nothing masked: a rough guide to the exact score.
    """

    scope: Scope = "response"
    reduction: Reduction = "mean"
    sign: int = 1
    turns: str = "1"
    separators: str = ""
    max_length: int | None = None
    truncation: Truncation | None = None
    tokenised: bool = False
    fast: bool = False

    summary: ClassVar[str] = "how likely a masked language model finds the response after its context"
    cite: ClassVar[str] = CITE
    needs: ClassVar[frozenset[Need]] = frozenset({"context"})
    modes: ClassVar[tuple[Mode, ...]] = MODES
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {
        "released": {"scope": "all", "separators": "_eos/_go", "tokenised": True},
        "paper": {"reduction": "sum", "sign": -1, "separators": "_eos/_go", "tokenised": True},
    }
    range: ClassVar[tuple[float, float]] = (-math.inf, 0.0)
    roles: ClassVar[frozenset[str]] = frozenset({"masked-lm"})

    def __post_init__(self) -> None:
        check_turns(self.turns)
        check_length(self.max_length, SHORTEST if self.separators else SHORTEST_PAIR)
        if self.sign not in (1, -1):
            raise ValueError(f"option sign={self.sign}: write 1 or -1")
        if self.scope == "response+eos" and not self.separators:
            raise ValueError("option scope=response+eos needs separators, for example separators=_eos/_go")
        if self.sign < 0:
            # The class speaks for the recommended form; this one points the other way.
            object.__setattr__(self, "higher_is_better", False)
            object.__setattr__(self, "range", (0.0, math.inf))

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

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        return likelihood_score(answers[0], self.reduction, self.sign)


@dataclass(frozen=True, kw_only=True)
class DialogueRetrieval(TurnMetric):
    """The probability that the response belongs to what it is given.

    Recommended: the two texts as the models of a pack were trained on them. Paper and released: the words `_eos`
    and `_go` between texts, facts joined, 128 tokens, cut at the ends.
    """

    fact: Literal["best", "closest", "all"] = "best"
    turns: str = "6"
    separators: str = ""
    max_length: int | None = None
    truncation: Truncation | None = None
    tokenised: bool = False

    cite: ClassVar[str] = CITE
    modes: ClassVar[tuple[Mode, ...]] = MODES
    _as_released: ClassVar[Mapping[str, object]] = {
        "fact": "all",
        "turns": "1",
        "separators": "_eos/_go",
        "max_length": 128,
        "tokenised": True,
    }
    mode_options: ClassVar[Mapping[Mode, Mapping[str, object]]] = {"released": _as_released, "paper": _as_released}
    asked_role: ClassVar[str]
    reads_context: ClassVar[bool]
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        check_turns(self.turns)
        check_length(self.max_length, SHORTEST_PAIR)

    def facts(self, example: Example) -> list[str]:
        """The facts that there are; released mode reads the corpora's mark for none as a text, as the authors did."""
        said = (fact for fact in example.facts if not is_blank(fact))
        return [fact for fact in said if fact != NO_FACT or self.mode != "recommended"]

    def requests(self, example: Example) -> Sequence[Request]:
        return self._about_facts(example, self.asked_role, self.reads_context)

    def _about_facts(self, example: Example, role: str, reads_context: bool) -> list[Classify]:
        """The questions about the facts, one each or one in all."""
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
@dataclass(frozen=True, kw_only=True)
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
    roles: ClassVar[frozenset[str]] = frozenset({"nup", "dr-f"})
    asked_role: ClassVar[str] = "nup"
    reads_context: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reading == "together":
            # The class speaks for the recommended form; the other one asks about both at once.
            object.__setattr__(self, "roles", frozenset({"nup"}))

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
@dataclass(frozen=True, kw_only=True)
class UsrDrF(DialogueRetrieval):
    """Given the fact alone."""

    summary: ClassVar[str] = "how probable it is that the response is about the fact"
    needs: ClassVar[frozenset[Need]] = frozenset({"facts"})
    roles: ClassVar[frozenset[str]] = frozenset({"dr-f"})
    asked_role: ClassVar[str] = "dr-f"
    reads_context: ClassVar[bool] = False

    def unmet_need(self, example: Example) -> Problem | None:
        return None if self.facts(example) else Problem.of("score.no_facts")
