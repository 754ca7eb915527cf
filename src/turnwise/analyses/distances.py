"""`perturb` and `normality`: whether metrics follow corrupted answers, and what distances take for granted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from operator import or_
from random import Random
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from turnwise.analyses.evaluate import Problems, offered_by, refuse_waiting
from turnwise.analyses.result import Rows
from turnwise.dialogue import Example, Row
from turnwise.engine.aggregate import Summary
from turnwise.engine.score import judge_rows
from turnwise.errors import TurnwiseError
from turnwise.metrics.base import Metric
from turnwise.metrics.distributions import Distance
from turnwise.metrics.registry import Asked, expand, load_metric
from turnwise.models.requests import Request
from turnwise.options import Run, RunOptions, name_of
from turnwise.stats.frechet import FEWEST, shapiro_wilk
from turnwise.text.corrupt import TRANSFORMS, Transform, perturbed

RATIOS = (0.0, 0.25, 0.5, 0.75, 1.0)
SEEDS = 5
SAMPLE = 500
SYSTEM = "perturbed"


@dataclass(frozen=True, slots=True)
class PerturbRow:
    """A metric's value where a share of the answers is spoilt: mean and standard deviation over the seeds."""

    metric: str
    transform: str
    ratio: float
    value: float | None
    deviation: float | None
    n: int
    seeds: int


@dataclass(frozen=True, slots=True)
class Trend:
    """Which way a metric goes as the ratio grows: it `rises` or `falls` at every step, or does `neither`."""

    metric: str
    transform: str
    trend: str
    higher_is_better: bool | None


@dataclass(repr=False)
class Perturbation(Rows[PerturbRow]):
    """The curves, and whether each goes one way only."""

    trends: list[Trend] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `turnwise perturb --format json`."""
        return {**super().to_dict(), "trends": [asdict(trend) for trend in self.trends]}


def perturb(
    source: object,
    metrics: Asked = ("fbd", "prd"),
    *,
    transforms: Sequence[str] = TRANSFORMS,
    ratios: Sequence[float] = RATIOS,
    seeds: int = SEEDS,
    sample: int = SAMPLE,
    **options: Unpack[RunOptions],
) -> Perturbation:
    """Corrupt a growing share of reference answers, and compute metrics at every step.

    An answer is a row's first reference, or its response without one; each counts once. A metric of quality should
    get worse with every step.

    Args:
        source: The rows with the answers.
        metrics: The metrics to compute; default: `fbd` and `prd`.
        transforms: How answers are corrupted.
        ratios: The shares of answers, or of their words, to corrupt.
        seeds: How many times each share is drawn.
        sample: How many answers to use at most.
        options: The options of a run, by name: see `turnwise.options.RunOptions`.

    Returns:
        One row per metric, transform and ratio; `trends` says which curves go one way only.

    >>> import turnwise as tw
    >>> answers = ["I like green tea.", "No, I have never been there.", "It is raining again today."]
    >>> rows = [{"context": ["Tea?"], "response": answer} for answer in answers]
    >>> found = tw.perturb(rows, "f1", transforms=["permutate"], ratios=[0.0, 1.0], seeds=1)
    >>> found.frame.select("metric", "ratio", "n").rows()
    [('f1', 0.0, 3), ('f1', 1.0, 3)]
    """
    run = Run.of(**options)
    wanted = _checked(transforms, ratios, seeds, sample)
    problems = Problems(strict=run.reading.strict)
    answers = _answers(run.reading.rows(source), problems)
    if len(answers) < 2:
        few = f"{len(answers)} answers are too few to be perturbed; give more"
        raise TurnwiseError(f"{name_of(source)}: {few}{problems.first()}")
    notes = []
    if len(answers) > sample:
        notes.append(f"a sample of {sample:,} of {len(answers):,} answers; take more with `sample`")
        answers = Random(run.seed).sample(answers, sample)
    with run.backend.session() as session:
        chosen = expand(metrics, offered_by(example for _, example in answers), session.roles)
        refuse_waiting(chosen, "perturb", "leave it out with `metrics`")

        def values_at(transform: Transform, ratio: float, number: int) -> list[float | None]:
            said = perturbed([example.response for _, example in answers], transform, ratio, run.seed + number)
            rows = [
                replace(row, example=replace(example, response=text))
                for (row, example), text in zip(answers, said, strict=True)
            ]
            summary = Summary(chosen)
            for item in run.ticking(judge_rows(rows, chosen, session.answer)):
                problems.see_scores(item)
                summary.add(item)
            return [summary.point(SYSTEM, key) for key in chosen]

        # Nothing is spoilt at 0, however it would have been.
        untouched = values_at(wanted[0], 0.0, 0) if 0.0 in ratios else []
        rows: list[PerturbRow] = []
        for transform in wanted:
            for ratio in sorted(set(ratios)):
                drawn = [values_at(transform, ratio, number) if ratio else untouched for number in range(seeds)]
                rows += [
                    _summed(key, transform, ratio, [values[place] for values in drawn], len(answers))
                    for place, key in enumerate(chosen)
                ]
    return Perturbation(rows, notes, problems.all(), _trends(rows, chosen, wanted))


def _checked(transforms: Sequence[str], ratios: Sequence[float], seeds: int, sample: int) -> list[Transform]:
    """The transforms, once the request is found to make sense."""
    known: dict[str, Transform] = {name: name for name in TRANSFORMS}
    for name in transforms:
        if name not in known:
            raise TurnwiseError(f"no transform is called '{name}'; choose among {', '.join(TRANSFORMS)}")
    for ratio in ratios:
        if not 0 <= ratio <= 1:
            raise TurnwiseError(f"a ratio of {ratio:g} is no share; give ratios from 0 to 1")
    if not transforms or not ratios or seeds < 1 or sample < 2:
        raise TurnwiseError("give at least one transform, one ratio, one seed and a sample of two")
    return [known[name] for name in dict.fromkeys(transforms)]


def _answers(rows: Iterable[Row], problems: Problems) -> list[tuple[Row, Example]]:
    """Each different answer to a context once, as a response whose reference it is itself."""
    found: dict[tuple[tuple[str, ...], str], tuple[Row, Example]] = {}
    for row in rows:
        problems.see_row(row)
        if row.example is not None:
            answer = next(iter(row.example.references), row.example.response)
            plain = replace(row.example, response=answer, references=(answer,), system=SYSTEM, ratings={}, raters=())
            found.setdefault((plain.context, answer), (row, plain))
    return list(found.values())


def _summed(metric: str, transform: str, ratio: float, values: Sequence[float | None], n: int) -> PerturbRow:
    known = [value for value in values if value is not None]
    mean = float(np.mean(known)) if known else None
    deviation = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return PerturbRow(metric, transform, ratio, mean, deviation, n, len(known))


def _trends(rows: Sequence[PerturbRow], metrics: Mapping[str, Metric], transforms: Sequence[str]) -> list[Trend]:
    found = []
    for transform in transforms:
        for key, metric in metrics.items():
            values = [row.value for row in rows if (row.metric, row.transform) == (key, transform)]
            known = [value for value in values if value is not None]
            steps = np.diff(known)
            complete = len(known) == len(values) > 1
            way = "rises" if (steps > 0).all() else "falls" if (steps < 0).all() else "neither"
            found.append(Trend(key, transform, way if complete else "neither", metric.higher_is_better))
    return found


REFERENCES = "references"


@dataclass(frozen=True, slots=True)
class NormalityRow:
    """Shapiro and Wilk's W and its p over the dimensions of one set of vectors, each with its own mean."""

    set: str
    n: int
    dimensions: int
    w_mean: float
    w_deviation: float
    p_mean: float
    p_deviation: float
    rejected: float


