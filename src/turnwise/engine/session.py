"""A session: the opened models and the cache that answer the requests of a run."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from turnwise.errors import TurnwiseError
from turnwise.metrics.registry import lesser_form
from turnwise.models.kinds import ModelSource
from turnwise.models.pack import AT, DEFAULT_PACK, PACKS, PRECISIONS, load_models
from turnwise.models.requests import Answer, Request

if TYPE_CHECKING:
    from turnwise.engine.cache import Cache
    from turnwise.metrics.base import Metric

# Every collection goes through all rows that are kept, and rows hold no cycles: it took a third of the time of a run.
RELAXED = (100_000, 50, 1_000)
KEPT = "what models have answered is kept, so run the same again to go on"


class Session:
    """Open models and a cache when they are first needed, and hold them until `close`.

    `models` is a pack, a folder, `paper`, None for the default pack, or an opened source. Sessions of one process
    share the models of one name: the last few stay open until their files change.
    """

    def __init__(
        self, models: ModelSource | str | Path | None = None, device: str = "auto", cache: str | Path | None = None
    ) -> None:
        self._models, self._device, self._where = models, device, cache

    @cached_property
    def source(self) -> ModelSource:
        """The models by role. They do not change during a session, whatever becomes of their files."""
        given = self._models
        return _shared(given, self._device, _state(given)) if given is None or isinstance(given, str | Path) else given

    @cached_property
    def cache(self) -> Cache | None:
        """The cache of answers, if one is used."""
        from turnwise.engine.cache import open_cache

        return open_cache(self._where)

    @property
    def roles(self) -> frozenset[str]:
        """The roles that the models fill: none if none were named and the default pack is not installed."""
        if self._models is None and DEFAULT_PACK not in PACKS:
            return frozenset()
        return frozenset(self.source.roles)

    def answer(self, requests: Iterable[Request]) -> Mapping[Request, Answer]:
        """Return the answer to every distinct request."""
        from turnwise.engine.answer import answer_requests

        return answer_requests(requests, self.source, cache=self.cache)

    def labels(self, metrics: Mapping[str, Metric]) -> dict[str, str]:
        """Return the label of the models for each metric that uses any, and refuse metrics that lack a role.

        No model is opened for it.
        """
        asking = {key: metric for key, metric in metrics.items() if metric.roles}
        if not asking:
            return {}
        roles = frozenset(self.source.roles)
        for key, metric in asking.items():
            if form := lesser_form(metric, roles):
                absent, does = ", ".join(sorted(metric.roles - roles)), f"{metric.name} does without them"
                raise TurnwiseError(f"{key}: the models have none for {absent}; {does} if you ask for {form}")
        return {key: self.source.label(metric.roles) for key, metric in asking.items()}

    def close(self) -> None:
        """Close the cache and let go of the models; a session that is used again opens them again."""
        if (cache := self.__dict__.pop("cache", None)) is not None:
            cache.close()
        self.__dict__.pop("source", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Whoever reports the interrupt cannot see whether anything was kept.
        if isinstance(problem, KeyboardInterrupt) and self.__dict__.get("cache") is not None:
            problem.add_note(KEPT)
        self.close()


def calibration_mismatches(metrics: Mapping[str, Metric], labels: Mapping[str, str]) -> list[str]:
    """Return one line for each source of models whose scores were made with the constants of another pack."""
    found: dict[tuple[str, str], list[str]] = {}
    for key, metric in metrics.items():
        pack, label = metric.calibrated_to, labels.get(key, "")
        if pack is not None and label and not _is_pack(pack, label, metric.roles):
            found.setdefault((pack, label.partition("#")[0]), []).append(key)
    return [
        f"{', '.join(keys)}: constants '{pack}' were measured with that pack's models, and '{other}' answered; "
        "give constants=batch, or a file of your own (turnwise.metrics.scaling.measure makes one)"
        for (pack, other), keys in found.items()
    ]


def _is_pack(name: str, label: str, roles: frozenset[str]) -> bool:
    """Whether a label is that of an installed pack, in whichever precision."""
    if name not in PACKS:
        return False
    packs = [Session(f"{name}{AT}{precision}").source for precision in PRECISIONS]
    return any(roles <= set(pack.roles) and pack.label(roles) == label for pack in packs)


@lru_cache(maxsize=8)
def _shared(where: str | Path | None, device: str, _written: object) -> ModelSource:
    """Return models that stay open between sessions: to open them again takes longer than to score a few rows."""
    return load_models(where, device)


def _state(where: str | Path | None) -> tuple[tuple[str, int, int], ...]:
    """Return the files of a folder of models, with the time of writing and the size of each."""
    folder = None if where is None else Path(where)
    if folder is None or not folder.is_dir():
        return ()
    found = ((file, file.stat()) for file in (*folder.glob("*"), *folder.glob("*/*")) if file.is_file())
    return tuple(sorted((str(file), facts.st_mtime_ns, facts.st_size) for file, facts in found))


@contextmanager
def relaxed_gc() -> Iterator[None]:
    """Collect cyclic garbage less often within the block; rarer settings of one's own are kept."""
    before = gc.get_threshold()
    # 0 means never.
    if 0 < before[0] < RELAXED[0]:
        gc.set_threshold(*RELAXED)
    try:
        yield
    finally:
        gc.set_threshold(*before)
