"""What a pack is measured by: scores of its models, the ratings they should agree with, and the bars to reach."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from turnwise.dialogue import Example, mean_rating
from turnwise.errors import TurnwiseError
from turnwise.io.corpora import CORPORA
from turnwise.io.read import read_rows
from turnwise.models import quality as about
from turnwise.models.protocols import Request

REFERENCES = {system for corpus in CORPORA.values() for system in corpus.excluded_systems}
# How far NUP may fall behind an earlier, quickly trained model on any one corpus.
SLACK = 0.03
EMOTION_BAR = 0.75


@dataclass(frozen=True)
class Form:
    """One way to turn a model's answers about an example into a score."""

    role: str
    name: str
    ask: Callable[[Example], Sequence[Request]]
    score: Callable[[Sequence[Any]], float | None]
    against_length: bool = False


@dataclass(frozen=True)
class Measure:
    """One correlation to find: a form's scores with the ratings of a quality, and what it should reach."""

    form: Form
    corpus: str
    quality: str
    bar: float | None = None
    quick: float | None = None
    papers: tuple[tuple[str, str, str], ...] = ()


def _facts(example: Example) -> str:
    return " ".join(example.facts)


def _yes(answers: Sequence[Any]) -> float:
    return about.yes(answers[0])


def _total(answers: Sequence[Any]) -> float:
    return about.total(answers[0])


def _mean(answers: Sequence[Any]) -> float | None:
    return about.mean(answers[0])


def _last_pair(example: Example) -> list[Request]:
    earlier = about.own_last_turn(example.context)
    return [] if earlier is None else [about.contradiction(earlier, example.response)]


def _consistent(answers: Sequence[Any]) -> float:
    """Who has said nothing yet contradicts nothing."""
    return 1 - float(answers[0]["contradiction"]) if answers else 1.0


def _after_query(example: Example) -> list[Request]:
    return [about.coherence(example.context[-1], example.response)]


NUP = Form("nup", "probability", lambda e: [about.next_utterance(e.context, e.response)], _yes)
NUP_FACT = Form(
    "nup", "probability, facts given", lambda e: [about.next_utterance(e.context, e.response, _facts(e))], _yes
)
DRF = Form("dr-f", "probability, all facts", lambda e: [about.about_fact(_facts(e), e.response)], _yes)
DRF_BEST = Form(
    "dr-f", "probability, best fact", lambda e: [about.about_fact(f, e.response) for f in e.facts],
    lambda answers: max(map(about.yes, answers), default=None),
)  # fmt: skip
VUP = Form("vup", "probability", lambda e: [about.valid_utterance(e.response)], _yes)
MLM_SUM = Form("masked-lm", "sum", lambda e: [about.likelihood(e.response)], _total, against_length=True)
COHERENCE_SUM = Form("causal-lm", "sum (released)", _after_query, _total, against_length=True)
COHERENCE_MEAN = Form("causal-lm", "mean", _after_query, _mean, against_length=True)
FLUENCY_SUM = Form("causal-lm", "sum", lambda e: [about.fluency(e.response)], _total, against_length=True)
FLUENCY_MEAN = replace(FLUENCY_SUM, name="mean", score=_mean)
FLUENCY_RELEASED = Form(
    "causal-lm", "mean from the second token (released)", lambda e: [about.fluency(e.response, begin=False)], _mean,
    against_length=True,
)  # fmt: skip
NLI = Form("nli", "1 - p(contradiction), last pair", _last_pair, _consistent)

USR = {"usr_topicalchat": "Topical-Chat", "usr_personachat": "PersonaChat"}
# Rerun by others on the same files: published/dialevalmetrics_results.csv.
RERUN = {
    "grade_convai2": "GRADE-ConvAI2",
    "grade_dailydialog": "GRADE-DailyDialog",
    "grade_empatheticdialogues": "GRADE-EmpatheticDialogue",
    "holistic_coherence": "HolisticEval-DailyDialog",
}
NUP_CORPORA = [
    ("usr_topicalchat", "Maintains Context", 0.479),
    ("usr_personachat", "Maintains Context", 0.563),
    ("grade_convai2", "coherence", 0.504),
    ("grade_dailydialog", "coherence", 0.326),
    ("grade_empatheticdialogues", "coherence", 0.366),
    ("holistic_coherence", "context_coherence", 0.641),
    ("zhao_dailydialog", "appropriateness", 0.406),
    ("zhao_personachat", "appropriateness", 0.653),
]
NUP_MEAN = 0.49