@dataclass(repr=False)
class NormalityReport(Rows[NormalityRow]):
    """The references first, then every system."""


def normality(
    source: object,
    metric: str = "fbd",
    **options: Unpack[RunOptions],
) -> NormalityReport:
    """Test every dimension of the vectors of references and of each system's responses for normality.

    Args:
        source: The rows, with references.
        metric: The metric of distributions whose vectors are tested.
        options: The options of a run, by name: see `turnwise.options.RunOptions`.

    Returns:
        One row for the references and one per system.

    Vectors need a pack; a metric of words has none:

    >>> import turnwise as tw
    >>> tw.normality([{"context": ["Tea?"], "response": "Yes."}], "f1")
    Traceback (most recent call last):
    ...
    turnwise.errors.TurnwiseError: f1 compares no distributions; test the vectors of fbd or prd
    """
    run = Run.of(**options)
    distance = load_metric(metric)
    if not isinstance(distance, Distance):
        raise TurnwiseError(f"{metric} compares no distributions; test the vectors of fbd or prd")
    problems = Problems(strict=run.reading.strict)
    real: dict[str, Counter[Request]] = {}
    said: dict[str, Counter[Request]] = {}
    for row in run.reading.rows(source):
        problems.see_row(row)
        if row.example is None or distance.unmet_need(row.example) is not None:
            continue
        response, *references = distance.requests(row.example)
        said.setdefault(row.example.system, Counter())[response] += 1
        real.setdefault(row.example.system, Counter()).update(references)
    # Pairs are tested as often as they occur; but a reference is no more of them for being given with every system.
    sets = {REFERENCES: reduce(or_, real.values(), Counter[Request]()), **said}
    if not sets[REFERENCES]:
        raise TurnwiseError(f"no row has both a context and references; there is nothing to test{problems.first()}")
    with run.backend.session() as session:
        answers = session.answer({request: None for requests in sets.values() for request in requests})
    small = [name for name, requests in sets.items() if len(requests) < FEWEST]
    notes = [f"left out, for fewer than {FEWEST} different vectors: {', '.join(small)}"] if small else []
    rows = [
        _row(name, [np.asarray(answers[request]) for request in requests.elements()])
        for name, requests in sets.items()
        if name not in small
    ]
    return NormalityReport(rows, notes, problems.all())


def _row(name: str, vectors: Iterable[NDArray[np.float32]]) -> NormalityRow:
    found = shapiro_wilk(np.stack(list(vectors)))
    w, p = found.w, found.p
    spread = (float(w.mean()), float(w.std()), float(p.mean()), float(p.std()))
    return NormalityRow(name, found.n, len(w), *spread, found.rejected)
