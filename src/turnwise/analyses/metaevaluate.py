"""`metaevaluate`: how far each metric agrees with people, per corpus, quality and level."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from turnwise.analyses.evaluate import check_qualities, evaluated
from turnwise.analyses.ratings import Level, Points, RatedTurns, intervals_of, system_means
from turnwise.analyses.result import Result, Rows
from turnwise.engine.aggregate import Summary, basis_of
from turnwise.engine.score import Judged
from turnwise.errors import TurnwiseError
from turnwise.io.base import corpus_exclusions
from turnwise.io.read import names_apart
from turnwise.metrics.base import Metric
from turnwise.metrics.registry import Asked
from turnwise.options import Run, RunOptions
from turnwise.stats.bootstrap import Interval, system_correlation_interval
from turnwise.stats.correlation import kendall, pearson, spearman, spearman_of_weights
from turnwise.stats.decisions import Evidence, Verdict, decide, jackknifed
from turnwise.stats.significance import williams_test


class Pooled:
    """Values of systems as wholes, in place of the means of their turns: made once for all qualities of a corpus."""

    def __init__(self, result: Result, judged: Sequence[Judged]) -> None:
        self.metrics = result.metrics
        self._judged = judged
        self._summaries: dict[str, Summary] = {}
        # Where every turn of the run is of this corpus and counts, the run has the values already.
        run = result.system_values if len(judged) == len(result.judged) else ()
        self._values = {(one.system, one.metric): one.value for one in run}

    def scores(self, systems: Iterable[str], key: str) -> NDArray[np.float64]:
        """What a metric says of each system; not a number where it says nothing."""
        values = [self._value(system, key) for system in systems]
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    def _value(self, system: str, key: str) -> float | None:
        if (system, key) not in self._values:
            if key not in self._summaries:
                self._summaries[key] = Summary({key: self.metrics[key]})
                for item in self._judged:
                    self._summaries[key].add(Judged(item.row, {key: item.scores[key]}))
            self._values[system, key] = self._summaries[key].point(system, key)
        return self._values[system, key]


@dataclass(frozen=True, slots=True)
class RivalRow:
    """A metric's Spearman correlation with people beside that of another on the same turns.

    Interval and p come from one test, a jackknife over contexts, and hold for all metrics of a quality at once.
    `p_williams` is Williams' test, which takes turns for independent of each other.
    """

    corpus: str
    quality: str
    metric: str
    against: str
    n: int
    spearman: float
    spearman_against: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_williams: float | None
    verdict: Verdict = "not enough data"


def rivals(
    corpus: str, points: Mapping[tuple[str, str], Points], against: str, metrics: Mapping[str, Metric], seed: int
) -> Iterator[RivalRow]:
    """Yield every other metric against the one named, quality by quality, but for undefined correlations.

    The metrics that are compared on one quality are one family.
    """
    for quality in dict.fromkeys(quality for _, quality in points):
        theirs = points.get((against, quality))
        found = [
            _rival(metric, ours, theirs)
            for (metric, of), ours in points.items()
            if of == quality and metric != against and theirs is not None
        ]
        known = [one for one in found if one is not None]
        decided = decide(
            [one.evidence for one in known], [_direction(metrics, one.metric, against) for one in known], seed=seed
        )
        for one, decision in zip(known, decided, strict=True):
            yield RivalRow(
                corpus, quality, one.metric, against, one.n, one.mine, one.its, one.mine - one.its,
                low=None if decision is None else decision.low,
                high=None if decision is None else decision.high,
                p=None if decision is None else decision.p,
                p_williams=one.p_williams,
                verdict="not enough data" if decision is None else decision.verdict,
            )  # fmt: skip


def _direction(metrics: Mapping[str, Metric], one: str, other: str) -> bool | None:
    """Return whether a higher correlation is better for both metrics; None if they point in different directions."""
    ours, theirs = (metrics[key].higher_is_better is not False for key in (one, other))
    return ours if ours == theirs else None


@dataclass(frozen=True, slots=True)
class _Rival:
    metric: str
    n: int
    mine: float
    its: float
    evidence: Evidence | None
    p_williams: float | None


# Clusters are left out one at a time, or one block of them where there are more.
MOST_LEFT_OUT = 200


def _rival(metric: str, ours: Points, theirs: Points) -> _Rival | None:
    shared = set(ours.turns) & set(theirs.turns)
    mine, its = (np.array([turn in shared for turn in side.turns], dtype=np.bool_) for side in (ours, theirs))
    a, b, people = ours.scores[mine], theirs.scores[its], ours.ratings[mine]
    first, second, between = spearman(a, people), spearman(b, people), spearman(a, b)
    if first.value is None or second.value is None or between.value is None:
        return None
    labels, codes = np.unique(ours.clusters[mine], return_inverse=True)
    codes %= MOST_LEFT_OUT
    blocks = np.arange(int(codes.max()) + 1)
    kept = (codes[:, None] != blocks).astype(np.float64)
    without = spearman_of_weights(a, people)(kept) - spearman_of_weights(b, people)(kept)
    names = labels[: len(blocks)] if len(labels) <= MOST_LEFT_OUT else blocks.astype(np.int64)
    evidence = jackknifed(first.value - second.value, without, names)
    williams = williams_test(first.value, second.value, between.value, first.n)
    p_williams = None if williams is None else williams.p
    return _Rival(metric, first.n, first.value, second.value, evidence, p_williams)


# By metric and quality.
Measured = Mapping[tuple[str, str], Points]


@dataclass(frozen=True, slots=True)
class MetaRow:
    """One metric against one quality of one corpus. Correlations are signed; None where undefined."""

    corpus: str
    metric: str
    quality: str
    level: Level
    n: int
    pearson: float | None
    spearman: float | None
    kendall: float | None
    spearman_low: float | None
    spearman_high: float | None
    p_pearson: float | None
    p_spearman: float | None


@dataclass(repr=False)
class MetaEvaluation(Rows[MetaRow]):
    """The correlations, the signatures of the metrics, and how each metric fares against a rival that was named."""

    signatures: dict[str, str] = field(default_factory=dict)
    rivals: list[RivalRow] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `turnwise metaeval --format json`."""
        named = {"rivals": [asdict(row) for row in self.rivals]} if self.rivals else {}
        return {**super().to_dict(), "signatures": self.signatures, **named}