def measures() -> Iterator[Measure]:
    """Everything that is measured by a correlation; those with a bar are what a pack is held to."""
    for corpus, quality, quick in NUP_CORPORA:
        papers = [(USR[corpus], quality, "USR-DR (x = c)")] if corpus in USR else []
        papers += [(RERUN[corpus], "", metric) for metric in ("USR", "USL-H") if corpus in RERUN]
        yield Measure(NUP, corpus, quality, quick - SLACK, quick, tuple(papers))
    quick_overall = {"usr_topicalchat": 0.375, "usr_personachat": 0.398}
    for corpus, name in USR.items():
        c = "USR-DR (x = c)"
        yield Measure(NUP, corpus, "Overall", quick=quick_overall[corpus], papers=((name, "Overall", c),))
        yield Measure(NUP, corpus, "Uses Knowledge", papers=((name, "Uses Knowledge", c),))
        for quality in ("Maintains Context", "Overall", "Uses Knowledge"):
            yield Measure(NUP_FACT, corpus, quality, papers=((name, quality, c),))
        for form in (DRF, DRF_BEST):
            for quality in ("Overall", "Uses Knowledge"):
                yield Measure(form, corpus, quality, papers=((name, quality, "USR-DR (x = f)"),))
        for quality in ("Understandable", "Natural"):
            yield Measure(VUP, corpus, quality)
    tuned = "GPT-2 w/ Fine-tune"
    fluency = (("DailyDialog", "fluency", tuned),)
    yield Measure(MLM_SUM, "holistic_fluency", "fluency", 0.80, 0.812, fluency)
    yield Measure(FLUENCY_MEAN, "holistic_fluency", "fluency", 0.70, 0.679, fluency)
    for form in (FLUENCY_SUM, FLUENCY_RELEASED):
        yield Measure(form, "holistic_fluency", "fluency", papers=fluency)
    yield Measure(VUP, "holistic_fluency", "fluency")
    coherence = tuple(("DailyDialog", "context_coherence", metric) for metric in (tuned, "RUBER+BERT"))
    yield Measure(COHERENCE_SUM, "holistic_coherence", "context_coherence", 0.70, papers=coherence)
    yield Measure(COHERENCE_MEAN, "holistic_coherence", "context_coherence", quick=0.635, papers=coherence)
    for variant, name, bar in (("ws", "WS", 0.35), ("ctg", "CTG", None), ("baseline", "baseline", None)):
        paper = (f"DailyDialog ({name})", "logical_consistency", "Logical self-consistency")
        yield Measure(NLI, f"holistic_logic_{variant}", "logical_consistency", bar, papers=(paper,))


def rated(data: Path, corpus: str, quality: str) -> list[tuple[Example, float]]:
    """Examples that people rated for a quality, with their mean rating; the references are left out."""
    found = []
    for row in read_rows([str(data / "human" / f"{corpus}.jsonl")]):
        if row.example is None:
            raise TurnwiseError(f"{row.file}:{row.line}: {row.error}")
        rating = mean_rating(row.example.ratings.get(quality, ()))
        if rating is not None and row.example.system not in REFERENCES:
            found.append((row.example, rating))
    return found


def published(data: Path) -> dict[tuple[str, str, str], float]:
    """Published turn-level rank correlations by (corpus, quality, metric); reruns name no quality."""
    found: dict[tuple[str, str, str], float] = {}
    for row in _table(data / "published" / "paper_tables.csv"):
        if (row["level"], row["statistic"]) == ("turn", "spearman"):
            found.setdefault((row["corpus"], row["quality"], row["metric"]), float(row["value"]))
    for row in _table(data / "published" / "dialevalmetrics_results.csv"):
        if (row["level"], row["correlation"]) == ("Turn-Level", "S") and row["value"]:
            found.setdefault((row["dataset"], "", row["metric"]), float(row["value"]))
    return found


def _table(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
