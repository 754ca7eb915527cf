"""`compare`: which system is better, on which metric, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.dialogue import Row
from turnwise.engine.local import Judged, cluster_key, context_key
from turnwise.engine.summarise import Summary, leave_one_out
from turnwise.errors import TurnwiseError
from turnwise.io.read import file_stem
from turnwise.metrics.base import Metric, Score
from turnwise.metrics.composite import CompositeMetric
from turnwise.metrics.registry import load_metric
from turnwise.stats import significance
from turnwise.stats.jackknife import jackknife_comparison
from turnwise.stats.subsets import draws_of, resampled_comparison, units_of
from turnwise.verbs.evaluate import Result, evaluate
from turnwise.verbs.groups import group_difference
from turnwise.verbs.problems import AS_ONE
from turnwise.verbs.table import Rows

SIGNIFICANT = 0.05
# Systems are compared context by context when at least this share of each one's contexts is common to both.
SHARED = 0.5
# A gate says nothing about a system when more than this share of its rows has no score.
UNSCORED = 0.1
# With fewer contexts than this even one-sided differences cannot reach p < .05 by flipping signs.
FEWEST = 6
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CompareRow:
    """One system against another on one metric: system minus baseline."""

    metric: str
    system: str
    baseline: str
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    verdict: str


class Unanswered(NamedTuple):
    """How many of so many contexts somebody left out."""

    missing: int
    of: int


@dataclass(repr=False)
class Comparison(Rows[CompareRow]):
    """The differences, and what a gate asks of them.

    `unscored` is the share of each system's rows without a score, by system and metric; `unanswered`, by system and
    baseline, how many of the baseline's contexts the system left out, where both were given the same ones.
    """

    unscored: dict[tuple[str, str], float] = field(default_factory=dict)
    unanswered: dict[tuple[str, str], Unanswered] = field(default_factory=dict)
    contexts: int = FEWEST


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition for a release: no system may be worse than the baseline by more than a margin.

    `composed` is the metric itself, where it is not known by its name but read from a configuration.
    """

    metric: str
    margin: float
    composed: CompositeMetric | None = None

    def check_direction(self) -> bool:
        """Whether higher is better; a metric without a better end cannot be a gate."""
        higher_is_better = (self.composed or load_metric(self.metric)).higher_is_better
        if higher_is_better is None:
            raise TurnwiseError(f"--fail-if-worse: {self.metric} has no better or worse; gate on another metric")
        return higher_is_better

    def failures(self, comparison: Comparison) -> list[str]:
        """One line per system whose whole interval lies beyond the margin on the worse side.

        What could not be measured must not pass: it raises.
        """
        sign = 1.0 if self.check_direction() else -1.0
        failed = []
        for row in comparison.rows:
            if row.metric != self.metric:
                continue
            self._check_measured(row, comparison)
            if row.low is None or row.high is None:
                continue
            best_case = max(sign * row.low, sign * row.high)
            if best_case < -self.margin:
                failed.append(
                    f"{row.system} is worse than {row.baseline} on {self.metric}: difference "
                    f"{row.difference:+.4f}, 95 % interval [{row.low:+.4f}, {row.high:+.4f}], margin {self.margin:g}"
                )
        return failed

    def _check_measured(self, row: CompareRow, comparison: Comparison) -> None:
        found = None
        for system in (row.system, row.baseline):
            share = comparison.unscored.get((system, self.metric), 0.0)
            if share > UNSCORED or (row.low is None and share):
                found = f"{share:.0%} of the rows of {system} have no score"
        gap = comparison.unanswered.get((row.system, row.baseline), Unanswered(0, 1))
        if found is None and gap.missing > UNSCORED * gap.of:
            found = f"{row.system} left {gap.missing} of the {gap.of} contexts of {row.baseline} unanswered"
        elif found is None and (row.low is None or comparison.contexts < FEWEST):
            found = f"{comparison.contexts} are too few contexts, give at least {FEWEST}"
        if found is not None:
            raise TurnwiseError(f"the gate on {self.metric} cannot be checked: {found}; mend the input")