def metaevaluate(
    source: object,
    metrics: Asked = "default",
    *,
    qualities: Sequence[str] | None = None,
    exclude_systems: Sequence[str] = (),
    level: Level | Literal["all"] = "turn",
    against: str | None = None,
    **options: Unpack[RunOptions],
) -> MetaEvaluation:
    """Correlate metrics, and the one that `config` composes, with ratings.

    Args:
        source: Rated rows. Each file is a corpus, named by its stem, and by its folders too if names repeat.
        metrics: The metrics to check.
        qualities: The rated qualities to check against; default: all.
        exclude_systems: Systems to leave out.
        level: What one point is: a `turn`, a `dialogue`, a `system`; or `all` three.
        against: One of the metrics, which every other is tested against, turn by turn.
        options: The options of a run, by name: see `turnwise.options.RunOptions`.

    Returns:
        One row per corpus, metric, quality and level; with `against` also `rivals`.

    >>> import turnwise as tw
    >>> rows = [
    ...     {"context": [f"Question {n}?"], "response": "word " * n, "ratings": {"Overall": [n, n + 1]}}
    ...     for n in range(1, 6)
    ... ]
    >>> tw.metaevaluate(rows, "length").frame.select("metric", "quality", "n", "spearman").rows()
    [('length', 'Overall', 5, 1.0)]
    """
    if against is not None and level not in ("turn", "all"):
        raise TurnwiseError("`against` compares metrics over single turns; use it with `level=turn`")
    levels: tuple[Level, ...] = get_args(Level) if level == "all" else (level,)
    run = Run.of(**options)
    result = evaluated(source, metrics, run, intervals=False)
    excluded = set(exclude_systems)
    notes = list(result.notes)
    corpus = run.reading.corpus
    if corpus is not None and (known := set(corpus_exclusions(corpus)) - excluded):
        notes.append(f"left out, as the {corpus} paper does: {', '.join(sorted(known))}")
        excluded |= known
    _check_names(result.judged, exclude_systems, qualities)
    if against is not None and against not in result.metrics:
        raise TurnwiseError(f"`against`: '{against}' is not among the metrics: {', '.join(result.metrics)}")
    rows: list[MetaRow] = []
    compared: list[RivalRow] = []
    trivial: list[RivalRow] = []
    for name, judged in _by_corpus(result.judged).items():
        kept = [item for item in judged if item.row.example and item.row.example.system not in excluded]
        turns, pooled = RatedTurns(kept), Pooled(result, kept)
        found = turns.qualities
        if not found:
            notes.append(f"{name}: no ratings")
        for wanted in levels:
            chosen = [quality for quality in found if qualities is None or quality in qualities]
            points = _points(pooled, turns, chosen, wanted)
            rows += _correlated(name, pooled, points, wanted, run.seed)
            if wanted == "turn":
                trivial += _against_trivial(name, points, result, run.seed)
            if against is not None and wanted == "turn":
                compared += rivals(name, points, against, result.metrics, run.seed)
    notes += _no_better(trivial)
    _check_found(rows, result.judged, levels, result.metrics)
    if "system" not in levels and (whole := _not_of_turns(result.metrics)):
        notes.append(f"left out: {whole}")
    # Each file being a corpus, no dialogue goes on in another.
    problems = [problem for problem in result.problems if problem.code != "dialogue.joined"]
    return MetaEvaluation(rows, notes, problems, result.signatures, compared)


