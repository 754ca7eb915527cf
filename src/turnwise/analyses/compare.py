"""`compare`: which system is better, on which metric, by how much, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np

from turnwise.analyses.evaluate import Result, evaluated
from turnwise.analyses.gate import FEWEST, Gate, Kind, gates_of
from turnwise.analyses.pairs import GIVEN, Match, match
from turnwise.analyses.people import People, people_of
from turnwise.analyses.result import Rows
from turnwise.analyses.verdict import NOTHING, Verdict, verdict_of
from turnwise.dialogue import Example, Row
from turnwise.engine.aggregate import Aggregate, Difference, Pairs, TurnFacts, TurnMean, aggregate_for
from turnwise.engine.score import Judged, cluster_key
from turnwise.errors import TurnwiseError
from turnwise.io.read import file_stem
from turnwise.io.source import resolve
from turnwise.metrics.base import Metric, Score
from turnwise.metrics.registry import Asked, as_asked
from turnwise.options import Run, RunOptions
from turnwise.problems import Problem, counted
from turnwise.stats.decisions import Decision, decide
from turnwise.stats.decisions import Verdict as Word
from turnwise.stats.tails import Rate, Tail, rate, tail

Missing = Literal["worst", "skip"]


@dataclass(frozen=True, slots=True)
class CompareRow:
    """One system against another on one metric: system minus baseline.

    `low`, `high` and `p` are simultaneous over the pairs of a metric. `n` and `basis` say what the row stands on,
    `detectable` which difference it could well have found, and `needed` about how many contexts would settle it. `tail`
    counts contexts, and `dropped` names the replies that are clearly worse.
    """

    metric: str
    system: str
    baseline: str
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    verdict: Word
    n: int = 0
    basis: str = ""
    margin: float | None = None
    detectable: float | None = None
    needed: int | None = None
    tail: Tail | None = None
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """How often a system gave no reply, out of all that it was asked, and the rows."""

    rate: Rate
    ids: tuple[str, ...]


@dataclass(repr=False)
class Comparison(Rows[CompareRow]):
    """The differences, the signatures of the metrics, and what a gate asks of them.

    `unscored` is the share of each system's rows without a score, by system and metric, and `failed` its failures;
    `matches` says, by system and baseline, how the two were paired.
    """

    unscored: dict[tuple[str, str], float] = field(default_factory=dict)
    matches: dict[tuple[str, str], Match] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    gates: list[Gate] = field(default_factory=list)
    failed: dict[str, Failed] = field(default_factory=dict)
    missing: Missing = "worst"
    verdict: Verdict = NOTHING
    people: People | None = None

    def failures(self) -> list[str]:
        """Return a line for each gate and system that fails it. What could not be measured must not pass: it raises."""
        return [line for gate in self.gates for line in gate.failures(self)]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document of `turnwise compare --format json`: each row also says what it stands on."""
        failures = [
            {"system": system, **asdict(failed.rate), "ids": list(failed.ids)} for system, failed in self.failed.items()
        ]
        return {
            "rows": [_record(row) for row in self.rows],
            "failures": failures,
            "signatures": self.signatures,
            **({"people": self.people.to_dict()} if self.people else {}),
            "verdict": self.verdict.to_dict(),
        }


def _record(row: CompareRow) -> dict[str, Any]:
    """Return a row of the document, with its counts of contexts beside the other numbers."""
    record = asdict(row)
    counts, dropped = record.pop("tail"), record.pop("dropped")
    if counts is not None:
        record |= {"wins": counts["wins"], "ties": counts["ties"], "losses": counts["losses"]}
        record |= {"clearly_worse": counts["clearly_worse"], "p_worse": counts["p"], "dropped": list(dropped)}
    return record


