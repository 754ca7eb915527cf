"""What an input lacks of what its groups of metrics need, and fields that were perhaps meant to be it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from turnwise.dialogue import Row
from turnwise.io.native import KNOWN
from turnwise.metrics.registry import GROUPS, SYSTEMS, Asked, answerable, as_asked, load_metric, members
from turnwise.models.pack import DEFAULT_PACK, INSTALL

# As close as a letter too many, too few or in another's place.
CLOSE = 0.85


def remarks(
    first: Sequence[Row],
    metrics: Asked,
    offered: frozenset[str],
    roles: frozenset[str],
    *,
    more_to_come: bool,
) -> list[str]:
    """What to say of the first rows, before any is scored."""
    wanted = [item for item in as_asked(metrics) if isinstance(item, str)]
    rows = f"of the first {len(first):,} rows none" if more_to_come else "no row"
    left_out = {group: _left_out(group, offered, roles) for group in wanted if group in GROUPS}
    return [
        *(f"left out of {group}: {names}, which {rows} has" for group, names in left_out.items() if names),
        *(note for group in left_out if (note := _unanswered(group, offered, roles))),
        *(_of_systems(len(first), offered, roles) if more_to_come and "default" in wanted else []),
        *_misspelt(first),
    ]


def _left_out(group: str, offered: frozenset[str], roles: frozenset[str]) -> str:
    """The metrics of a group that cannot be computed, by what they need."""
    by_need: dict[str, list[str]] = {}
    for name in answerable(members(group, offered, roles), roles):
        metric = load_metric(name)
        if metric.roles <= roles and (lacking := sorted(metric.needs - offered)):
            by_need.setdefault(" and ".join(lacking), []).append(name)
    return "; ".join(
        f"{', '.join(names)} {'needs' if len(names) == 1 else 'need'} {need}" for need, names in by_need.items()
    )


def _unanswered(group: str, offered: frozenset[str], roles: frozenset[str]) -> str:
    """Return the note on metrics of a group that need models which are absent."""
    if not roles and group != "classic":
        return f"left out of {group}: metrics that need models; pack '{DEFAULT_PACK}' is not installed. Fix: {INSTALL}"
    metrics = {name: load_metric(name) for name in answerable(members(group, offered, roles), roles)}
    left_out = {name: metric.roles - roles for name, metric in metrics.items() if not metric.roles <= roles}
    absent = ", ".join(sorted(set().union(*left_out.values())))
    return f"left out of {group}: {', '.join(left_out)}; the models have none for {absent}" if left_out else ""


def _of_systems(count: int, offered: frozenset[str], roles: frozenset[str]) -> list[str]:
    """That a metric for comparing systems was left out, where a second system may be yet to come."""
    left_out = set(members("default", offered | {SYSTEMS}, roles)) - set(members("default", offered, roles))
    able = [name for name in sorted(left_out) if (m := load_metric(name)).needs <= offered and m.roles <= roles]
    reason = f"since the first {count:,} rows are of one system; ask for it by name"
    return [f"left out of default: {', '.join(able)}, {reason}"] if able else []


def _misspelt(rows: Iterable[Row]) -> list[str]:
    fields = dict.fromkeys(field for row in rows for field in row.more or ())
    close = {field: get_close_matches(field, KNOWN, n=1, cutoff=CLOSE) for field in fields if isinstance(field, str)}
    return [
        f"the field '{field}' is not known and not read; did you mean '{meant[0]}'?"
        for field, meant in close.items()
        if meant
    ]
