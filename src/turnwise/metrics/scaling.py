"""How raw sub-scores become comparable: z-scores and quantile clamps, with constants that are data.

`constants.json` beside this file holds the sets of constants that papers published. A pack brings its own set, its
`calibration.json`, measured on its training dialogues. A set maps a metric, as it is asked for, to its mean, deviation
and quantiles; a composite in another mode reads it as speaking of its parts in that mode. A user's own set is a file in
the same form; `measure` makes one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnwise.errors import TurnwiseError
from turnwise.metrics.base import RunMetric
from turnwise.models.pack import DEFAULT_PACK, INSTALL, Pack, installed_packs

FILE = Path(__file__).with_name("constants.json")
# What composites use unless they are told otherwise: the bundled pack's own set (tools/pack/choose.py).
DEFAULT = DEFAULT_PACK
# Not a set but the request to use the constants of the very scores that are judged.
BATCH = "batch"
# Nobody's constants: scores as they are.
RAW = "none"
LEVELS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """What is known about the scores of one metric."""

    mean: float | None = None
    std: float | None = None
    quantiles: Mapping[float, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Constants:
    """A named set of scales. `label` names its content too, for signatures."""

    name: str
    label: str
    scales: Mapping[str, Scale]

    def moments(self, request: str) -> tuple[float, float]:
        """Mean and deviation of a metric."""
        scale = self._scale(request)
        if scale.mean is None or not scale.std:
            raise TurnwiseError(f"constants '{self.name}' have no mean and deviation of '{request}'")
        return scale.mean, scale.std

    def bounds(self, request: str, levels: tuple[float, float]) -> tuple[float, float]:
        """Return two quantiles of a metric."""
        stored = self._scale(request).quantiles
        absent = [level for level in levels if level not in stored]
        if absent:
            has = ", ".join(f"{level:g}" for level in stored) or "none"
            raise TurnwiseError(f"constants '{self.name}' have no quantile {absent[0]:g} of '{request}'; stored: {has}")
        return stored[levels[0]], stored[levels[1]]

    def _scale(self, request: str) -> Scale:
        # Another form's numbers would be read as this one's: a sum lies far below a mean.
        if request not in self.scales:
            known = ", ".join(self.scales) or "nothing"
            install = f"Fix: {INSTALL}, or " if self.name == DEFAULT and not self.scales else ""
            raise TurnwiseError(
                f"no calibration for '{request}' in '{self.name}' (it has: {known}); "
                f"{install}give constants={BATCH}, or a JSON file of your own"
            )
        return self.scales[request]


def load_constants(name: str) -> Constants:
    """Return the set of this name, or the one in a user's own JSON file; a file is read again when it has changed."""
    return _loaded(name, file_state(Path(name)) if name.endswith(".json") else None)


def file_state(path: Path) -> tuple[int, int] | None:
    """Return what changes with a file's content: its time and size; None where there is no file."""
    facts = path.stat() if path.is_file() else None
    return (facts.st_mtime_ns, facts.st_size) if facts else None


@lru_cache(maxsize=32)
def _loaded(name: str, _state: tuple[int, int] | None) -> Constants:
    if name.endswith(".json"):
        content = _read(Path(name))
    else:
        published, packs = _read(FILE), installed_packs()
        if name not in {*published, *packs, DEFAULT}:
            offered = ", ".join([*published, *packs, BATCH])
            raise TurnwiseError(f"no constants are called '{name}'; there are: {offered}, or a JSON file of your own")
        # The default pack may not be installed: it has a name, and no calibration for anything.
        content = Pack(packs[name]).calibration if name in packs else published.get(name, {})
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
    return Constants(name, f"{Path(name).name}#{digest}", _scales(content, name))


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise TurnwiseError(f"{path}: cannot be read ({problem.strerror})") from None
    except ValueError as problem:
        raise TurnwiseError(f"{path}: not valid JSON ({problem})") from None


