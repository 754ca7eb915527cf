"""`select`: the best response to every context by any metric, and where a second metric would choose otherwise."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

from turnwise.analyses.ballots import Ballot, make_ballots, write_ballots
from turnwise.analyses.evaluate import check_targets, evaluated
from turnwise.dialogue import Example
from turnwise.engine.score import Judged, context_key
from turnwise.errors import TurnwiseError
from turnwise.io.write import example_to_dict
from turnwise.metrics.base import Metric
from turnwise.metrics.registry import load_metric
from turnwise.options import Run, RunOptions, renamed
from turnwise.problems import Problem


@dataclass(frozen=True, slots=True)
class Pick:
    """The best of `candidates` responses to one context; `tied` says how many shared the best score.

    `more` are fields of its row that are none of ours.
    """

    example: Example
    score: float
    candidates: int
    tied: int
    more: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """What to say of a pick in a document."""
        example = self.example
        where = {"context_id": example.context_id, "id": example.id, "system": example.system}
        return {**where, "score": self.score, "candidates": self.candidates, "tied": self.tied}


@dataclass(frozen=True, slots=True)
class Picked:
    """How often a system was picked, out of the contexts that it answered."""

    system: str
    picked: int
    contexts: int


@dataclass
class Choice:
    """What one metric picks."""

    metric: str
    picks: dict[int, Pick]
    systems: list[Picked]


@dataclass
class Selection:
    """What a metric picks for every context; with a second metric, also its picks and the ballots between the two."""

    best: Choice
    against: Choice | None = None
    ballots: list[Ballot] = field(default_factory=list)
    out: Path | None = None
    files: tuple[Path, Path] | None = None
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `turnwise select --format json`."""
        ballots, key = self.files or (None, None)
        return {
            "metric": self.best.metric,
            "picks": [pick.to_dict() for pick in self.best.picks.values()],
            "systems": [asdict(picked) for picked in self.best.systems],
            "out": None if self.out is None else str(self.out),
            "against": None
            if self.against is None
            else {
                "metric": self.against.metric,
                "picks": [pick.to_dict() for pick in self.against.picks.values()],
                "systems": [asdict(picked) for picked in self.against.systems],
                "differ": len(self.ballots),
                "ballots": None if ballots is None else str(ballots),
                "key": None if key is None else str(key),
            },
        }

    def save(self, path: str | Path) -> Path:
        """Write the picked responses as native rows, one JSON object a line."""
        file = Path(path)
        rows = ({**example_to_dict(pick.example), **_finite(pick.more)} for pick in self.best.picks.values())
        lines = (json.dumps(row, ensure_ascii=False, default=str) for row in rows)
        try:
            file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        except OSError as problem:
            raise TurnwiseError(f"{file}: cannot be written ({problem.strerror}); choose another place") from None
        return file


def _finite(value: Any) -> Any:
    """A value as JSON can have it: what is no number is null."""
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def select(
    source: object,
    metric: str,
    *,
    against: str | None = None,
    save: str | Path | None = None,
    ballots: str | Path | None = None,
    key: str | Path | None = None,
    **options: Unpack[RunOptions],
) -> Selection:
    """Pick the best response to every context by a metric; of equal ones the first is taken.

    With `against` a second metric picks too, and where the two differ people can decide: `ballots` is a table for
    voters that does not say which pick is whose, `key` the file that does. Either metric may be the name of `config`.
    `save` is a file for the picked rows, as JSON Lines.
    """
    save = renamed(options, "out", "save", save)
    _check_request(metric, against, ballots, key)
    run = Run.of(**options)
    composite = run.config
    for name in (metric, *([against] if against else ())):
        _check_direction(name, composite if composite is not None and name == composite.name else load_metric(name))
    outputs = [None if file is None else Path(file) for file in (save, ballots, key)]
    check_targets(source, files=outputs)
    check_targets(options.get("config"), files=outputs)
    result = evaluated(source, [metric, *([against] if against else ())], run, intervals=False)
    candidates, notes = _candidates(result.judged)
    notes = [*result.notes, *notes]
    best = _choose(metric, result.metrics[metric], candidates, notes)
    selection = Selection(best, notes=notes, problems=result.problems)
    if against is not None:
        other = _choose(against, result.metrics[against], candidates, notes)
        pairs = [
            (pick.example, other.picks[context].example)
            for context, pick in best.picks.items()
            if context in other.picks and pick.example.response != other.picks[context].example.response
        ]
        selection = replace(selection, against=other, ballots=make_ballots(pairs, seed=run.seed))
        if ballots is not None and key is not None:
            files = write_ballots(selection.ballots, (metric, against), ballots, key)
            selection = replace(selection, files=files)
    return selection if save is None else replace(selection, out=selection.save(save))


