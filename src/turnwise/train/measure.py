"""Measure a pack's models against human ratings, beside what papers published, and check them against bars."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from turnwise.dialogue import Example, mean_rating
from turnwise.engine.answer import answer_requests
from turnwise.engine.cache import Cache
from turnwise.engine.score import cluster_key
from turnwise.errors import TurnwiseError
from turnwise.files import sealed, write_text
from turnwise.io.base import readers
from turnwise.io.read import read_rows
from turnwise.models import quality as about
from turnwise.models.pack import MANIFEST, Pack
from turnwise.models.requests import Request
from turnwise.stats.arrays import FloatArray, cluster_codes, sum_by_cluster
from turnwise.stats.bootstrap import RESAMPLES, bootstrap, percentile_interval
from turnwise.stats.correlation import partial_correlation, spearman, spearman_of_weights
from turnwise.train.dialogues import read
from turnwise.train.tasks import NO_EMOTION, best_threshold, macro_f1

Ask = Callable[[Iterable[Request]], Mapping[Request, Any]]
# By (corpus, quality, metric); a rerun by others names no quality.
Published = Mapping[tuple[str, str, str], float]
logger = logging.getLogger(__name__)
# How far NUP may fall behind an earlier, quickly trained model on any one corpus.
SLACK = 0.03
NUP_MEAN, EMOTION_BAR = 0.49, 0.75
# Compression may cost this much of any bar.
DEAREST = 0.01


@dataclass(frozen=True)
class ScoreForm:
    """A role, the requests for an example, and the function from their answers to a score."""

    role: str
    name: str
    ask: Callable[[Example], Sequence[Request]]
    score: Callable[[Sequence[Any]], float | None]
    against_length: bool = False


@dataclass(frozen=True)
class Measure:
    """One correlation to find: a form's scores with the ratings of a quality, and what it should reach."""

    form: ScoreForm
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
    """Return 1 without an earlier turn of the speaker."""
    return 1 - float(answers[0]["contradiction"]) if answers else 1.0


def _after_query(example: Example) -> list[Request]:
    return [about.coherence(example.context[-1], example.response)]


NUP = ScoreForm("nup", "probability", lambda e: [about.next_utterance(e.context, e.response)], _yes)
NUP_FACT = ScoreForm(
    "nup", "probability, facts given", lambda e: [about.next_utterance(e.context, e.response, _facts(e))], _yes
)
DRF = ScoreForm("dr-f", "probability, all facts", lambda e: [about.about_fact(_facts(e), e.response)], _yes)
DRF_BEST = ScoreForm(
    "dr-f", "probability, best fact", lambda e: [about.about_fact(f, e.response) for f in e.facts],
    lambda answers: max(map(about.yes, answers), default=None),
)  # fmt: skip
VUP = ScoreForm("vup", "probability", lambda e: [about.valid_utterance(e.response)], _yes)
MLM_SUM = ScoreForm("masked-lm", "sum", lambda e: [about.likelihood(e.response)], _total, against_length=True)
COHERENCE_SUM = ScoreForm("causal-lm", "sum (released)", _after_query, _total, against_length=True)
COHERENCE_MEAN = ScoreForm("causal-lm", "mean", _after_query, _mean, against_length=True)
FLUENCY_SUM = ScoreForm("causal-lm", "sum", lambda e: [about.fluency(e.response)], _total, against_length=True)
FLUENCY_MEAN = replace(FLUENCY_SUM, name="mean", score=_mean)
FLUENCY_RELEASED = ScoreForm(
    "causal-lm", "mean from the second token (released)", lambda e: [about.fluency(e.response, begin=False)], _mean,
    against_length=True,
)  # fmt: skip
NLI = ScoreForm("nli", "1 - p(contradiction), last pair", _last_pair, _consistent)

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


def measures() -> Iterator[Measure]:
    """Yield every correlation that is measured; those with a bar are what a pack has to reach."""
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


ROLES = ("emotion", *dict.fromkeys(measure.form.role for measure in measures()))


