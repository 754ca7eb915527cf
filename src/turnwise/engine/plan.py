"""What has to be computed: every distinct request once, grouped by model, less what the cache already knows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from turnwise.engine.cache import Cache
from turnwise.engine.requests import request_key
from turnwise.models.protocols import Answer, Lookup, ModelSource, ReadySource, Request, Weights


@dataclass
class Plan:
    """Answers that are known, and requests that are not, by role, each with its name in the cache if there is one."""

    known: dict[Request, Answer] = field(default_factory=dict)
    missing: dict[str, dict[Request, bytes]] = field(default_factory=dict)

    @property
    def open(self) -> int:
        """How many requests have to be computed."""
        return sum(map(len, self.missing.values()))


def make_plan(requests: Iterable[Request], source: ModelSource, cache: Cache | None) -> Plan:
    """Look at all requests of all metrics together. What is only looked up needs no cache.

    Where a source can tell its models apart unopened, none is opened for what the cache knows.
    """
    plan = Plan()
    prints: dict[str, str] = {}
    for request in dict.fromkeys(requests):
        role = request.role
        if isinstance(request, Lookup | Weights):
            plan.known[request] = source.model(role).answer(request, [], [])
            continue
        if role not in prints:
            prints[role] = (
                source.fingerprint(role) if isinstance(source, ReadySource) else source.model(role).fingerprint
            )
        key = request_key(prints[role], request) if cache is not None else b""
        plan.missing.setdefault(role, {})[request] = key
    if cache is not None:
        for wanted in plan.missing.values():
            found = cache.get(wanted.values())
            plan.known |= {request: found[key] for request, key in wanted.items() if key in found}
        plan.missing = {
            role: {request: key for request, key in wanted.items() if request not in plan.known}
            for role, wanted in plan.missing.items()
        }
    return plan
