"""Parts of a run in folders: written where they were scored, and put together again by `merge`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from turnwise.analyses.config import composite_of, config_of
from turnwise.analyses.part import Part, Shard, check_usable
from turnwise.analyses.result import Result
from turnwise.engine.aggregate import Summary
from turnwise.engine.spool import FILES, Spool, metrics_of_turns, spooled_records
from turnwise.engine.state import STATE, Saved, save_state
from turnwise.errors import TurnwiseError
from turnwise.interrupts import checked
from turnwise.io.unique import same_input
from turnwise.metrics.base import Metric
from turnwise.metrics.composite import CompositeMetric
from turnwise.metrics.registry import load_metric
from turnwise.metrics.signature import signature
from turnwise.options import Run
from turnwise.problems import Problem

PART = "part"


def save_part(part: Part, shard: Shard, folder: Path, more: Mapping[str, Any] | None = None) -> None:
    """Keep a part of a run; its turns are in its spool already. `more` are further facts about it."""
    if part.spool is not None:
        part.spool.flush()
    known = {
        "shard": str(shard),
        "interrupted": part.interrupted,
        "input": None if part.identity is None else part.identity.facts(),
        "notes": part.notes,
    }
    about = {**known, **facts_of(part.metrics, part.models), **(more or {})}
    state = {
        "summary": part.summary.state(),
        "problems": part.problems,
        "judged": part.judged,
        "counts": (part.rows, part.bad, part.interrupted),
    }
    save_state(folder, about, state, part.metrics, sorted(folder.glob(FILES)))


def facts_of(metrics: Mapping[str, Metric], models: Mapping[str, str]) -> dict[str, Any]:
    """What all parts of one run have in common."""
    configs = {k: config_of(m) if isinstance(m, CompositeMetric) else None for k, m in metrics.items()}
    signatures = {key: signature(key, metric, models.get(key, "")) for key, metric in metrics.items()}
    return {"metrics": configs, "models": dict(models), "signatures": signatures}


def load_part(saved: Saved, *, most: int | None) -> Part:
    """A part of a run, as it was."""
    check_part(saved)
    metrics = metrics_in(saved.about)
    state = saved.load(metrics)
    part = Part(metrics, saved.about["models"], most=most, notes=saved.about.get("notes", []))
    part.summary = Summary.restored(metrics, state["summary"])
    part.problems, part.judged = state["problems"], state["judged"]
    part.rows, part.bad, part.interrupted = state["counts"]
    return part


def check_part(saved: Saved) -> None:
    """Refuse a part that was interrupted, and one whose files are not as they were written."""
    if saved.about["interrupted"]:
        raise TurnwiseError(Problem.of("part.partial", str(saved.folder)))
    saved.check(saved.folder.glob(FILES))


def metrics_in(about: Mapping[str, Any]) -> dict[str, Metric]:
    """The metrics of a part."""
    return {
        key: load_metric(key) if config is None else composite_of(config) for key, config in about["metrics"].items()
    }


class Spools(Spool):
    """The turns of several parts, read together."""

    def __init__(self, folders: Sequence[Path], of_turns: Sequence[str]) -> None:
        self.folders, self.of_turns = list(folders), list(of_turns)

    def flush(self) -> None:
        """Everything has been written."""

    def records(self) -> Iterator[dict[str, Any]]:
        return spooled_records(self.folders, self.of_turns)


def merge(folders: Sequence[str | Path], *, seed: int = 0, most: int | None = None) -> Result:
    """Merge the shards of a run into the result that one run would have given.

    Args:
        folders: The folders that `turnwise score --shard I/N --out FOLDER` wrote, one per shard.
        seed: The seed of the intervals.
        most: How many turns to keep in memory; default: all.

    Returns:
        The result of all rows.

    >>> import turnwise as tw
    >>> tw.merge([])
    Traceback (most recent call last):
    ...
    turnwise.errors.TurnwiseError: nothing to merge; give the folders that `turnwise score --shard I/N --out DIR` wrote
    """
    run = Run.of(seed=seed)
    whole = merged([part_folder(folder) for folder in folders], most=most)
    check_usable(", ".join(map(str, folders)), whole)
    return whole.result(seed=run.seed)


def merged(folders: Sequence[Path], *, most: int | None = None) -> Part:
    """All parts of a run as one."""
    parts = sorted(map(Saved, folders), key=_index)
    if not parts:
        raise TurnwiseError("nothing to merge; give the folders that `turnwise score --shard I/N --out DIR` wrote")
    check_complete(parts)
    whole = load_part(parts[0], most=most)
    whole.merge(checked(load_part(saved, most=most) for saved in parts[1:]))
    whole.spool = Spools([saved.folder for saved in parts], metrics_of_turns(whole.metrics))
    return whole


def part_folder(folder: str | Path) -> Path:
    """Where in an output folder the part is."""
    inside = Path(folder) / PART
    return inside if (inside / STATE).exists() else Path(folder)


def check_complete(parts: Sequence[Saved]) -> None:
    """Refuse parts of different runs, and a run that has gaps or doubles."""
    first = parts[0]
    count = Shard.parse(first.about["shard"]).count
    for saved in parts[1:]:
        if saved.about["signatures"] != first.about["signatures"]:
            raise TurnwiseError(f"{saved.folder}: other metrics or models than in {first.folder}; score them alike")
        if Shard.parse(saved.about["shard"]).count != count:
            raise TurnwiseError(
                f"{saved.folder}: shard {saved.about['shard']} and {first.folder}: shard {first.about['shard']} "
                "are of different runs; score all shards with the same N"
            )
    _check_input(parts)
    found = [_index(saved) for saved in parts]
    if twice := sorted({index for index in found if found.count(index) > 1}):
        raise TurnwiseError(f"shard {twice[0]}/{count} is given twice; give each folder once")
    if missing := sorted(set(range(1, count + 1)) - set(found)):
        names = ", ".join(f"{index}/{count}" for index in missing[:5])
        raise TurnwiseError(f"shard {names} is missing; score it, or give its folder too")


def _check_input(parts: Sequence[Saved]) -> None:
    known = [saved for saved in parts if saved.about.get("input")]
    # What was read to its end, where there is such a part, can be compared with all others.
    known.sort(key=lambda saved: saved.about["input"]["digest"] is None)
    for saved in known[1:]:
        if not same_input(known[0].about["input"], saved.about["input"]):
            found = f"scored from another input than {known[0].folder}"
            raise TurnwiseError(f"{saved.folder}: {found}; score all shards from the same files")


def _index(saved: Saved) -> int:
    return Shard.parse(saved.about["shard"]).index