def rated(data: Path, corpus: str, quality: str) -> list[tuple[Example, float]]:
    """Return the examples that people rated for a quality, with their mean rating, without the references."""
    found = []
    references = {system for reader in readers() for system in reader.excluded_systems}
    for row in read_rows([str(data / "human" / f"{corpus}.jsonl")]):
        if row.example is None:
            raise TurnwiseError(f"{row.file}:{row.line}: {row.error}")
        rating = mean_rating(row.example.ratings.get(quality, ()))
        if rating is not None and row.example.system not in references:
            found.append((row.example, rating))
    return found


def published(data: Path) -> Published:
    """Return the published turn-level rank correlations."""
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


@dataclass(frozen=True)
class Finding:
    """What was found. `draws` are the bootstrap's values, on the same resamples for every pack."""

    role: str
    corpus: str
    quality: str
    score: str
    value: float | None
    n: int
    low: float | None = None
    high: float | None = None
    bar: float | None = None
    quick: float | None = None
    papers: Mapping[str, float] = field(default_factory=dict)
    length_alone: float | None = None
    length_taken_out: float | None = None
    statistic: str = "spearman"
    draws: Any = field(default=None, repr=False)

    @property
    def met(self) -> bool | None:
        """Return whether the bar is reached; None without a bar."""
        return None if self.bar is None else self.value is not None and self.value >= self.bar

    def with_interval(self) -> Finding:
        """Return the figure with the 95 % interval of its draws."""
        interval = percentile_interval(self.draws, 0.95)
        return replace(self, low=interval.low, high=interval.high) if interval else self


def correlate(measure: Measure, data: Path, ask: Ask, known: Published, seed: int) -> Finding:
    """Measure one correlation, with the interval of a bootstrap over contexts."""
    form, rows = measure.form, rated(data, measure.corpus, measure.quality)
    requests = [form.ask(example) for example, _ in rows]
    answers = ask(request for asked in requests for request in asked)
    scores = [form.score([answers[request] for request in asked]) for asked in requests]
    kept = [(e, rating, score) for (e, rating), score in zip(rows, scores, strict=True) if score is not None]
    x, y = (np.array([row[i] for row in kept], dtype=np.float64) for i in (2, 1))
    clusters = [cluster_key(e) for e, _, _ in kept]
    draws = bootstrap(spearman_of_weights(x, y), clusters, len(kept), RESAMPLES, seed)
    figure = Finding(
        form.role, measure.corpus, measure.quality, form.name, spearman(x, y).value, len(kept),
        bar=measure.bar, quick=measure.quick, draws=draws,
        papers={key[2] if key[1] else f"{key[2]} (rerun)": known[key] for key in measure.papers if key in known},
    )  # fmt: skip
    if form.against_length:
        words = [len(e.response.split()) for e, _, _ in kept]
        alone, left = spearman(words, y).value, partial_correlation(x, y, words).value
        figure = replace(figure, length_alone=alone, length_taken_out=left)
    return figure.with_interval()


def mean_of(figures: Sequence[Finding]) -> Finding:
    """Return the mean of several correlations; corpora are resampled independently of each other."""
    values = [figure.value for figure in figures]
    mean = None if None in values else float(np.mean(np.array(values, dtype=np.float64)))
    quick = float(np.mean([figure.quick for figure in figures if figure.quick is not None]))
    count = sum(figure.n for figure in figures)
    drawn = np.mean([figure.draws for figure in figures], axis=0)
    name = f"mean of {len(figures)} corpora"
    return Finding("nup", name, "", NUP.name, mean, count, bar=NUP_MEAN, quick=quick, draws=drawn).with_interval()