# What any metric should agree with people better than.
TRIVIAL = ("length", "distinct-1", "distinct-2", "entropy-1")


def _against_trivial(
    corpus: str, points: Mapping[tuple[str, str], Points], result: Result, seed: int
) -> Iterator[RivalRow]:
    """Yield the metrics of every quality against the trivial one that agrees best with it, of those that were asked."""
    for quality in dict.fromkeys(quality for _, quality in points):
        of_quality = {pair: found for pair, found in points.items() if pair[1] == quality}
        sizes = {
            key: abs(value)
            for key, _ in of_quality
            if key in TRIVIAL and (value := spearman(points[key, quality].scores, points[key, quality].ratings).value)
        }
        if sizes:
            best = max(sizes, key=lambda key: sizes[key])
            others = {pair: found for pair, found in of_quality.items() if pair[0] == best or pair[0] not in TRIVIAL}
            yield from rivals(corpus, others, best, result.metrics, seed)


def _no_better(rows: Iterable[RivalRow]) -> Iterator[str]:
    """Yield which metrics are not shown to agree better with people than a trivial one."""
    found: dict[tuple[str, str, str, float], list[str]] = {}
    for row in rows:
        if row.verdict != "better":
            found.setdefault((row.corpus, row.quality, row.against, row.spearman_against), []).append(row.metric)
    for (corpus, quality, against, value), metrics in found.items():
        names = ", ".join(metrics)
        yield f"{corpus}, {quality}: not shown to agree better than {against} (Spearman {value:+.2f}): {names}"


def _by_corpus(judged: Iterable[Judged]) -> dict[str, list[Judged]]:
    judged = list(judged)
    names = names_apart(item.row.file for item in judged)
    corpora: dict[str, list[Judged]] = {name: [] for name in names.values()}
    for item in judged:
        corpora[names[item.row.file]].append(item)
    return corpora


