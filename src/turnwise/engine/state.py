"""What a run has added up, as JSON and plain arrays: written by one process and read by another, without pickle.

Only the kinds of objects that are named here can be read back, so a file cannot make a program do anything.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from turnwise.errors import TurnwiseError, in_brief
from turnwise.files import atomic, fault_of, sealed, sha256_of, unsealed, write_text
from turnwise.metrics.base import Metric
from turnwise.problems import Problem

STATE, ARRAYS = "state.json", "arrays.npz"
# Raised when what is added up changes its shape.
FORMAT = 3

K = TypeVar("K")


_allowed: dict[str, type] = {}


def allow(kind: type[K]) -> type[K]:
    """Class decorator: let objects of another kind be written and read too, such as a plugin's statistics."""
    _allowed[kind.__name__] = kind
    _kinds.cache_clear()
    _names.cache_clear()
    return kind


@cache
def _kinds() -> dict[str, type[Any]]:
    """What may be written, by name: statistics of metrics, and what the engine adds up."""
    from turnwise.dialogue import Example, Row
    from turnwise.engine.aggregate import GroupMean, GroupTotal, PooledStatistics, TurnMean, WholeSystem
    from turnwise.engine.score import Judged
    from turnwise.engine.totals import ClusterTotals, MeansByName
    from turnwise.metrics.base import PartScore, Score
    from turnwise.metrics.distributions import RealAndSaid
    from turnwise.metrics.holistic import Replies
    from turnwise.problems import Problem
    from turnwise.stats.arrays import ExactSums
    from turnwise.stats.frechet import Moments
    from turnwise.text.counts import Hashed, Sum
    from turnwise.text.ngrams import BleuCounts

    # Files hold these names, so a class may be renamed and its name here may not.
    return {
        "Example": Example,
        "Row": Row,
        "Judged": Judged,
        "Score": Score,
        "PartScore": PartScore,
        "Problem": Problem,
        "TurnMean": TurnMean,
        "PooledStatistics": PooledStatistics,
        "GroupMean": GroupMean,
        "WholeSystem": WholeSystem,
        "GroupTotal": GroupTotal,
        "ClusterTotals": ClusterTotals,
        "MeansByName": MeansByName,
        "ExactSums": ExactSums,
        "Pair": RealAndSaid,
        "Replies": Replies,
        "Moments": Moments,
        "BleuCounts": BleuCounts,
        "Hashed": Hashed,
        "Sum": Sum,
        **_allowed,
    }


@cache
def _names() -> dict[type[Any], str]:
    return {kind: name for name, kind in _kinds().items()}