def emotion(data: Path, ask: Ask) -> Finding:
    """Measure the macro-F1 of emotion against none on DailyDialog's test split, cut at the validation split's best."""
    truths, chances, dialogues = {}, {}, {}
    for name, path in (("valid", "train/dailydialog_valid"), ("test", "test/dailydialog_test")):
        labelled = [
            (about.emotion([t.text for t in d.turns[:i]], turn.text), turn.emotion.lower() not in NO_EMOTION, d.id)
            for d in read([data / f"{path}.jsonl.xz"])
            for i, turn in enumerate(d.turns)
            if turn.emotion is not None
        ]
        answers = ask(request for request, _, _ in labelled)
        truths[name] = np.array([truth for _, truth, _ in labelled], dtype=np.int64)
        chances[name] = np.array([about.yes(answers[request]) for request, _, _ in labelled])
        dialogues[name] = [dialogue for _, _, dialogue in labelled]
    cut, _ = best_threshold(truths["valid"], chances["valid"])
    truth, guess = truths["test"], (chances["test"] >= cut).astype(np.int64)
    cells = np.stack([(truth == t) & (guess == g) for t in (0, 1) for g in (0, 1)], axis=1).astype(np.float64)
    codes, count = cluster_codes(dialogues["test"], len(truth))
    totals = sum_by_cluster(cells, codes, count)

    def resampled(weights: FloatArray) -> FloatArray:
        none, false, missed, hit = (weights.T @ totals).T
        mean: FloatArray = none / (2 * none + false + missed) + hit / (2 * hit + false + missed)
        return mean

    return Finding(
        "emotion", "dailydialog_test", "emotion or none", f"probability, cut at {cut}",
        macro_f1(truth, guess, 2), len(truth), bar=EMOTION_BAR, statistic="macro-F1",
        draws=bootstrap(resampled, None, count, RESAMPLES, seed=0),
    ).with_interval()  # fmt: skip


def measure_roles(pack: Pack, data: Path, roles: Sequence[str], cache: Cache | None = None) -> list[Finding]:
    """Measure every figure of these roles of a pack."""

    def ask(requests: Iterable[Request]) -> Mapping[Request, Any]:
        return answer_requests(requests, pack, cache=cache)

    known, figures = published(data), []
    for seed, measure in enumerate(measures()):
        if measure.form.role in roles:
            logger.info("%s: %s on %s", pack.name, measure.form.role, measure.corpus)
            figures.append(correlate(measure, data, ask, known, seed))
    if "nup" in roles:
        figures.insert(len(NUP_CORPORA), mean_of(figures[: len(NUP_CORPORA)]))
    if "emotion" in roles:
        logger.info("%s: emotion on dailydialog_test", pack.name)
        figures.append(emotion(data, ask))
    return figures


def measure_pack(
    pack: Pack,
    data: Path,
    *,
    against: Pack | None = None,
    before: Mapping[str, Any] | None = None,
    record: bool = False,
    cache: Cache | None = None,
) -> dict[str, Any]:
    """Measure a pack on the folder `data` with human/, train/, test/ and published/; return the report as plain values.

    `against` is the same pack in full precision: the report says what compression costs. `before` is an earlier report:
    models that are the same since then are not measured again. `record` writes the figures on the pack's cards.
    """
    models = {role: pack.manifest.fingerprint(role) for role in pack.roles}
    kept = {role for role in ROLES if role in models and before and before["models"].get(role) == models[role]}
    roles = [role for role in ROLES if role in models and role not in kept]
    figures = measure_roles(pack, data, roles, cache)
    full = measure_roles(against, data, roles, cache) if against is not None else None
    rows: list[dict[str, Any]] = []
    for place, figure in enumerate(figures):
        rows.append({f.name: getattr(figure, f.name) for f in fields(figure) if f.name != "draws"})
        rows[-1]["met"] = figure.met
        if full is not None:
            rows[-1]["compression"] = cost(figure, full[place])
    if record:
        _record(pack, figures)
    if before:
        # In the earlier report's order.
        new, measured = iter(rows), {row["role"] for row in rows}
        old = [row for row in before["figures"] if row["role"] in kept | measured]
        rows = [*(row if row["role"] in kept else next(new) for row in old), *new]
    missing = sorted({*ROLES} - {row["role"] for row in rows})
    about_pack = {"pack": pack.name, "version": pack.manifest.version, "models": models}
    return {**about_pack, "not_measured": missing, "figures": rows}


