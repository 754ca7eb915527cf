"""`plan` and `sample`: how large an experiment must be, and which of its replies people should rate."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from turnwise.analyses.compare import paired_values
from turnwise.analyses.evaluate import check_qualities, evaluated
from turnwise.analyses.people import WEIGHT
from turnwise.analyses.result import Result, Rows
from turnwise.analyses.targets import check_targets
from turnwise.analyses.verdict import choose_metric, main_quality
from turnwise.dialogue import Example
from turnwise.engine.score import cluster_key, context_key
from turnwise.errors import TurnwiseError
from turnwise.files import write_text
from turnwise.io.write import example_to_dict
from turnwise.metrics.registry import Asked
from turnwise.options import Run, RunOptions
from turnwise.stats.anchored import FEWEST_LABELLED, sample_rows
from turnwise.stats.power import Variance, paired_variance, plan_sizes, unpaired_variance, variance_components


@dataclass(frozen=True, slots=True)
class PlanRow:
    """How many contexts find a difference of one metric or quality, with so many ratings of each reply."""

    what: str
    difference: float
    raters: int
    contexts: int
    power: float


@dataclass(repr=False)
class ExperimentPlan(Rows[PlanRow]):
    """Sizes of an experiment, and the variance of the pilot that they come from."""

    pilot: str = ""
    variances: dict[str, Variance] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document of `turnwise plan --format json`."""
        variances = {what: asdict(found) for what, found in self.variances.items()}
        return {"rows": [asdict(row) for row in self.rows], "pilot": self.pilot, "variances": variances}


def plan(
    source: object,
    difference: float,
    metrics: Asked = "default",
    *,
    quality: str | None = None,
    power: float = 0.8,
    pairs: int = 1,
    **options: Unpack[RunOptions],
) -> ExperimentPlan:
    """Return how many contexts an experiment needs to find a difference, from the variance in a pilot.

    Args:
        source: The pilot: rows of one system or several, on the same contexts or on their own.
        difference: The smallest difference that the experiment should find.
        metrics: The metrics to choose from: planned is for the one that the verdict would use.
        quality: A rated quality to plan for instead, and for several numbers of ratings of each reply.
        power: The chance to find the difference.
        pairs: How many pairs of systems will be compared at once.
        options: The options of a run, by name: see `turnwise.options.RunOptions`.

    Returns:
        One row per number of ratings, and the variance that they come from.

    >>> import turnwise as tw
    >>> rows = [{"context": [f"Question {n}?"], "response": "a " * (2 + n * 7 % 5)} for n in range(20)]
    >>> tw.plan(rows, 1.0, metrics="length").frame.select("what", "contexts").rows()
    [('length', 36)]
    """
    if not (math.isfinite(difference) and difference > 0):
        raise TurnwiseError(f"`difference`: expected a number above 0, got {difference:g}")
    if not 0 < power < 1:
        raise TurnwiseError(f"`power`: expected a number between 0 and 1, got {power:g}")
    result = evaluated(source, metrics, Run.of(**options), intervals=False)
    if quality is not None:
        what, found, pilot = quality, _of_ratings(result, quality), "people's ratings"
    else:
        chosen = choose_metric(result.judged, result.metrics).metric or next(iter(result.metrics))
        what, found, pilot = chosen, _of_scores(result, chosen), "scores"
    if found is None:
        raise TurnwiseError(f"{what}: the pilot has too few contexts to say how far it varies; give at least six")
    variance, design = found
    plans = plan_sizes(difference, variance, pairs=pairs, power=power)
    if not plans:
        raise TurnwiseError(f"`difference`: no experiment of ten million contexts finds {difference:g} of {what}")
    rows = [PlanRow(what, difference, one.raters, one.contexts, one.power) for one in plans]
    return ExperimentPlan(rows, result.notes, result.problems, f"{pilot} of {design}", {what: variance})


def _of_scores(result: Result, key: str) -> tuple[Variance, str] | None:
    """Return what differences of a metric vary by: between paired systems, or between two like the ones given."""
    found = []
    for pairs in paired_values(result, key):
        variance = paired_variance(pairs.ours, pairs.theirs, pairs.clusters)
        if variance is not None and variance.n >= 6:
            found.append(variance)
    if found:
        return _mean(found), f"{found[0].n} contexts, paired"
    for system in result.summary.systems:
        items = [
            (item.scores[key].value, cluster_key(item.row.example))
            for item in result.judged
            if item.row.example and item.row.example.system == system
        ]
        values = [math.nan if value is None else value for value, _ in items]
        variance = unpaired_variance(values, np.array([cluster for _, cluster in items]))
        if variance is not None and variance.n >= 6:
            found.append(variance)
    return (_mean(found), f"{found[0].n} contexts, for systems on contexts of their own") if found else None