def compare(
    *sources: object,
    metrics: Asked = "default",
    baseline: str | None = None,
    fail_if_worse: Sequence[str] = (),
    fail_unless_as_good: Sequence[str] = (),
    fail_if_worst: Sequence[str] = (),
    fail_if_failures: float | None = None,
    missing: Missing = "worst",
    **options: Unpack[RunOptions],
) -> Comparison:
    """Compare systems pairwise, or each with a baseline, on the contexts that they share.

    Args:
        sources: The rows. Several sources are one system each if none names more than one; otherwise the `system` of
            each row counts.
        metrics: The metrics to compare on.
        baseline: The system that all others are compared with; default: every pair.
        fail_if_worse: Conditions such as `f1@0.02`, which `Comparison.failures` checks: not worse by this margin.
        fail_unless_as_good: Conditions that a system meets only if it is shown not to be worse by this margin.
        fail_if_worst: Conditions such as `f1@0.05`: at most this share of replies clearly worse.
        fail_if_failures: The share of blank or missing replies that no system but the baseline may exceed.
        missing: `worst` counts a blank or missing reply as the worst one; `skip` leaves it out.
        options: The options of a run, by name: see `turnwise.options.RunOptions`.

    Returns:
        One row per metric and pair, with the verdict, and what the conditions say.

    >>> import turnwise as tw
    >>> context = [f"Question {number}?" for number in range(20)]
    >>> long = [{"system": "long", "context": [c], "response": "a " * (5 + i % 3)} for i, c in enumerate(context)]
    >>> short = [{"system": "short", "context": [c], "response": "a " * (2 + i % 2)} for i, c in enumerate(context)]
    >>> tw.compare(long, short, metrics="length").frame.select("system", "baseline", "difference").rows()
    [('short', 'long', -3.45)]
    """
    run = Run.of(**options)
    given: dict[Kind, Sequence[str]] = {
        "fail_if_worse": fail_if_worse,
        "fail_unless_as_good": fail_unless_as_good,
        "fail_if_worst": fail_if_worst,
    }
    gates = gates_of(given, fail_if_failures, run.config)
    if gates and baseline is None:
        raise TurnwiseError(f"`{gates[0].kind}` needs a baseline to be worse than; add `baseline=SYSTEM`")
    result = _evaluate_all(sources, _with_gates(metrics, gates), run)
    judged, apart = _label_by_source(result.judged)
    notes = [*result.notes, *apart]
    # Told apart by their sources, files of one name are no longer one system.
    joined = {"system.joined", "dialogue.joined"} if apart else set()
    problems = [problem for problem in result.problems if problem.code not in joined]
    asked = _asked(judged)
    _check_heard(sources, judged, asked, problems)
    pairs = _pairs(list(asked), baseline)
    matches = {pair: match(asked[pair[0]], asked[pair[1]]) for pair in pairs}
    compared = _Compared(judged, result.metrics, asked, matches, run.seed, worst=missing == "worst")
    rows = compared.rows({gate.metric: gate.margin for gate in gates if gate.margin})
    if len(pairs) > 1:
        notes.append(f"intervals and p hold for all {len(pairs)} pairs of a metric at once")
    for pair, matched in matches.items():
        notes += _remarks(*pair, matched)
    failed = {system: found for system in asked if (found := compared.failed(system)) is not None}
    for system, found in failed.items():
        counts = "is left out" if missing == "skip" else "counts as the worst reply"
        notes.append(f"{system} gave no reply to {found.rate.count} of {found.rate.n}: each {counts}")
    unscored = _unscored(judged, result.metrics, skipped=missing == "skip")
    notes = list(dict.fromkeys(notes))
    comparison = Comparison(rows, notes, problems, unscored, matches, result.signatures, gates, failed, missing)
    comparison.people = people_of(judged, result.metrics)
    comparison.verdict = verdict_of(judged, result.metrics, comparison, list(asked), result.left_out)
    return comparison


def _with_gates(metrics: Asked, gates: Sequence[Gate]) -> Asked:
    """The metrics to compute, with those of the gates, which replace the default."""
    if not any(gate.metric for gate in gates):
        return metrics
    wanted = [] if metrics == "default" else as_asked(metrics)
    return [*wanted, *dict.fromkeys(gate.metric for gate in gates if gate.metric and gate.metric not in wanted)]


def _asked(judged: Iterable[Judged]) -> dict[str, list[Example]]:
    """Return by system what it was asked, replied or not.

    A blank row without a system bears the name of its file. Beside replies of named systems it belongs to none of them.
    """
    judged = list(judged)
    replied = {(item.row.file, item.row.example.system) for item in judged if item.row.example}
    files = {file for file, _ in replied}
    asked: dict[str, list[Example]] = {}
    for row in (item.row for item in judged):
        example = row.example or row.unanswered
        if example is None:
            continue
        nameless = row.file in files and example.system == file_stem(row.file)
        if not nameless or (row.file, example.system) in replied:
            asked.setdefault(example.system, []).append(example)
    return asked