def cost(figure: Finding, full: Finding) -> dict[str, Any]:
    """Return what a figure lost against the same figure in full precision, and the interval of that loss."""
    if figure.value is None or full.value is None:
        return {"cost": None, "low": None, "high": None, "met": None}
    interval = percentile_interval(full.draws - figure.draws, 0.95)
    lost = full.value - figure.value
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {"full": full.value, "cost": lost, "low": low, "high": high, "met": lost <= DEAREST if figure.bar else None}


def _record(pack: Pack, figures: Sequence[Finding]) -> None:
    """Write what was measured on the cards in the pack's manifest; no file of a model is touched."""
    path = pack.folder / MANIFEST
    manifest = json.loads(path.read_text(encoding="utf-8"))
    for role in {f.role for f in figures}:
        manifest["roles"][role]["card"]["measured"] = [
            {"corpus": f.corpus, "quality": f.quality, "score": f.score, f.statistic: round(f.value, 4), "n": f.n}
            for f in figures
            if f.role == role and f.value is not None
        ]
    manifest.pop("sha256", None)
    write_text(path, sealed(manifest, indent=1))


HEADS = ("role", "corpus", "quality", "score", "value", "n", "bar", "reached", "quick", "papers", "length alone",
         "length taken out")  # fmt: skip
COSTS = ("role", "corpus", "quality", "score", "full precision", "compressed", "cost", "allowed")


def markdown(found: Mapping[str, Any]) -> str:
    """Return a report as tables: the bars first, then what else was measured."""
    rows = found["figures"]
    bars = [row for row in rows if row["bar"] is not None]
    lines = [
        f"# What {found['pack']} {found['version']} measures",
        "",
        "Spearman's rank correlation with the mean rating of people (macro-F1 for emotion), on the CPU, references "
        "left out; in brackets the 95 % interval of a bootstrap over contexts. *Quick* is the model of the same kind "
        "that a few minutes of plain training gave; *papers* is what others published for their own, larger models "
        "(*rerun*: the same corpus scored by others with the authors' models).",
        "",
        f"{sum(row['met'] for row in bars)} of {len(bars)} bars are reached.",
    ]
    if found["not_measured"]:
        lines.append(f"Not measured: {', '.join(found['not_measured'])}.")
    for title, part in (("Bars", bars), ("Beside the bars", [row for row in rows if row["bar"] is None])):
        if part:
            lines += ["", f"## {title}", "", *_lines(HEADS, map(_cells, part))]
    if known := [row for row in rows if "compression" in row]:
        allowed = f"At most {DEAREST} of any bar is allowed."
        lines += ["", "## What compression costs", "", allowed, "", *_lines(COSTS, map(_cost_cells, known))]
    return "\n".join(lines) + "\n"


def _lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for cells in (head, ["---"] * len(head), *rows):
        yield "|" + "---|" * len(head) if cells[0] == "---" else f"| {' | '.join(cells)} |"


def _cells(row: Mapping[str, Any]) -> list[str]:
    papers = ", ".join(f"{name} {value:.3f}" for name, value in row["papers"].items())
    value = f"{_number(row['value'])} [{_number(row['low'])}, {_number(row['high'])}]"
    held = [value, str(row["n"]), _number(row["bar"]), _word(row["met"]), _number(row["quick"]), papers]
    return [*_subject(row), *held, _number(row["length_alone"]), _number(row["length_taken_out"])]


def _cost_cells(row: Mapping[str, Any]) -> list[str]:
    lost = row["compression"]
    between = f"{_number(lost['cost'], 4)} [{_number(lost['low'], 4)}, {_number(lost['high'], 4)}]"
    return [*_subject(row), _number(lost.get("full"), 4), _number(row["value"], 4), between, _word(lost["met"])]


def _subject(row: Mapping[str, Any]) -> list[str]:
    return [row[name] for name in ("role", "corpus", "quality", "score")]


def _number(value: float | None, places: int = 3) -> str:
    return "" if value is None else f"{value:.{places}f}"


def _word(met: bool | None) -> str:
    return "" if met is None else "yes" if met else "**no**"