def _of_ratings(result: Result, quality: str) -> tuple[Variance, str] | None:
    """Return the same for ratings: what contexts vary by, and what raters add."""
    tables: dict[str, dict[int, list[float]]] = {}
    for item in result.judged:
        example = item.row.example
        if example and (given := [r for r in example.ratings.get(quality, ()) if r is not None]):
            tables.setdefault(example.system, {}).setdefault(context_key(example), []).extend(given)
    if not tables:
        qualities = {name: None for item in result.judged if item.row.example for name in item.row.example.ratings}
        check_qualities(list(qualities), [quality])
    found = []
    for first, second in combinations(tables.values(), 2):
        shared = [context for context in first if context in second]
        if len(shared) >= 6:
            sizes = min(min(len(first[c]), len(second[c])) for c in shared)
            differences = [[a - b for a, b in zip(first[c][:sizes], second[c][:sizes], strict=True)] for c in shared]
            found.append(variance_components(differences))
    known = [one for one in found if one is not None]
    if known:
        return _mean(known), f"{known[0].n} contexts, paired"
    for table in tables.values():
        longest = max(map(len, table.values()))
        padded = [[*given, *[math.nan] * (longest - len(given))] for given in table.values()]
        one = variance_components(padded) if len(padded) >= 6 else None
        if one is not None:
            known.append(Variance(2 * one.between, 2 * one.within, one.n))
    return (_mean(known), f"{known[0].n} contexts, for systems on contexts of their own") if known else None


def _mean(found: list[Variance]) -> Variance:
    between, within = (float(np.mean([getattr(one, name) for one in found])) for name in ("between", "within"))
    return Variance(between, within, found[0].n)


@dataclass(frozen=True, slots=True)
class ToRateRow:
    """A reply to rate, and how many replies it stands for."""

    id: str
    system: str
    weight: float


@dataclass(repr=False)
class ToRate(Rows[ToRateRow]):
    """The replies that people should rate; `save` writes them with all others."""

    metric: str = ""
    quality: str = ""
    examples: list[tuple[Example, float | None]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document of `turnwise sample --format json`."""
        return {"rows": [asdict(row) for row in self.rows], "metric": self.metric}

    def lines(self) -> Iterator[str]:
        """Yield all rows as JSON Lines, those to rate first, each with an empty rating and its weight."""
        for example, weight in sorted(self.examples, key=lambda pair: pair[1] is None):
            row = example_to_dict(example)
            if weight is not None:
                row |= {"ratings": {self.quality: [None], **row.get("ratings", {})}, WEIGHT: round(weight, 6)}
            yield json.dumps(row, ensure_ascii=False) + "\n"

    def save(self, path: str | Path) -> Path:
        """Write all rows to a file, to be filled in and scored."""
        return write_text(path, self.lines())


def sample(
    source: object,
    labels: int,
    metrics: Asked = "default",
    *,
    quality: str | None = None,
    save: str | Path | None = None,
    **options: Unpack[RunOptions],
) -> ToRate:
    """Pick so many replies of each system for people to rate: at random, as many from every fifth of the scores.

    Args:
        source: The rows.
        labels: How many replies of each system to pick.
        metrics: The metrics to choose from: the one that the verdict would use splits the scores.
        quality: What people will rate; default: the overall quality of ratings that are there, else `Overall`.
        save: A file for all rows, those to rate first, with empty ratings and with weights that later results use.
        options: The options of a run, by name: see `turnwise.options.RunOptions`.

    Returns:
        One row per reply to rate.

    >>> import turnwise as tw
    >>> rows = [{"context": [f"Question {n}?"], "response": "a " * (1 + n % 7)} for n in range(50)]
    >>> tw.sample(rows, 10, metrics="length").frame["weight"].sum()
    50.0
    """
    if labels < 1:
        raise TurnwiseError(f"`labels`: expected 1 or more, got {labels}")
    check_targets(source, files=[Path(save)] if save is not None else [])
    run = Run.of(**options)
    result = evaluated(source, metrics, run, intervals=False)
    key = choose_metric(result.judged, result.metrics).metric or next(iter(result.metrics))
    examples = [item.row.example for item in result.judged if item.row.example]
    scores = [item.scores[key].value for item in result.judged if item.row.example]
    weights: dict[int, float] = {}
    for place, system in enumerate(result.summary.systems):
        rows = [row for row, example in enumerate(examples) if example.system == system]
        values = [math.nan if (value := scores[row]) is None else value for row in rows]
        found = sample_rows(values, labels, seed=run.seed + place)
        weights |= {rows[row]: weight for row, weight in zip(found.rows.tolist(), found.weights.tolist(), strict=True)}
    named = quality or main_quality({name: None for example in examples for name in example.ratings}) or "Overall"
    picked = [ToRateRow(examples[row].id, examples[row].system, weights[row]) for row in sorted(weights)]
    notes = list(result.notes)
    if labels < FEWEST_LABELLED:
        notes.append(f"fewer than {FEWEST_LABELLED} rated contexts say nothing of the others; rate more of each system")
    rated = [(example, weights.get(row)) for row, example in enumerate(examples)]
    chosen = ToRate(picked, notes, result.problems, key, named, rated)
    if save is not None:
        chosen.save(save)
    return chosen
