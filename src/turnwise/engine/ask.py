"""How requests find models: opened when the first request comes, and kept, with the cache in front of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache as once
from pathlib import Path
from typing import TYPE_CHECKING

from turnwise.engine.local import Ask
from turnwise.errors import TurnwiseError
from turnwise.metrics.registry import lesser_form
from turnwise.models.protocols import Answer, ModelSource, Request

if TYPE_CHECKING:
    from turnwise.engine.cache import Cache
    from turnwise.metrics.base import Metric

_State = tuple[tuple[str, int, int], ...]
_open: dict[tuple[str | Path | None, str], tuple[_State, ModelSource]] = {}


def asker(models: str | Path | None = None, device: str = "auto", cache: str | Path | None = None) -> Ask:
    """A function that answers requests with a pack or named models; nothing is loaded before it is called."""

    # Held from the first question on: a run must not change its models half-way.
    source = once(lambda: _models(models, device))

    def ask(requests: Iterable[Request]) -> Mapping[Request, Answer]:
        from turnwise.engine.run import answer_requests

        return answer_requests(requests, source(), cache=_cache(cache))

    return ask


def answering(models: str | Path | None, metrics: Mapping[str, Metric]) -> dict[str, str]:
    """What answers the questions of each metric that asks any; no model is opened for it."""
    asking = {key: metric for key, metric in metrics.items() if metric.roles}
    if not asking:
        return {}
    source = _models(models, "auto")
    roles = frozenset(source.roles)
    for key, metric in asking.items():
        if form := lesser_form(metric, roles):
            absent, does = ", ".join(sorted(metric.roles - roles)), f"{metric.name} does without them"
            raise TurnwiseError(f"{key}: the models have none for {absent}; {does} if you ask for {form}")
    return {key: source.label(metric.roles) for key, metric in asking.items()}


def borrowed_constants(metrics: Mapping[str, Metric], labels: Mapping[str, str]) -> list[str]:
    """One line for each answerer that scores were made by with constants of another pack."""
    found: dict[tuple[str, str], list[str]] = {}
    for key, metric in metrics.items():
        pack, label = metric.calibrated_to, labels.get(key, "")
        if pack is not None and label and not _is_pack(pack, label, metric.roles):
            found.setdefault((pack, label.partition("#")[0]), []).append(key)
    return [
        f"{', '.join(keys)}: constants '{pack}' were measured with that pack's models, and '{other}' answered; "
        "give constants=batch, or a file of your own (turnwise.metrics.normalise.measure makes one)"
        for (pack, other), keys in found.items()
    ]


def _is_pack(name: str, label: str, roles: frozenset[str]) -> bool:
    """Whether a label is that of a bundled pack, in whichever precision."""
    from turnwise.models.pack import AT, PRECISIONS, bundled_packs, load_pack

    packs = [load_pack(f"{name}{AT}{precision}") for precision in PRECISIONS if name in bundled_packs()]
    return any(roles <= set(pack.roles) and pack.label(roles) == label for pack in packs)


def _models(where: str | Path | None, device: str) -> ModelSource:
    """Models that stay open between runs, until their files are written anew."""
    state = _state(where)
    known, models = _open.get((where, device), (None, None))
    if models is None or known != state:
        from turnwise.models.pack import load_models

        models = load_models(where, device)
        _open[where, device] = state, models
    return models


def _state(where: str | Path | None) -> _State:
    """Which files a folder of models holds, and when each was written."""
    folder = None if where is None else Path(where)
    if folder is None or not folder.is_dir():
        return ()
    found = ((file, file.stat()) for file in (*folder.glob("*"), *folder.glob("*/*")) if file.is_file())
    return tuple(sorted((str(file), facts.st_mtime_ns, facts.st_size) for file, facts in found))


@once
def _cache(where: str | Path | None) -> Cache | None:
    from turnwise.engine.cache import open_cache

    return open_cache(where)