def compare(
    *sources: object,
    metrics: str | Iterable[str] = "default",
    config: str | Path | CompositeMetric | None = None,
    baseline: str | None = None,
    corpus: str | None = None,
    mapping: Mapping[str, str] | None = None,
    strict: bool = False,
    seed: int = 0,
    models: str | Path | None = None,
    device: str = "auto",
    cache: str | Path | None = None,
    progress: Iterator[None] | None = None,
) -> Comparison:
    """Compare systems pairwise, or each with a baseline, on the contexts that they share.

    Several sources are one system each when none names more than one; otherwise the `system` of each row counts.
    `config` describes one more metric, composed of others.
    """
    score = partial(
        evaluate,
        metrics=metrics,
        config=config,
        corpus=corpus,
        mapping=mapping,
        strict=strict,
        seed=seed,
        models=models,
        device=device,
        cache=cache,
        progress=progress,
    )
    result = _evaluate_all(sources, score)
    judged, notes = _label_by_source(result.judged)
    # Told apart by their sources, files of one name are no longer one system.
    problems = [line for line in result.problems if not notes or AS_ONE not in line]
    systems = list(dict.fromkeys(item.row.example.system for item in judged if item.row.example))
    if len(systems) < 2 and result.problems:
        # Another system may have been meant, none of whose rows can be used.
        only = f"comparing needs two systems; found: {', '.join(systems)}"
        raise TurnwiseError(f"{only}; the first problem: {result.problems[0]}")
    pairs = _pairs(systems, baseline)
    rows: list[CompareRow] = []
    for key, metric in result.metrics.items():
        compared = [_compare(key, metric, judged, *pair, seed=seed) for pair in pairs]
        rows += compared if baseline is not None else _holm_corrected(compared)
    rows = [replace(row, verdict=_verdict(row, result.metrics[row.metric].higher_is_better)) for row in rows]
    if baseline is None and len(pairs) > 1:
        notes.append(f"p is Holm-corrected over the {len(pairs)} pairs of each metric")
    contexts = _contexts(judged)
    count = len(set().union(*contexts.values()))
    if count < FEWEST:
        few = "1 context" if count == 1 else f"{count} contexts"
        notes.append(f"with {few} no difference can be significant; give at least {FEWEST}")
    unanswered = {pair: gap for pair in pairs if (gap := _unanswered(contexts, *pair)) is not None}
    for system, other in pairs:
        gap = unanswered.get((system, other))
        if gap is not None and gap.missing:
            notes.append(f"{system} left {gap.missing} of the {gap.of} contexts of {other} unanswered")
        ours, theirs = contexts[system], contexts[other]
        if not _in_pairs(ours, theirs):
            notes.append(f"{system} and {other} share {len(ours & theirs)} contexts: compared unpaired")
    return Comparison(rows, notes, problems, _unscored(judged, result.metrics), unanswered, count)


def _contexts(judged: list[Judged]) -> dict[str | None, set[int]]:
    """The contexts that each system was given a reply to."""
    found: dict[str | None, set[int]] = {}
    for item in judged:
        if item.row.example:
            found.setdefault(item.row.example.system, set()).add(context_key(item.row.example))
    return found


def _in_pairs(ours: Collection[int], theirs: Collection[int]) -> bool:
    """Whether two systems answered enough of the same contexts to be compared context by context."""
    shared = len(set(ours) & set(theirs))
    return shared >= 2 and shared >= SHARED * max(len(ours), len(theirs))


def _unanswered(contexts: Mapping[str | None, set[int]], system: str, baseline: str) -> Unanswered | None:
    """What a system left out of the baseline's contexts; None where each had contexts of its own."""
    ours, theirs = contexts[system], contexts[baseline]
    if len(ours & theirs) < SHARED * min(len(ours), len(theirs)):
        return None
    return Unanswered(len(theirs - ours), len(theirs))


def _unscored(judged: list[Judged], metrics: Iterable[str]) -> dict[tuple[str, str], float]:
    """The share of each system's rows without a score, by system and metric."""
    rows: dict[str, list[Judged]] = {}
    for item in judged:
        if item.row.system is not None:
            rows.setdefault(item.row.system, []).append(item)
    return {
        (system, key): sum(key not in item.scores or not item.scores[key].counts for item in items) / len(items)
        for system, items in rows.items()
        for key in metrics
    }