def _scales(content: Any, name: str) -> dict[str, Scale]:
    try:
        return {metric: _parse(of) for metric, of in content.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise TurnwiseError(f"{name}: not a set of constants ({type(problem).__name__}: {problem})") from None


def _parse(of: Mapping[str, Any]) -> Scale:
    moments = {key: float(of[key]) for key in ("mean", "std") if key in of}
    quantiles = {float(level): float(value) for level, value in of.get("quantiles", {}).items()}
    if not all(map(np.isfinite, (*moments.values(), *quantiles, *quantiles.values()))):
        raise ValueError("something is not a number")
    if moments.get("std", 0.0) < 0:
        raise ValueError("a std is below 0")
    in_order = [quantiles[level] for level in sorted(quantiles)]
    if in_order != sorted(in_order):
        raise ValueError("a higher quantile is below a lower one")
    return Scale(**moments, quantiles=quantiles)


def measure(scores: Mapping[str, Sequence[float]], levels: Sequence[float] = LEVELS) -> dict[str, dict[str, Any]]:
    """Return a set of constants, ready for JSON, from scores of responses that nobody will be judged on.

    >>> measure({"nup": [0.0, 1.0]}, levels=[0.5])
    {'nup': {'n': 2, 'mean': 0.5, 'std': 0.5, 'quantiles': {'0.5': 0.5}}}
    """
    measured = {}
    for metric, values in scores.items():
        column = np.asarray(values, dtype=np.float64)
        quantiles = {f"{level:g}": float(np.quantile(column, level)) for level in levels}
        moments = {"mean": float(column.mean()), "std": float(column.std())}
        measured[metric] = {"n": len(column), **moments, "quantiles": quantiles}
    return measured


def clamp(values: ArrayLike, low: float, high: float) -> NDArray[np.float64]:
    """Values between two bounds as 0 to 1, those beyond as 0 or 1. Equal bounds leave a step between 0 and 1.

    >>> clamp([0, 2, 3, 9], 1, 5).tolist()
    [0.0, 0.25, 0.5, 1.0]
    """
    column = np.asarray(values, dtype=np.float64)
    if high <= low:
        return (np.sign(column - low) + 1) / 2
    clamped: NDArray[np.float64] = (np.clip(column, low, high) - low) / (high - low)
    return clamped


@dataclass(frozen=True, slots=True)
class ZScore:
    """Distance from a stored mean, in stored standard deviations."""

    mean: float
    deviation: float

    def __post_init__(self) -> None:
        if not self.deviation > 0:
            raise ValueError(f"deviation is {self.deviation:g}; give one above 0")

    def __call__(self, value: float) -> float:
        return (value - self.mean) / self.deviation

    def __str__(self) -> str:
        return f"z({self.mean!r},{self.deviation!r})"


@dataclass(frozen=True, slots=True)
class Clamp:
    """Position between two bounds, from 0 to 1; what lies beyond a bound counts as the bound.

    >>> Clamp(low=10, high=20)(12.5), Clamp(low=10, high=20)(99)
    (0.25, 1.0)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low is {self.low:g} and high {self.high:g}; give a low below the high")

    def __call__(self, value: float) -> float:
        return (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)

    def __str__(self) -> str:
        return f"clamp({self.low!r},{self.high!r})"


Normaliser = ZScore | Clamp
NORMALISERS: Mapping[str, type[Normaliser]] = {"z": ZScore, "clamp": Clamp}


class CalibratedMetric(RunMetric):
    """Put scores on a scale by stored constants, or by those of the run: the option `constants` names them."""

    constants: str

    @cached_property
    def _stored(self) -> Constants:
        """Return the constants as they were when first read: a signature names those that made the scores."""
        return load_constants(self.constants)

    @property
    def uses_stored(self) -> bool:
        """Return whether a score depends on stored constants."""
        return self.constants not in (BATCH, RAW)

    @property
    def scaled_by(self) -> str:
        return self._stored.label if self.uses_stored else ""

    @property
    def calibrated_to(self) -> str | None:
        return self.constants if self.constants == DEFAULT and self.uses_stored else None

    def options(self) -> dict[str, object]:
        given = super().options()
        return given if self.constants in (BATCH, RAW) else given | {"constants": self._stored.label}


def check_count(given: Sequence[object], option: str, count: int) -> None:
    """Refuse another number of values."""
    if len(given) != count:
        shown = "/".join(map(str, given))
        raise ValueError(f"option {option}={shown}: write {count} numbers with / between them")