def _check_heard(
    sources: Sequence[object], judged: Iterable[Judged], asked: Mapping[str, object], problems: Sequence[Problem]
) -> None:
    """Refuse an input in which a named system, or a file, has no row that can be used."""
    named: dict[str, None] = {}
    paths = [source for source in sources if isinstance(source, str | Path)]
    files: dict[str, set[str]] = {source.file: {""} for source in resolve(paths)} if len(paths) > 1 else {}
    for item in judged:
        files.setdefault(item.row.file, set()).add("" if item.row.example is None else item.row.example.system)
        if item.row.system is not None and item.row.system not in asked:
            named[item.row.system] = None
    silent = [file for file, systems in files.items() if systems == {""} and not _unanswered_in(judged, file)]
    # A row that cannot be read at all bears a name of its file's, which need not be a system's.
    unheard = [name for name in named if name not in {"system", *map(file_stem, files)}]
    for what in (*silent, *unheard):
        first = f"; the first problem: {problems[0]}" if problems else ""
        raise TurnwiseError(f"{what}: no row can be used, so it cannot be compared{first}")


def _unanswered_in(judged: Iterable[Judged], file: str) -> bool:
    return any(item.row.file == file and item.row.unanswered is not None for item in judged)


class _Compared:
    """The rows of a comparison, metric by metric."""

    def __init__(
        self,
        judged: list[Judged],
        metrics: Mapping[str, Metric],
        asked: Mapping[str, list[Example]],
        matches: Mapping[tuple[str, str], Match],
        seed: int,
        *,
        worst: bool,
    ) -> None:
        self.metrics, self.matches, self.seed, self.worst = metrics, matches, seed, worst
        self.asked = asked
        self.items: dict[str, list[tuple[Example, Judged, int]]] = {system: [] for system in asked}
        for number, item in enumerate(judged):
            example = item.row.example or item.row.unanswered
            if example is not None and example.system in self.items:
                self.items[example.system].append((example, item, number))
        self.left = {system: self._left_out(system) for system in asked}
        self._sides: dict[str, dict[str, Aggregate]] = {}

    def _left_out(self, system: str) -> list[Example]:
        """Return what a system was given and has no row for: of the contexts of another that has nearly all of its."""
        left: dict[Hashable, Example] = {}
        for pair, matched in self.matches.items():
            if system in pair and matched.unit == "context":
                key = matched.keys[0]
                other = self.asked[pair[1 - pair.index(system)]]
                mine, its = ({key(example) for example in side} for side in (self.asked[system], other))
                if len(mine & its) >= GIVEN * len(mine):
                    left |= {key(example): example for example in other if key(example) not in mine}
        return list(left.values())

    def failed(self, system: str) -> Failed | None:
        """Return how often a system gave no reply; None if it always did."""
        silent = [(example, item.row.example is None) for example, item, _ in self.items[system]]
        silent += [(example, True) for example in self.left[system]]
        found = rate([fails for _, fails in silent], np.array([cluster_key(example) for example, _ in silent]))
        if found is None or not found.count:
            return None
        return Failed(found, tuple(example.id for example, fails in silent if fails))

    def rows(self, margins: Mapping[str, float]) -> list[CompareRow]:
        """Return a row for every metric and pair. The metrics of a gate are one family."""
        found = {
            (key, pair): self.difference(key, pair, matched)
            for key in self.metrics
            for pair, matched in self.matches.items()
        }
        decisions: dict[tuple[str, tuple[str, str]], Decision | None] = {}
        for family in (list(margins), *([key] for key in self.metrics if key not in margins)):
            of_family = [(key, pair) for key in family for pair in self.matches]
            decided = decide(
                [found[one].evidence for one in of_family],
                [self.metrics[key].higher_is_better for key, _ in of_family],
                [margins.get(key) for key, _ in of_family],
                seed=self.seed,
            )
            decisions |= dict(zip(of_family, decided, strict=True))
        return [self._row(key, pair, of, decisions[key, pair], margins.get(key)) for (key, pair), of in found.items()]

    def _row(
        self, key: str, pair: tuple[str, str], found: Difference, decision: Decision | None, margin: float | None
    ) -> CompareRow:
        row = CompareRow(key, *pair, found.value, None, None, None, "not enough data", found.n, found.basis, margin)
        if decision is not None:
            row = replace(
                row,
                difference=decision.value,
                low=decision.low,
                high=decision.high,
                p=decision.p,
                verdict=decision.verdict,
                detectable=decision.detectable,
                needed=decision.needed,
            )
        return replace(row, **self._tail(key, pair, found.pairs))

    def _tail(self, key: str, pair: tuple[str, str], pairs: Pairs | None) -> dict[str, Any]:
        """Return wins, losses and clear drops over contexts, if replies are paired and the metric has a direction."""
        metric = self.metrics[key]
        drop = clear_drop(metric)
        if pairs is None or metric.higher_is_better is None or drop is None:
            return {}
        found = tail(pairs.ours, pairs.theirs, drop, pairs.clusters, metric.higher_is_better)
        gains = (pairs.ours - pairs.theirs) * (1 if metric.higher_is_better else -1)
        places = [place for place in np.argsort(gains, kind="stable").tolist() if -gains[place] > drop]
        keys = self.matches[pair].keys[0]
        ids = {keys(example): example.id for example, _, _ in reversed(self.items[pair[0]])}
        return {"tail": found, "dropped": tuple(ids.get(pairs.answered[place], "") for place in places)}

    def difference(self, key: str, pair: tuple[str, str], matched: Match) -> Difference:
        """Return system minus baseline on one metric."""
        if key not in self._sides:
            # One metric at a time, or all scores of a run would be held many times.
            self._sides = {key: {system: self._side(key, system) for system in self.asked}}
        ours, theirs = (self._sides[key][system] for system in pair)
        return ours.difference(theirs, matched, self.seed)

    def _side(self, key: str, system: str) -> Aggregate:
        metric = self.metrics[key]
        side = aggregate_for(metric, comparing=True)
        failure = self._failure(key, metric) if isinstance(side, TurnMean) else None
        for example, item, number in self.items[system]:
            score = item.scores[key] if item.row.example is not None else failure
            if score is not None:
                side.add(TurnFacts(example, cluster_key(example), number), score)
        if failure is not None:
            for example in self.left[system]:
                side.add(TurnFacts(replace(example, response=""), cluster_key(example)), failure)
        return side

    def _failure(self, key: str, metric: Metric) -> Score | None:
        """Return the score of a reply that was not given: the bad end of the scale, or the worst of the run."""
        if not self.worst or metric.higher_is_better is None:
            return None
        end = metric.range[0 if metric.higher_is_better else 1]
        if math.isinf(end):
            scores = (item.scores[key].value for rows in self.items.values() for _, item, _ in rows if item.scores)
            known = [score for score in scores if score is not None]
            if not known:
                return None
            end = min(known) if metric.higher_is_better else max(known)
        return Score(end)


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
        yield f"{few} of {system} and {other} settle nothing; give at least {FEWEST}"


