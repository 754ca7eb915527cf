"""`compare`: which system is better, on which metric, by how much, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Unpack

from turnwise.analyses.evaluate import Result, evaluated
from turnwise.analyses.pairs import Answered, Match, match
from turnwise.analyses.result import Rows
from turnwise.dialogue import Example, Row
from turnwise.engine.aggregate import Difference, TurnFacts, aggregate_for
from turnwise.engine.score import Judged, cluster_key
from turnwise.errors import TurnwiseError
from turnwise.io.read import file_stem
from turnwise.metrics.base import Metric
from turnwise.metrics.composite import CompositeMetric
from turnwise.metrics.registry import Asked, as_asked, load_metric
from turnwise.options import Run, RunOptions
from turnwise.stats import significance
from turnwise.wording import counted

SIGNIFICANT = 0.05
# With fewer contexts or dialogues than this even one-sided differences cannot reach p < .05 by flipping signs.
FEWEST = 6
# Nothing is said about a system when more than this share of its rows has no score, or of its contexts no answer.
UNSCORED = 0.1


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


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition for a release: no system may be worse than the baseline by more than a margin.

    `composed` is the metric itself, where it is not known by its name but read from a configuration.
    """

    metric: str
    margin: float
    composed: CompositeMetric | None = None

    @classmethod
    def parse(cls, text: str, composite: CompositeMetric | None = None) -> Gate:
        """Return the gate of a text such as `f1@0.02`; its metric may be the composite by name."""
        metric, at, margin = text.rpartition("@")
        composed = composite if composite is not None and composite.name == metric else None
        try:
            if not at or not 0 <= float(margin) < math.inf:
                raise ValueError
        except ValueError:
            found = f"'{text}' is not METRIC@MARGIN with a margin of 0 or more"
            raise TurnwiseError(f"`fail_if_worse`: {found}; write for example f1@0.02") from None
        gate = cls(metric, float(margin), composed)
        gate.check_direction()
        return gate

    def check_direction(self) -> bool:
        """Whether higher is better; a metric without a better end cannot be a gate."""
        higher_is_better = (self.composed or load_metric(self.metric)).higher_is_better
        if higher_is_better is None:
            raise TurnwiseError(f"`fail_if_worse`: {self.metric} has no better or worse; gate on another metric")
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
        matched = comparison.matches[row.system, row.baseline]
        gap = matched.unanswered
        if found is None and gap is not None and gap.missing > UNSCORED * gap.of:
            found = f"{row.system} left {gap.missing} of the {gap.of} answers of {row.baseline} unanswered"
        elif found is None and (row.low is None or matched.independent < FEWEST):
            found = f"{counted(matched.independent, matched.drawn)} in all, give at least {FEWEST}"
        if found is not None:
            raise TurnwiseError(f"the gate on {self.metric} cannot be checked: {found}; mend the input")