def _evaluate_all(sources: tuple[object, ...], score: Callable[[object], Result]) -> Result:
    """One result over all sources. Paths are read together; other sources one by one, named by their position."""
    if not sources:
        raise TurnwiseError("nothing to compare: give one source with several systems, or several sources")
    if all(isinstance(source, str | Path) for source in sources):
        sources = (list(sources),)
    results = [source if isinstance(source, Result) else score(source) for source in sources]
    if len(results) == 1:
        return results[0]
    judged = [
        Judged(replace(item.row, file=f"source {position}"), item.scores)
        for position, result in enumerate(results, start=1)
        for item in result.judged
    ]
    shared = {key: metric for key, metric in results[0].metrics.items() if all(key in r.metrics for r in results)}
    problems = [line for result in results for line in result.problems]
    return replace(results[0], metrics=shared, judged=judged, problems=problems)


def _label_by_source(judged: list[Judged]) -> tuple[list[Judged], list[str]]:
    """Two files that name the same one system are two versions of it: tell them apart by file."""
    systems = {item.row.example.system for item in judged if item.row.example}
    files = list(dict.fromkeys(item.row.file for item in judged if item.row.example))
    if len(systems) > 1 or len(files) < 2:
        return judged, []
    stems = [file_stem(file) for file in files]
    names = dict(zip(files, stems if len(set(stems)) == len(stems) else files, strict=True))
    renamed = [
        Judged(_renamed(item.row, names[item.row.file]) if item.row.file in names else item.row, item.scores)
        for item in judged
    ]
    only = systems.pop()
    return renamed, [f"every row names the same system ({only}); the sources are compared instead"]


def _renamed(row: Row, system: str) -> Row:
    example = None if row.example is None else replace(row.example, system=system)
    return replace(row, example=example, system=system)


def _pairs(systems: list[str], baseline: str | None) -> list[tuple[str, str]]:
    if baseline is not None:
        if baseline not in systems:
            raise TurnwiseError(f"baseline '{baseline}' is not in the input; its systems: {', '.join(systems)}")
        systems = [*(system for system in systems if system != baseline), baseline]
    if len(systems) < 2:
        found = ", ".join(systems) or "none"
        raise TurnwiseError(f"comparing needs two systems; found: {found}. Set the field system, or give two files")
    if baseline is not None:
        return [(system, baseline) for system in systems[:-1]]
    # The later against the earlier: `compare old.jsonl new.jsonl` asks what the new one gained.
    return [(later, earlier) for earlier, later in combinations(systems, 2)]


def _compare(key: str, metric: Metric, judged: list[Judged], system: str, baseline: str, *, seed: int) -> CompareRow:
    if metric.level == "group":
        found_of_groups = group_difference(judged, key, metric, system, baseline, shared=SHARED, seed=seed)
        return CompareRow(key, system, baseline, *found_of_groups, "")
    mine, theirs = (
        [
            item
            for item in judged
            if item.row.example and item.row.example.system == name and _has_share(item.scores[key], metric)
        ]
        for name in (system, baseline)
    )
    if not mine or not theirs:
        return CompareRow(key, system, baseline, None, None, None, None, "")
    if metric.level == "system":
        return _compare_whole(key, metric, mine, theirs, system, baseline, seed=seed)
    if metric.pooled:
        return _compare_pooled(key, metric, mine, theirs, system, baseline)
    ours, others = _by_context(mine, key), _by_context(theirs, key)
    shared = [context for context in ours if context in others]
    if _in_pairs(ours, others):
        a, b = (np.array([np.mean(side[context]) for context in shared]) for side in (ours, others))
        clusters = _clusters_of(mine, shared)
        found = significance.paired_bootstrap(a, b, clusters, seed=seed)
        p = significance.sign_flip_test(a, b, clusters, seed=seed)
    else:
        (a, clusters_a), (b, clusters_b) = _values(mine, key), _values(theirs, key)
        found = significance.unpaired_bootstrap(a, b, clusters_a, clusters_b, seed=seed)
        p = significance.label_permutation_test(a, b, clusters_a, clusters_b, seed=seed)
    if found is None:
        return CompareRow(key, system, baseline, float(a.mean() - b.mean()), None, None, None, "")
    return CompareRow(key, system, baseline, found.difference, found.low, found.high, p, "")


