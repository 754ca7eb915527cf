"""How requests find models: opened when the first request comes, and kept, with the cache in front of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache as once
from pathlib import Path
from typing import TYPE_CHECKING

from turnwise.engine.local import Ask
from turnwise.models.protocols import Answer, ModelSource, Request

if TYPE_CHECKING:
    from turnwise.engine.cache import Cache
    from turnwise.metrics.base import Metric


def asker(models: str | Path | None = None, device: str = "auto", cache: str | Path | None = None) -> Ask:
    """A function that answers requests with a pack or named models; nothing is loaded before it is called."""

    def ask(requests: Iterable[Request]) -> Mapping[Request, Answer]:
        from turnwise.engine.run import answer_requests

        return answer_requests(requests, _models(models, device), cache=_cache(cache))

    return ask


def answering(models: str | Path | None, metrics: Mapping[str, Metric]) -> dict[str, str]:
    """What answers the questions of each metric that asks any; no model is opened for it."""
    asking = {key: metric.roles for key, metric in metrics.items() if metric.roles}
    if not asking:
        return {}
    source = _models(models, "auto")
    return {key: source.label(roles) for key, roles in asking.items()}


@once
def _models(where: str | Path | None, device: str) -> ModelSource:
    from turnwise.models.pack import load_models

    return load_models(where, device)


@once
def _cache(where: str | Path | None) -> Cache | None:
    from turnwise.engine.cache import open_cache

    return open_cache(where)