class StateWriter:
    """Objects to JSON, with their arrays apart."""

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        self.arrays: dict[str, Any] = {}
        self._names = {id(metric): key for key, metric in metrics.items()}

    def write(self, value: Any) -> Any:
        """The JSON form of a value."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray):
            return {"array": self._array(value)}
        if isinstance(value, array):
            return {"numbers": self._array(np.array(value)), "type": value.typecode}
        if isinstance(value, Counter):
            return {"counter": [list(value), list(value.values())]}
        if isinstance(value, Mapping):
            return {"keys": self.write_all(list(value)), "values": self.write_all(list(value.values()))}
        if isinstance(value, tuple | list):
            return {type(value).__name__: self.write_all(value)}
        if isinstance(value, Metric):
            return {"metric": self._names[id(value)]}
        name = _names().get(type(value))
        if name is None:
            found = type(value).__name__
            raise TurnwiseError(f"statistics of the kind {found} cannot be kept in a file; score without `shard`")
        return {"is": name, "of": {key: self.write(item) for key, item in _fields(value).items()}}

    def write_all(self, values: Sequence[Any]) -> Any:
        """Many values; vectors of one length become one array, however many they are."""
        if len(values) > 1 and all(isinstance(value, np.ndarray) for value in values):
            shapes = {(value.shape, value.dtype) for value in values}
            if len(shapes) == 1:
                return {"rows": self._array(np.stack(values))}
        kind = type(values[0]) if len({type(value) for value in values}) == 1 and len(values) > 1 else None
        if kind in _columnar():
            names = [field.name for field in dataclasses.fields(values[0])]
            columns = {name: self.write_all([getattr(value, name) for value in values]) for name in names}
            return {"each": _names()[type(values[0])], "columns": columns}
        if kind is dict and values[0] and all(value.keys() == values[0].keys() for value in values):
            names = list(values[0])
            return {
                "names": self.write_all(names),
                "dicts": [self.write_all([v[name] for v in values]) for name in names],
            }
        if kind is tuple:
            inner = [item for value in values for item in value]
            return {"tuples": [len(value) for value in values], "items": self.write_all(inner)}
        return [self.write(value) for value in values]

    def _array(self, values: Any) -> str:
        name = f"a{len(self.arrays)}"
        self.arrays[name] = values
        return name


class StateReader:
    """The way back."""

    def __init__(self, arrays: Mapping[str, Any], metrics: Mapping[str, Metric]) -> None:
        self._arrays, self._metrics = arrays, metrics

    def read(self, value: Any) -> Any:
        """The value that `StateWriter.write` was given."""
        if not isinstance(value, dict):
            return value
        if "array" in value:
            return self._arrays[value["array"]]
        if "numbers" in value:
            return array(value["type"], self._arrays[value["numbers"]].tolist())
        if "counter" in value:
            return Counter(dict(zip(*value["counter"], strict=True)))
        if "keys" in value:
            return dict(zip(self.read_all(value["keys"]), self.read_all(value["values"]), strict=True))
        if "tuple" in value:
            return tuple(self.read_all(value["tuple"]))
        if "list" in value:
            return self.read_all(value["list"])
        if "metric" in value:
            return self._metrics[value["metric"]]
        kind = _kinds()[value["is"]]
        fields = {key: self.read(item) for key, item in value["of"].items()}
        if dataclasses.is_dataclass(kind):
            return kind(**fields)
        found = kind()
        vars(found).update(fields)
        return found

    def read_all(self, values: Any) -> list[Any]:
        """The values that `StateWriter.write_all` was given."""
        if isinstance(values, list):
            return [self.read(value) for value in values]
        if "rows" in values:
            return list(self._arrays[values["rows"]])
        if "tuples" in values:
            items = iter(self.read_all(values["items"]))
            return [tuple(next(items) for _ in range(size)) for size in values["tuples"]]
        if "dicts" in values:
            names, cells = self.read_all(values["names"]), (self.read_all(column) for column in values["dicts"])
            return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]
        columns = {name: self.read_all(column) for name, column in values["columns"].items()}
        kind = _kinds()[values["each"]]
        return [kind(*cells) for cells in zip(*columns.values(), strict=True)]


def save_state(
    folder: Path, about: Mapping[str, Any], state: Any, metrics: Mapping[str, Metric], beside: Iterable[Path] = ()
) -> None:
    """Write a state into a folder, and plain facts about it.

    The JSON file comes last. It holds the hashes of all other files, also of those `beside` it, and one of itself.
    """
    writer = StateWriter(metrics)
    content = {"format": FORMAT, "about": about, "state": writer.write(state)}
    folder.mkdir(parents=True, exist_ok=True)
    with atomic(folder / ARRAYS) as partial, partial.open("wb") as file:
        np.savez(file, **writer.arrays)
    hashes = {path.name: sha256_of(path) for path in (folder / ARRAYS, *beside)}
    write_text(folder / STATE, sealed({**content, "files": hashes}))


class Saved:
    """A state in a folder: the facts at once, and the rest when it is known what its metrics are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            text = (folder / STATE).read_bytes()
        except OSError as problem:
            raise TurnwiseError(Problem.of("part.absent", str(folder), reason=str(problem.strerror))) from None
        # Earlier versions wrote no seal.
        if text.startswith(b'{"format": '):
            raise TurnwiseError(Problem.of("part.version", str(folder)))
        try:
            content = unsealed(text)
        except (ValueError, RecursionError):
            raise self._damaged(STATE, "damaged or swapped") from None
        if content["format"] != FORMAT:
            raise TurnwiseError(Problem.of("part.version", str(folder)))
        self.about: dict[str, Any] = content["about"]
        self._state, self._files = content["state"], content["files"]

    def check(self, beside: Iterable[Path] = ()) -> None:
        """Refuse a folder whose files differ from those that were written, and files `beside` that nobody wrote."""
        for name, sha256 in self._files.items():
            if fault := fault_of(self.folder / name, sha256):
                raise self._damaged(name, fault)
        if strange := next((path.name for path in beside if path.name not in self._files), None):
            raise self._damaged(strange, "not of this part")

    def load(self, metrics: Mapping[str, Metric]) -> Any:
        """Return the state."""
        try:
            with np.load(self.folder / ARRAYS, allow_pickle=False) as arrays:
                return StateReader({name: arrays[name] for name in arrays.files}, metrics).read(self._state)
        except Exception as problem:  # A kind of statistics that a plugin no longer has, or a file changed meanwhile.
            raise self._damaged(ARRAYS, in_brief(problem)) from None

    def _damaged(self, file: str, fault: str) -> TurnwiseError:
        return TurnwiseError(Problem.of("part.damaged", str(self.folder), file=file, fault=fault))


@cache
def _columnar() -> frozenset[type]:
    """What comes in such numbers that it is written column by column."""
    kinds = _kinds()
    return frozenset(kinds[name] for name in ("Judged", "Row", "Example", "Score", "Pair", "BleuCounts"))


def _fields(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "flush"):
        value.flush()
    # What begins with an underscore waits to be added up, and nothing waits after a flush.
    return dict(vars(value))
