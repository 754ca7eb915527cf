"""The options that every analysis has: how rows are read, what judges them, and the seed of everything drawn."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex, TypedDict, TypeVar

from turnwise.dialogue import Row
from turnwise.errors import TurnwiseError, TurnwiseWarning

if TYPE_CHECKING:
    from turnwise.engine.session import Session
    from turnwise.metrics.composite import CompositeMetric

T = TypeVar("T")


class RunOptions(TypedDict, total=False):
    """The options that every analysis takes by name.

    `config`: a file that describes one more metric, composed of others, or that metric. `corpus`: the name of an
    authors' release format. `mapping`: turnwise fields to the columns of the input. `strict`: stop at the first row
    that cannot be used. `models`: a pack's name or folder, a folder of models, or `paper`. `device`: where models run.
    `cache`: the folder of kept answers, or `off`. `seed`: the seed of everything drawn. `progress`: advanced by a row.
    """

    config: str | Path | CompositeMetric | None
    corpus: str | None
    mapping: Mapping[str, str] | None
    strict: bool
    models: str | Path | None
    device: str
    cache: str | Path | None
    seed: int
    progress: Iterator[None] | None


@dataclass(frozen=True)
class Reading:
    """How rows are read."""

    corpus: str | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False

    def rows(self, source: object) -> Iterator[Row]:
        """Return the rows of one path, several, or Python objects."""
        from turnwise.io.read import read_rows

        one = [source] if isinstance(source, str | Path) else source
        return read_rows(one, corpus=self.corpus, mapping=self.mapping or None)


@dataclass(frozen=True)
class Backend:
    """What answers the requests of metrics."""

    models: str | Path | None = None
    device: str = "auto"
    cache: str | Path | None = None

    def session(self) -> Session:
        """Return a session, which opens models and the cache when they are first needed."""
        from turnwise.engine.session import Session

        return Session(self.models, self.device, self.cache)


@dataclass(frozen=True)
class Run:
    """The options of one call, checked."""

    reading: Reading = field(default_factory=Reading)
    backend: Backend = field(default_factory=Backend)
    config: CompositeMetric | None = None
    seed: int = 0
    progress: Iterator[None] | None = None

    @classmethod
    def of(
        cls,
        *,
        config: str | Path | CompositeMetric | None = None,
        corpus: str | None = None,
        mapping: Mapping[str, str] | None = None,
        strict: bool = False,
        models: str | Path | None = None,
        device: str = "auto",
        cache: str | Path | None = None,
        seed: int = 0,
        progress: Iterator[None] | None = None,
    ) -> Run:
        """Return the run of these options; raise TurnwiseError for the first that cannot be used."""
        if not isinstance(seed, SupportsIndex) or seed.__index__() < 0:
            raise TurnwiseError(f"`seed`: expected a whole number of 0 or more, got {seed!r}")
        if isinstance(config, str | Path):
            from turnwise.analyses.config import load_config

            config = load_config(config)
        reading = Reading(corpus, dict(mapping or {}), strict)
        return cls(reading, Backend(models, device, cache), config, seed.__index__(), progress)

    def ticking(self, stream: Iterable[T]) -> Iterator[T]:
        """Yield the items of a stream and advance the progress after each."""
        for item in stream:
            yield item
            self.tick()

    def tick(self) -> None:
        """Advance the progress by one."""
        if self.progress is not None:
            next(self.progress)


def renamed(options: RunOptions, old: str, new: str, value: str | Path | None) -> str | Path | None:
    """Return the value of an option, given by its name or, with a warning, by the name that it had until 0.1."""
    if value is not None or not isinstance(options.get(old), str | Path):
        return value
    warnings.warn(f"`{old}` is called `{new}` from 0.2 on", TurnwiseWarning, stacklevel=3)
    given: Path = options.pop(old)  # type: ignore[misc]
    return given


def name_of(source: object) -> str:
    """Return what an input is called in a message."""
    if isinstance(source, str | Path):
        return str(source)
    if isinstance(source, Sequence) and source and isinstance(source[0], str | Path):
        return ", ".join(map(str, source))
    return "the input"
