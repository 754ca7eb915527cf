"""`fit`: learn from your own raters how much each metric should count, and check it on contexts it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from turnwise.analyses.config import composite_of, name_for, save_config
from turnwise.analyses.evaluate import check_targets, evaluated, refuse_waiting
from turnwise.analyses.ratings import Item, clusters_of, named_twice, rated_items
from turnwise.analyses.result import Framed
from turnwise.analyses.targets import keep_work
from turnwise.engine.score import Judged
from turnwise.errors import TurnwiseError
from turnwise.io.base import corpus_exclusions
from turnwise.metrics.composite import CompositeMetric
from turnwise.metrics.registry import GROUPS, Asked, as_asked, expand
from turnwise.options import Run, RunOptions, renamed
from turnwise.problems import Problem
from turnwise.stats.bootstrap import correlation_interval
from turnwise.stats.correlation import pearson, spearman
from turnwise.stats.regression import (
    LinearFit,
    Method,
    fit_linear,
    folds_by_cluster,
    held_out_predictions,
    weight_intervals,
)

# With fewer items than this for each metric, weights follow the accidents of the sample.
ITEMS_PER_METRIC = 3
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FittedWeight:
    """What one standard deviation of a metric is worth, in points of the rating, with its 95 % interval."""

    metric: str
    weight: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Agrees:
    """How far something agrees with the ratings; the interval is that of Spearman."""

    pearson: float | None
    spearman: float | None
    spearman_low: float | None
    spearman_high: float | None


@dataclass(frozen=True, slots=True)
class RaterWeights:
    """The fit to one rater alone."""

    rater: str
    n: int
    weights: dict[str, float]


@dataclass
class Fit(Framed):
    """Fitted weights, how they do on contexts that were held out, and the metric that they make."""

    main: ClassVar[str] = "weights"

    target: str
    weights: list[FittedWeight]
    cross_validated: Agrees
    in_sample: Agrees
    single: dict[str, Agrees]
    n: int
    contexts: int
    folds: int
    metric: CompositeMetric
    raters: list[RaterWeights] = field(default_factory=list)
    config: Path | None = None
    signatures: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `turnwise fit --format json`."""
        return {
            "target": self.target,
            "weights": [asdict(weight) for weight in self.weights],
            "cross_validated": asdict(self.cross_validated),
            "config": None if self.config is None else str(self.config),
            "in_sample": asdict(self.in_sample),
            "single": [{"metric": key, **asdict(agrees)} for key, agrees in self.single.items()],
            "raters": [asdict(rater) for rater in self.raters],
            "n": self.n,
            "contexts": self.contexts,
            "folds": self.folds,
            "signatures": self.signatures,
        }