def _has_share(score: Score, metric: Metric) -> bool:
    """Whether a turn takes part in a comparison."""
    return score.counts if metric.level == "system" else score.value is not None


def _compare_pooled(
    key: str, metric: Metric, mine: list[Judged], theirs: list[Judged], system: str, baseline: str
) -> CompareRow:
    """Pooled values have no turn to pair: the same blocks of contexts are left out on both sides."""
    summary = Summary({key: metric})
    for item in (*mine, *theirs):
        summary.add(Judged(item.row, {key: item.scores[key]}))
    values = {value.system: value.value for value in summary.system_values(seed=0)}
    ours, others = values[system], values[baseline]
    if ours is None or others is None:
        return CompareRow(key, system, baseline, None, None, None, None, "")
    left_out = [leave_one_out(metric, summary.pooled[name, key]) for name in (system, baseline)]
    blocks = sorted(left_out[0].keys() | left_out[1].keys())
    differences = np.array([left_out[0].get(b, ours) - left_out[1].get(b, others) for b in blocks])
    found = jackknife_comparison(differences, ours - others)
    if found is None:
        return CompareRow(key, system, baseline, ours - others, None, None, None, "")
    return CompareRow(key, system, baseline, found.difference, found.low, found.high, found.p, "")


def _compare_whole(
    key: str, metric: Metric, mine: list[Judged], theirs: list[Judged], system: str, baseline: str, *, seed: int
) -> CompareRow:
    """Values of whole systems: both are computed anew on the same resamples of contexts."""
    clusters = [cluster_key(item.row.example) for item in (*mine, *theirs) if item.row.example]
    units, count = units_of(np.array(clusters, dtype=np.int64))
    draws = draws_of(count, seed=seed)
    ours, others = (
        metric.measure([item.scores[key].evidence for item in items], at, draws)
        for items, at in ((mine, units[: len(mine)]), (theirs, units[len(mine) :]))
    )
    if ours.value is None or others.value is None:
        return CompareRow(key, system, baseline, None, None, None, None, "")
    difference = ours.value - others.value
    found = resampled_comparison(np.array(ours.resampled) - np.array(others.resampled), difference, count)
    if found is None:
        return CompareRow(key, system, baseline, difference, None, None, None, "")
    return CompareRow(key, system, baseline, difference, found.low, found.high, found.p, "")


def _by_context(judged: list[Judged], key: str) -> dict[int, list[float]]:
    values: dict[int, list[float]] = {}
    for item in judged:
        value = item.scores[key].value
        if item.row.example and value is not None:
            values.setdefault(context_key(item.row.example), []).append(value)
    return values


def _clusters_of(judged: list[Judged], contexts: list[int]) -> NDArray[np.int64]:
    clusters = {context_key(item.row.example): cluster_key(item.row.example) for item in judged if item.row.example}
    return np.array([clusters[context] for context in contexts], dtype=np.int64)


def _values(judged: list[Judged], key: str) -> tuple[Floats, NDArray[np.int64]]:
    values = np.array([item.scores[key].value for item in judged], dtype=np.float64)
    clusters = [cluster_key(item.row.example) for item in judged if item.row.example]
    return values, np.array(clusters, dtype=np.int64)


def _holm_corrected(rows: list[CompareRow]) -> list[CompareRow]:
    corrected = significance.holm([row.p for row in rows])
    return [replace(row, p=p) for row, p in zip(rows, corrected, strict=True)]


def _verdict(row: CompareRow, higher_is_better: bool | None) -> str:
    if row.difference is None or row.p is None or row.p >= SIGNIFICANT:
        return "no difference"
    if higher_is_better is None:
        return "different"
    return "better" if (row.difference > 0) == higher_is_better else "worse"