def paired_values(result: Result, key: str) -> Iterator[Pairs]:
    """Yield the values of one metric of every two systems that are paired, side by side."""
    asked = _asked(result.judged)
    matches = {pair: match(asked[pair[0]], asked[pair[1]]) for pair in combinations(asked, 2)}
    compared = _Compared(result.judged, result.metrics, asked, matches, result.seed, worst=False)
    for pair, matched in matches.items():
        pairs = compared.difference(key, pair, matched).pairs
        if pairs is not None:
            yield pairs


def clear_drop(metric: Metric) -> float | None:
    """Return from which drop on a reply is clearly worse: half of the scale."""
    low, high = metric.range
    return (high - low) / 2 if math.isfinite(low) and math.isfinite(high) else None


def _unscored(judged: list[Judged], metrics: Iterable[str], *, skipped: bool) -> dict[tuple[str, str], float]:
    """Return the share of each system's rows without a score, by metric, with its failures if they are skipped."""
    rows: dict[str, list[Judged]] = {}
    in_file: dict[str, dict[str, None]] = {}
    for item in judged:
        if item.row.example:
            rows.setdefault(item.row.example.system, []).append(item)
            in_file.setdefault(item.row.file, {})[item.row.example.system] = None
    for item in judged:
        if item.row.example is None and (skipped or item.row.unanswered is None):
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
    asked = [(item.row.file, item.row.example or item.row.unanswered) for item in judged]
    systems = {example.system for _, example in asked if example is not None}
    files = list(dict.fromkeys(file for file, example in asked if example is not None))
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
    example, unanswered = (one and replace(one, system=system) for one in (row.example, row.unanswered))
    return replace(row, example=example, unanswered=unanswered, system=system)


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