def fit(
    source: object,
    metrics: Asked = "default",
    *,
    target: str = "Overall",
    per_rater: bool = False,
    ridge: float = 0.0,
    non_negative: bool = False,
    folds: int = 10,
    exclude_systems: Sequence[str] = (),
    save: str | Path | None = None,
    overwrite: bool = False,
    **options: Unpack[RunOptions],
) -> Fit:
    """Fit weights for metrics to one rated quality, by least squares on z-scores.

    Args:
        source: Rated rows.
        metrics: The metrics to weigh; those that do not judge single turns are left out, with a note.
        target: The rated quality. An item's rating is the mean of its raters.
        per_rater: Whether each rater is fitted alone and the weights are averaged.
        ridge: The penalty on squared weights.
        non_negative: Whether weights below zero are refused.
        folds: How many folds of contexts are held out in turn.
        exclude_systems: Systems to leave out.
        save: The file to write the fitted metric to, for `config` of every analysis.
        overwrite: Whether `save` may replace a file that exists.
        options: The options of a run, by name: see `turnwise.options.RunOptions`.

    Returns:
        The weights, how well they do on contexts that were held out, and the metric that they make.

    >>> import turnwise as tw
    >>> rows = [
    ...     {"context": [f"Question {n}?"], "response": "word " * (n % 5 + 1), "ratings": {"Overall": [n % 5 + n % 2]}}
    ...     for n in range(20)
    ... ]
    >>> found = tw.fit(rows, "length", folds=4)
    >>> round(found.weights[0].weight, 2), found.n
    (1.41, 20)
    """
    save = renamed(options, "config", "save", save)
    run = Run.of(**options)
    _check_request(ridge, folds)
    metrics = as_asked(metrics)
    # A score that depends on the whole run is not one that the fitted metric could weigh on another.
    named = [item for item in metrics if item not in GROUPS]
    refuse_waiting(
        expand(named, frozenset()) if named else {},
        "fit",
        "leave it out with `metrics`, or give it constants other than batch",
    )
    if save is not None:
        check_targets(source, config=Path(save))
        keep_work([save], overwrite=overwrite)
    result = evaluated(source, metrics, run, intervals=False)
    excluded, notes = _exclusions(result.judged, exclude_systems, run.reading.corpus)
    notes = [*result.notes, *notes]
    keys = [key for key, metric in result.metrics.items() if metric.per_turn]
    if len(keys) < len(result.metrics):
        left_out = ", ".join(key for key in result.metrics if key not in keys)
        notes.append(f"left out, because they do not judge single turns: {left_out}")
    items, missing = rated_items(result.judged, keys, target, excluded)
    if missing:
        notes.append(f"{missing} of {missing + len(items)} rated rows are left out: some metric has no score for them")
    scores = np.array([item.scores for item in items], dtype=np.float64).reshape(len(items), len(keys))
    overall = np.array([np.mean(list(item.ratings.values())) for item in items], dtype=np.float64)
    clusters = clusters_of(items)
    _check_data(keys, scores, overall, clusters, target, missing)
    method = Method(ridge, non_negative)
    people = _people(items, len(keys), notes) if per_rater else {}
    if per_rater:
        notes += named_twice(item.row for item in result.judged)
    ratings = np.column_stack(list(people.values())) if people else overall
    fitted = fit_linear(scores, ratings, method)
    dealt = folds_by_cluster(clusters, folds, run.seed)
    held_out = held_out_predictions(scores, ratings, dealt, method)
    intervals = weight_intervals(scores, ratings, clusters, method, seed=run.seed)
    found = Fit(
        target=target,
        weights=[
            FittedWeight(key, weight, *((None, None) if interval is None else (interval.low, interval.high)))
            for key, weight, interval in zip(keys, fitted.weights.tolist(), intervals, strict=True)
        ],
        cross_validated=_agrees(held_out, overall, clusters, run.seed),
        in_sample=_agrees(fitted.predict(scores), overall, clusters, run.seed),
        single={key: _agrees(scores[:, column], overall, clusters, run.seed) for column, key in enumerate(keys)},
        n=len(items),
        contexts=len(set(clusters.tolist())),
        folds=int(dealt.max()) + 1,
        metric=_composite(keys, fitted, "fitted" if save is None else name_for(save)),
        raters=[_rater(name, scores, column, keys, method) for name, column in people.items()],
        signatures=result.signatures,
        notes=notes,
        problems=result.problems,
    )
    return found if save is None else replace(found, config=_save(found, save))


def _check_request(ridge: float, folds: int) -> None:
    if not ridge >= 0 or ridge == float("inf"):
        raise TurnwiseError(f"ridge is {ridge:g}; give 0 or more")
    if folds < 2:
        raise TurnwiseError(f"{folds} folds leave nothing to check on; give 2 or more")


def _exclusions(judged: list[Judged], systems: Sequence[str], corpus: str | None) -> tuple[set[str], list[str]]:
    known = {item.row.example.system: None for item in judged if item.row.example}
    for name in systems:
        if name not in known:
            raise TurnwiseError(f"no system is called '{name}'; the systems are: {', '.join(known)}")
    notes = []
    papers = set(corpus_exclusions(corpus)) - set(systems) if corpus is not None else set()
    if papers:
        notes.append(f"left out, as the {corpus} paper does: {', '.join(sorted(papers))}")
    return {*systems, *papers}, notes


