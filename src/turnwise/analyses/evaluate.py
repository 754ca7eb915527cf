"""`evaluate`: score a file, a frame or a list of conversations."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import Unpack

from turnwise.analyses.config import choose_metrics
from turnwise.analyses.part import Part, Shard, check_usable
from turnwise.analyses.part import Problems as Problems
from turnwise.analyses.result import Result as Result
from turnwise.analyses.targets import check_targets as check_targets
from turnwise.dialogue import Example, Row
from turnwise.engine.score import Judged, judge_rows
from turnwise.engine.session import Session, relaxed_gc
from turnwise.engine.spool import Spool, metrics_of_turns
from turnwise.errors import TurnwiseError
from turnwise.interrupts import checked, deferred
from turnwise.io.native import KNOWN
from turnwise.io.unique import InputIdentity
from turnwise.metrics.base import Metric
from turnwise.metrics.registry import GROUPS, SYSTEMS, Asked, answerable, as_asked, load_metric, members
from turnwise.models.pack import DEFAULT_PACK, INSTALL
from turnwise.options import Run, RunOptions, name_of

# How many rows decide which metrics of a group the input has what they need for.
PEEK = 1000
FIELDS = ("context", "references", "facts", "group")


def evaluate(
    source: object,
    metrics: Asked = "default",
    *,
    intervals: bool = True,
    keep_when_interrupted: bool = False,
    **options: Unpack[RunOptions],
) -> Result:
    """Score conversations with metrics.

    Rows that cannot be read are kept, with the reason; `strict=True` stops at the first one instead.

    Args:
        source: A path or several, a list of dicts or Examples, a polars or pandas frame.
        metrics: Names, metrics, or a list of both; a name may be a group such as `default`.
        intervals: Whether systems get intervals, which take most of the time of a metric of whole systems.
        keep_when_interrupted: Whether an interrupt returns the result of the rows so far.
        options: The options of a run, by name: see `turnwise.options.RunOptions`.

    Returns:
        Scores of turns, dialogues, groups and systems, and the signatures of the metrics.

    >>> import turnwise as tw
    >>> result = tw.evaluate([{"context": ["Tea?"], "response": "Yes, I like tea."}], "length,distinct-1")
    >>> result.turns.select("length", "distinct-1").rows()
    [(4.0, 1.0)]
    """
    run = Run.of(**options)
    return evaluated(source, metrics, run, intervals=intervals, keep_when_interrupted=keep_when_interrupted)


def evaluated(
    source: object,
    metrics: Asked,
    run: Run,
    *,
    intervals: bool = True,
    keep_when_interrupted: bool = False,
) -> Result:
    """Return the result of a run over a source."""
    part = score_part(source, metrics, run, keep_when_interrupted=keep_when_interrupted)
    check_usable(name_of(source), part)
    return part.result(seed=run.seed, intervals=intervals)


def score_part(
    source: object,
    metrics: Asked,
    run: Run,
    *,
    keep_when_interrupted: bool = False,
    shard: Shard | None = None,
    most: int | None = None,
    spool: Path | None = None,
    ready: Path | None = None,
) -> Part:
    """Score all rows or one shard of them, in memory that does not grow where `most` says how many to keep at most.

    Every turn is written to the folder `spool`, where one is given, and as soon as it is scored to the file `ready`.
    """
    metrics = as_asked(metrics)
    rows = run.reading.rows(source)
    # Every shard reads everything; what it has seen tells later whether the others saw the same.
    identity = None if shard is None else InputIdentity(source)
    if identity is not None:
        rows = identity.noted(rows)
    first = list(islice(rows, PEEK))
    with run.backend.session() as session:
        chosen = metrics_for(first, metrics, run, session)
        if shard is not None:
            refuse_waiting(chosen, "`shard`")
        written = None if spool is None else Spool(spool, metrics_of_turns(chosen), ready)
        part = Part(chosen, session.labels(chosen), run.reading.strict, most, written, identity=identity)
        part.notes = remarks_on(first, metrics, session)
        numbered = enumerate(chain(first, rows))
        mine = ((number, row) for number, row in numbered if shard is None or shard.has(row, number))
        fill_part(part, mine, run, session, keep_when_interrupted)
    if written is not None:
        written.close()
    return part


def metrics_for(first: Iterable[Row], metrics: Asked, run: Run, session: Session) -> dict[str, Metric]:
    """The metrics that were asked for; what groups stand for is decided by the first rows of the input."""
    return choose_metrics(metrics, _offered(first), session.roles, run.config)


def remarks_on(first: Sequence[Row], metrics: Asked, session: Session) -> list[str]:
    """What the first rows lack of what was asked for."""
    return remarks(first, metrics, _offered(first), session.roles, more_to_come=len(first) == PEEK)


def fill_part(
    part: Part, rows: Iterable[tuple[int, Row]], run: Run, session: Session, keep_when_interrupted: bool = False
) -> None:
    """Judge rows, each with its place in the whole run, and count them into a part."""
    waiting = metrics_that_wait(part.metrics)
    if waiting:
        part.keep_all()
    numbers: deque[int] = deque()

    def noted() -> Iterator[Row]:
        for number, row in rows:
            numbers.append(number)
            # A run of any size must not hold on to fields that nobody asked for.
            yield row if row.more is None or part.most is None else replace(row, more=None)

    stream = checked(run.ticking(judge_rows(noted(), part.metrics, session.answer)))
    numbered = (Judged(item.row, item.scores, numbers.popleft()) for item in stream)
    try:
        with deferred(), relaxed_gc():
            for item in _settled(numbered, waiting, strict=run.reading.strict) if waiting else numbered:
                part.add(item)
    except KeyboardInterrupt:
        if not keep_when_interrupted or not part.rows:
            raise
        part.interrupted = True


def metrics_that_wait(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """The metrics that have no score before they have seen the whole run."""
    return {key: metric for key, metric in metrics.items() if metric.waits}


def refuse_waiting(metrics: Mapping[str, Metric], option: str, remedy: str = "") -> None:
    """A metric that compares each response with all others cannot be computed on a part of them."""
    if names := ", ".join(metrics_that_wait(metrics)):
        remedy = remedy or f"score it without {option}"
        raise TurnwiseError(f"{option}: {names} compares each response with the whole run; {remedy}")


def _settled(stream: Iterator[Judged], waiting: Mapping[str, Metric], *, strict: bool) -> Iterator[Judged]:
    """The rows with the final scores of the metrics that waited; all rows have to be held for them."""
    held: list[Judged] = []
    interrupt: KeyboardInterrupt | None = None
    try:
        for item in stream:
            if strict and item.row.error is not None:
                # The run ends here; whoever takes this row says why.
                yield item
            held.append(item)
    except KeyboardInterrupt as problem:
        interrupt = problem
    readable = [item for item in held if item.row.example]
    settled = {key: iter(metric.settle([item.scores[key] for item in readable])) for key, metric in waiting.items()}
    for item in held:
        final = {key: next(scores) for key, scores in settled.items()} if item.row.example else {}
        yield replace(item, scores={**item.scores, **final})
    if interrupt is not None:
        raise interrupt


def _offered(rows: Iterable[Row]) -> frozenset[str]:
    return offered_by(row.example for row in rows if row.example)


def offered_by(examples: Iterable[Example]) -> frozenset[str]:
    """Which of the things that a metric may need at least one of the examples has."""
    found: set[str] = set()
    systems: set[str | None] = set()
    for example in examples:
        found.update(name for name in FIELDS if getattr(example, name))
        systems.add(example.system)
    return frozenset(found | {SYSTEMS} if len(systems) > 1 else found)


def check_qualities(known: Sequence[str], wanted: Sequence[str] | None) -> None:
    """Refuse the name of a quality that nobody rated."""
    for name in wanted or ():
        if known and name not in known:
            raise TurnwiseError(f"no rating is called '{name}'; the ratings are: {', '.join(known)}")


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