def _points(pooled: Pooled, turns: RatedTurns, qualities: Sequence[str], level: Level) -> Measured:
    """Of every metric that has values of this level, and every quality, scores and ratings side by side."""
    return {
        (key, quality): of_both
        for key, metric in pooled.metrics.items()
        for quality in qualities
        if level == "system" or metric.per_turn
        if (of_both := turns.align(key, quality, level, whole=not metric.per_turn)).scores.size
    }


def _correlated(corpus: str, pooled: Pooled, points: Measured, level: Level, seed: int) -> Iterator[MetaRow]:
    """Every metric against every quality."""
    if level == "system":
        for (key, quality), turns in points.items():
            metric = pooled.metrics[key]
            means = system_means(turns)
            if not metric.mean_of_turns:
                # Pooled values cannot be recomputed for each resample from turn scores alone.
                yield _row(corpus, key, quality, level, replace(means, scores=pooled.scores(means.systems, key)), None)
                continue
            interval = system_correlation_interval(
                turns.scores, turns.ratings, turns.systems, turns.clusters, seed=seed
            )
            yield _row(corpus, key, quality, level, means, interval)
        return
    intervals = intervals_of(points, seed)
    for (key, quality), turns in points.items():
        yield _row(corpus, key, quality, level, turns, intervals[key, quality])


def _row(corpus: str, key: str, quality: str, level: Level, points: Points, interval: Interval | None) -> MetaRow:
    linear = pearson(points.scores, points.ratings)
    ranked = spearman(points.scores, points.ratings)
    known = interval is not None and ranked.value is not None
    return MetaRow(
        corpus=corpus,
        metric=key,
        quality=quality,
        level=level,
        n=ranked.n,
        pearson=linear.value,
        spearman=ranked.value,
        kendall=kendall(points.scores, points.ratings).value,
        spearman_low=interval.low if known and interval else None,
        spearman_high=interval.high if known and interval else None,
        p_pearson=linear.p,
        p_spearman=ranked.p,
    )


def _not_of_turns(metrics: Mapping[str, Metric]) -> str:
    """What can be said of metrics that only systems have values of; nothing where there are none."""
    found = []
    for basis, judged in (("groups", "groups of replies"), ("whole system", "whole systems")):
        if keys := [key for key, metric in metrics.items() if basis_of(metric) == basis]:
            found.append(f"{', '.join(keys)}: of {judged}")
    return f"{'; '.join(found)}, not of single turns; use `level=system`" if found else ""


def _check_names(judged: list[Judged], systems: Sequence[str], qualities: Sequence[str] | None) -> None:
    """A name that nothing bears is a slip of the pen, and must not quietly change what is computed."""
    known = {item.row.example.system: None for item in judged if item.row.example}
    for name in systems:
        if name not in known:
            raise TurnwiseError(f"no system is called '{name}'; the systems are: {', '.join(known)}")
    check_qualities(RatedTurns(judged).qualities, qualities)


def _check_found(
    rows: list[MetaRow], judged: list[Judged], levels: Sequence[Level], metrics: Mapping[str, Metric]
) -> None:
    if rows:
        return
    examples = [item.row.example for item in judged if item.row.example]
    rated = [example for example in examples if example.ratings]
    if not rated:
        raise TurnwiseError('no row has ratings; add a field such as "ratings": {"Overall": [4, 5, 3]}')
    if levels == ("turn",) and all(example.rated == "dialogue" for example in rated):
        raise TurnwiseError("the ratings are those of whole dialogues; use `level=dialogue` or `level=system`")
    if levels == ("dialogue",) and all(example.dialogue_id is None for example in rated):
        raise TurnwiseError("no rated row has a dialogue_id; use `level=turn` or add the field")
    if "system" not in levels and (whole := _not_of_turns(metrics)):
        raise TurnwiseError(whole)
    raise TurnwiseError("no row has both a rating and a score; see the notes of 'turnwise score'")