def _check_data(
    keys: list[str], scores: Floats, overall: Floats, clusters: NDArray[np.int64], target: str, missing: int
) -> None:
    """Refuse what no weights can be learned from, in one line."""
    if not keys:
        raise TurnwiseError("no metric judges single turns; ask for others with `metrics`")
    if not len(overall):
        lost = f"each of the {missing} rated rows lacks a score of some metric" if missing else "no row has a rating"
        raise TurnwiseError(f"there is nothing to fit to {target}: {lost}; see the notes of 'turnwise score'")
    if len(overall) < ITEMS_PER_METRIC * len(keys):
        needed = f"{ITEMS_PER_METRIC * len(keys)} are needed for {len(keys)} metrics"
        raise TurnwiseError(f"{len(overall)} rated items are too few: {needed}; rate more, or name fewer metrics")
    if len(np.unique(clusters)) < 2:
        raise TurnwiseError("all rated items share one context, so none can be held out; rate more contexts")
    if overall.min() == overall.max():
        raise TurnwiseError(f"every item has the same rating of {target}; there is nothing to learn from it")
    for key, column in zip(keys, scores.T, strict=True):
        if column.min() == column.max():
            raise TurnwiseError(f"{key} has the same score for every rated item; leave it out with `metrics`")


def _people(items: list[Item], metrics: int, notes: list[str]) -> dict[str, Floats]:
    """One column of ratings per rater, NaN where they gave none; raters with too few ratings are left out."""
    names = sorted({name for item in items for name in item.ratings})
    columns = {name: np.array([item.ratings.get(name, np.nan) for item in items], dtype=np.float64) for name in names}
    enough = {
        name: column
        for name, column in columns.items()
        if np.count_nonzero(~np.isnan(column)) >= ITEMS_PER_METRIC * metrics
    }
    few = [name for name in names if name not in enough]
    if not enough:
        raise TurnwiseError(
            f"no rater rated {ITEMS_PER_METRIC * metrics} items, as {metrics} metrics need; leave out `per_rater`"
        )
    if few:
        notes.append(f"left out, because they rated fewer than {ITEMS_PER_METRIC * metrics} items: {', '.join(few)}")
    if any(name.startswith("#") for name in enough):
        notes.append("raters are not named; the first rating of each item counts as one rater's, and so on")
    return enough


def _rater(name: str, scores: Floats, ratings: Floats, keys: list[str], method: Method) -> RaterWeights:
    weights = fit_linear(scores, ratings, method).weights.tolist()
    return RaterWeights(name, int(np.count_nonzero(~np.isnan(ratings))), dict(zip(keys, weights, strict=True)))


def _agrees(scores: Floats, ratings: Floats, clusters: NDArray[np.int64], seed: int) -> Agrees:
    interval = correlation_interval(scores, ratings, clusters, method="spearman", seed=seed)
    ends = (None, None) if interval is None else (interval.low, interval.high)
    return Agrees(pearson(scores, ratings).value, spearman(scores, ratings).value, *ends)


def _composite(keys: list[str], fitted: LinearFit, name: str) -> CompositeMetric:
    columns = zip(keys, fitted.weights.tolist(), fitted.mean.tolist(), fitted.deviation.tolist(), strict=True)
    parts = [
        {"metric": key, "weight": weight, "normaliser": {"kind": "z", "mean": mean, "deviation": deviation}}
        for key, weight, mean, deviation in columns
    ]
    return composite_of({"name": name, "intercept": fitted.intercept, "parts": parts})


def _save(found: Fit, config: str | Path) -> Path:
    from turnwise import __version__

    checked = found.cross_validated.spearman
    shown = "undefined" if checked is None else f"{checked:.3f}"
    description = (
        f"fitted to {found.target} by turnwise {__version__}: {found.n} items, {found.contexts} contexts, "
        f"Spearman {shown} in {found.folds}-fold cross-validation"
    )
    return save_config(found.metric, config, description=description)