def _check_request(metric: str, against: str | None, ballots: object, key: object) -> None:
    if against is None and (ballots or key):
        raise TurnwiseError("ballots are between two metrics; name the second with `against`")
    if against == metric:
        raise TurnwiseError(f"{metric} cannot be set against itself; name another metric")
    if bool(ballots) != bool(key):
        raise TurnwiseError("ballots need a key that says which pick is whose; give both `ballots` and `key`")


def _check_direction(name: str, metric: Metric) -> None:
    if not metric.per_turn:
        raise TurnwiseError(f"{name} has no score for a single response; select by another metric")
    if metric.higher_is_better is None:
        raise TurnwiseError(f"{name} has no better or worse; select by another metric")


def _candidates(judged: Sequence[Judged]) -> tuple[dict[int, list[Judged]], list[str]]:
    """The readable responses to each context, in order."""
    candidates: dict[int, list[Judged]] = {}
    homeless = 0
    for item in judged:
        example = item.row.example
        if example is None:
            continue
        if example.context_id is None and not example.context:
            homeless += 1
            continue
        candidates.setdefault(context_key(example), []).append(item)
    if not candidates:
        raise TurnwiseError("no row has a context or a context_id; without one there is nothing to choose between")
    notes = [f"{homeless} rows have neither a context nor a context_id and are left out"] if homeless else []
    alone = sum(len(items) == 1 for items in candidates.values())
    if alone:
        notes.append(f"{alone} of {len(candidates)} contexts have one response only; there it is the best")
    return candidates, notes


def _choose(name: str, metric: Metric, candidates: Mapping[int, list[Judged]], notes: list[str]) -> Choice:
    sign = 1.0 if metric.higher_is_better else -1.0
    picks: dict[int, Pick] = {}
    for context, items in candidates.items():
        scored = [(item, value) for item in items if (value := item.scores[name].value) is not None]
        if not scored:
            continue
        best = max(sign * value for _, value in scored)
        tied = [item for item, value in scored if sign * value == best]
        row = tied[0].row
        if row.example is not None:
            picks[context] = Pick(row.example, sign * best, len(items), len(tied), row.more or {})
    if not picks:
        raise TurnwiseError(f"{name} has no score for any response; see the notes of 'turnwise score'")
    if len(picks) < len(candidates):
        notes.append(f"{name} picks nothing for {len(candidates) - len(picks)} contexts: no response has a score")
    if ties := sum(pick.tied > 1 for pick in picks.values()):
        notes.append(f"{name} gives several responses the best score in {ties} contexts; the first of them is taken")
    return Choice(name, picks, _by_system(picks, candidates))


def _by_system(picks: Mapping[int, Pick], candidates: Mapping[int, list[Judged]]) -> list[Picked]:
    """Systems by how often they were picked; those who never were come too."""
    answered: dict[str, int] = {}
    for items in candidates.values():
        for system in dict.fromkeys(item.row.example.system for item in items if item.row.example):
            answered[system] = answered.get(system, 0) + 1
    chosen = [pick.example.system for pick in picks.values()]
    counted = [Picked(system, chosen.count(system), contexts) for system, contexts in answered.items()]
    return sorted(counted, key=lambda picked: -picked.picked)