@dataclass(repr=False)
class Comparison(Rows[CompareRow]):
    """The differences, the signatures of the metrics, and what a gate asks of them.

    `unscored` is the share of each system's rows without a score, by system and metric; `matches` says, by system and
    baseline, what of the two was held against each other.
    """

    unscored: dict[tuple[str, str], float] = field(default_factory=dict)
    matches: dict[tuple[str, str], Match] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    gates: list[Gate] = field(default_factory=list)

    def failures(self) -> list[str]:
        """One line for each gate and system that fails it. What could not be measured must not pass: it raises."""
        return [line for gate in self.gates for line in gate.failures(self)]

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `turnwise compare --format json`: each row also says what it stands on."""
        rows = [{**asdict(row), **self._basis(row)} for row in self.rows]
        return {"rows": rows, "signatures": self.signatures}

    def _basis(self, row: CompareRow) -> dict[str, Any]:
        matched = self.matches.get((row.system, row.baseline))
        return {} if matched is None else {"n": matched.count, "basis": matched.basis}


def compare(
    *sources: object,
    metrics: Asked = "default",
    baseline: str | None = None,
    fail_if_worse: Sequence[str | Gate] = (),
    **options: Unpack[RunOptions],
) -> Comparison:
    """Compare systems pairwise, or each with a baseline, on the contexts that they share.

    Several sources are one system each when none names more than one; otherwise the `system` of each row counts.
    `fail_if_worse` holds conditions such as `f1@0.02`, which `Comparison.failures` checks.
    """
    run = Run.of(**options)
    gates = [gate if isinstance(gate, Gate) else Gate.parse(gate, run.config) for gate in fail_if_worse]
    if gates and baseline is None:
        raise TurnwiseError("`fail_if_worse` needs a baseline to be worse than; add `baseline=SYSTEM`")
    result = _evaluate_all(sources, _with_gates(metrics, gates), run)
    judged, apart = _label_by_source(result.judged)
    notes = [*result.notes, *apart]
    # Told apart by their sources, files of one name are no longer one system.
    joined = {"system.joined", "dialogue.joined"} if apart else set()
    problems = [problem for problem in result.problems if problem.code not in joined]
    systems = list(dict.fromkeys(item.row.example.system for item in judged if item.row.example))
    if len(systems) < 2 and result.problems:
        # Another system may have been meant, none of whose rows can be used.
        only = f"comparing needs two systems; found: {', '.join(systems)}"
        raise TurnwiseError(f"{only}; the first problem: {result.problems[0]}")
    pairs = _pairs(systems, baseline)
    matches = _matches(judged, pairs)
    rows: list[CompareRow] = []
    for key, metric in result.metrics.items():
        compared = [
            CompareRow(key, *pair, *_difference(judged, key, metric, pair, matched, run.seed), "")
            for pair, matched in matches.items()
        ]
        rows += compared if baseline is not None else _holm_corrected(compared)
    rows = [replace(row, verdict=_verdict(row, result.metrics[row.metric].higher_is_better)) for row in rows]
    if baseline is None and len(pairs) > 1:
        notes.append(f"p is Holm-corrected over the {len(pairs)} pairs of each metric")
    for pair, matched in matches.items():
        notes += _remarks(*pair, matched)
    unscored = _unscored(judged, result.metrics)
    return Comparison(rows, list(dict.fromkeys(notes)), problems, unscored, matches, result.signatures, gates)


def _with_gates(metrics: Asked, gates: Sequence[Gate]) -> Asked:
    """The metrics to compute, with those of the gates, which replace the default."""
    if not gates:
        return metrics
    wanted = [] if metrics == "default" else as_asked(metrics)
    return [*wanted, *dict.fromkeys(gate.metric for gate in gates if gate.metric not in wanted)]


def _difference(
    judged: list[Judged], key: str, metric: Metric, pair: tuple[str, str], matched: Match, seed: int
) -> Difference:
    """Return system minus baseline on one metric."""
    sides = {system: aggregate_for(metric, comparing=True) for system in pair}
    for number, item in enumerate(judged):
        example = item.row.example
        if example and example.system in sides:
            sides[example.system].add(TurnFacts(example, cluster_key(example), number), item.scores[key])
    system, baseline = pair
    return sides[system].difference(sides[baseline], matched, seed)


def _matches(judged: list[Judged], pairs: list[tuple[str, str]]) -> dict[tuple[str, str], Match]:
    examples: dict[str, list[Example]] = {}
    for item in judged:
        if item.row.example:
            examples.setdefault(item.row.example.system, []).append(item.row.example)
    answered = {system: Answered.of(rows) for system, rows in examples.items()}
    return {pair: match(answered[pair[0]], answered[pair[1]]) for pair in pairs}


def _remarks(system: str, other: str, matched: Match) -> Iterator[str]:
    """What must be known of a comparison to read it right."""
    gap = matched.unanswered
    if gap is not None and gap.missing:
        asked = "contexts" if matched.unit != "dialogue" else "turns"
        yield f"{system} left {gap.missing} of the {gap.of} {asked} of {other} unanswered"
    if matched.unit == "context" and matched.differing > matched.shared / 2:
        differ = (
            f"{matched.differing} of the {matched.shared} contexts that {system} and {other} share by their context_id"
        )
        yield f"{differ} have other texts: are they the same? If not, give them other ids"
    if matched.unit is None:
        yield f"{system} and {other} share {counted(matched.shared, 'context')}: compared unpaired"
    elif matched.unit == "dialogue":
        yield f"{system} and {other} were led through the same dialogues: compared dialogue by dialogue"
    if matched.independent < FEWEST:
        few = counted(matched.independent, matched.drawn)
        yield f"with {few} no difference can be significant; give at least {FEWEST}"


def _unscored(judged: list[Judged], metrics: Iterable[str]) -> dict[tuple[str, str], float]:
    """The share of each system's rows without a score, by system and metric."""
    rows: dict[str, list[Judged]] = {}
    in_file: dict[str, dict[str, None]] = {}
    for item in judged:
        if item.row.example:
            rows.setdefault(item.row.example.system, []).append(item)
            in_file.setdefault(item.row.file, {})[item.row.example.system] = None
    for item in judged:
        if item.row.example is None:
            # Who said what cannot be read is not known; it may have been any system of the file.
            named = [item.row.system] if item.row.system in rows else in_file.get(item.row.file, ())
            for system in named:
                rows[system].append(item)
    return {
        (system, key): sum(key not in item.scores or not item.scores[key].counts for item in items) / len(items)
        for system, items in rows.items()
        for key in metrics
    }


def _evaluate_all(sources: tuple[object, ...], metrics: Asked, run: Run) -> Result:
    """One result over all sources. Paths are read together; other sources one by one, named by their position."""
    if not sources:
        raise TurnwiseError("nothing to compare: give one source with several systems, or several sources")
    if all(isinstance(source, str | Path) for source in sources):
        sources = (list(sources),)
    results = [source if isinstance(source, Result) else evaluated(source, metrics, run) for source in sources]
    if len(results) == 1:
        return results[0]
    judged = [
        Judged(replace(item.row, file=f"source {position}"), item.scores)
        for position, result in enumerate(results, start=1)
        for item in result.judged
    ]
    shared = {key: metric for key, metric in results[0].metrics.items() if all(key in r.metrics for r in results)}
    problems = [line for result in results for line in result.problems]
    notes = list(dict.fromkeys(line for result in results for line in result.notes))
    return replace(results[0], metrics=shared, judged=judged, problems=problems, notes=notes)


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


def _holm_corrected(rows: list[CompareRow]) -> list[CompareRow]:
    corrected = significance.holm([row.p for row in rows])
    return [replace(row, p=p) for row, p in zip(rows, corrected, strict=True)]


def _verdict(row: CompareRow, higher_is_better: bool | None) -> str:
    if row.difference is None or row.p is None or row.p >= SIGNIFICANT:
        return "no difference"
    if higher_is_better is None:
        return "different"
    return "better" if (row.difference > 0) == higher_is_better else "worse"
