"""Answering requests: plan, batch, run, remember. A killed run starts again where its last batch ended."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from turnwise.engine.batching import batches
from turnwise.engine.cache import Cache
from turnwise.engine.plan import make_plan
from turnwise.errors import TurnwiseError
from turnwise.models.protocols import Answer, Model, ModelSource, ReadySource, Request, Row

# Requests that are read at a time, and tokens that are sorted together where others run meanwhile.
READ_AHEAD, PORTION = 1024, 524_288
# Whose the rows of a batch are: for each, the numbers of requests and the row's place in each.
Owners = list[list[tuple[int, int]]]
OUT_OF_MEMORY = ("out of memory", "bad_alloc", "bad alloc", "failed to allocate memory")


def answer_requests(
    requests: Iterable[Request],
    source: ModelSource,
    *,
    cache: Cache | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[Request, Answer]:
    """The answer to every distinct request. `progress` is told how many more were answered, after each batch."""
    plan = make_plan(requests, source, cache)
    answers = plan.known
    if progress is not None and answers:
        progress(len(answers))
    missing = {role: wanted for role, wanted in plan.missing.items() if wanted}
    if isinstance(source, ReadySource):
        source.open_together(missing)
    for role, wanted in missing.items():
        _run_model(source.model(role), wanted, answers, cache, progress)
    return answers


def _run_model(
    model: Model,
    wanted: Mapping[Request, bytes],
    answers: dict[Request, Answer],
    cache: Cache | None,
    progress: Callable[[int], None] | None,
) -> None:
    results: dict[int, list[Any]] = {}
    rows_of: dict[int, list[Row]] = {}
    requests = list(wanted)

    def finish(done: Sequence[int]) -> None:
        for number in done:
            answers[requests[number]] = model.answer(requests[number], rows_of.pop(number), results.pop(number))
        if done and cache is not None:
            cache.put({wanted[requests[number]]: answers[requests[number]] for number in done})
        if done and progress is not None:
            progress(len(done))

    def batched() -> Iterator[tuple[Owners, list[Row]]]:
        """Batches of rows, and for each row the numbers of the requests that it belongs to and its place in each."""
        for portion in _portions(model, requests):
            # Different requests may come down to the same row: the response's part of a text, and all of that text.
            owners: dict[Row, list[tuple[int, int]]] = {}
            for number, its_rows in portion.items():
                for place, row in enumerate(its_rows):
                    owners.setdefault(row, []).append((number, place))
                rows_of[number], results[number] = its_rows, [None] * len(its_rows)
                missing[number] = len(its_rows)
            finish([number for number, its_rows in portion.items() if not its_rows])
            rows, owned = list(owners), list(owners.values())
            for batch in batches(rows, model.budget):
                yield [owned[i] for i in batch], [rows[i] for i in batch]

    missing: dict[int, int] = {}
    for owners, found in _results(model, batched()):
        done = []
        for its_owners, result in zip(owners, found, strict=True):
            for number, place in its_owners:
                results[number][place] = result
                missing[number] -= 1
                if not missing[number]:
                    done.append(number)
        finish(done)


def _portions(model: Model, requests: Sequence[Request]) -> Iterator[dict[int, list[Row]]]:
    """The rows of all requests, by number, at once; or of some, where the first can run while the next are made."""
    most = PORTION if getattr(model, "ahead", 0) else math.inf
    portion: dict[int, list[Row]] = {}
    tokens = 0
    for start in range(0, len(requests), READ_AHEAD):
        if (read_ahead := getattr(model, "read_ahead", None)) is not None:
            read_ahead(requests[start : start + READ_AHEAD])
        for number, request in enumerate(requests[start : start + READ_AHEAD], start):
            portion[number] = rows = model.rows(request)
            tokens += sum(len(row.ids) for row in rows)
            if tokens >= most:
                yield portion
                portion, tokens = {}, 0
    yield portion


def _results(model: Model, todo: Iterable[tuple[Owners, list[Row]]]) -> Iterator[tuple[Owners, list[Any]]]:
    """Every batch's results, beside whose they are; some batches are on their way ahead of the one that is waited for.

    A GPU is given its batches from this one thread: what is begun goes on by itself, and another thread would have to
    wait for this one at every step of its own.
    """
    ahead = getattr(model, "ahead", 0)
    under_way: deque[tuple[Owners, Callable[[], list[Any]]]] = deque()
    for owners, rows in todo:
        under_way.append((owners, begin_rows(model, rows)))
        if len(under_way) > ahead:
            done, wait = under_way.popleft()
            yield done, wait()
    while under_way:
        done, wait = under_way.popleft()
        yield done, wait()


def begin_rows(model: Model, rows: Sequence[Row]) -> Callable[[], list[Any]]:
    """Begin a batch; if memory does not suffice for it, its halves are run, and less is asked for next time."""
    begin = getattr(model, "begin", None) if getattr(model, "ahead", 0) else None
    try:
        begun: Callable[[], list[Any]] = begin(rows) if begin is not None else partial(model.run, rows)
    except Exception as problem:  # torch and onnxruntime have each their own class for this
        found = _in_halves(model, rows, problem)
        return lambda: found

    def wait() -> list[Any]:
        try:
            return begun()
        except Exception as problem:
            return _in_halves(model, rows, problem)

    return wait


def _in_halves(model: Model, rows: Sequence[Row], problem: Exception) -> list[Any]:
    """The results of rows for which memory did not suffice together."""
    if not _is_out_of_memory(problem):
        raise problem
    if len(rows) == 1:
        size = len(rows[0].prefix) + len(rows[0].ids)
        raise TurnwiseError(f"not enough memory to run a model on one text of {size} tokens")
    model.budget = max(1, model.budget // 2)
    half = len(rows) // 2
    return [result for part in (rows[:half], rows[half:]) for result in begin_rows(model, part)()]


def _is_out_of_memory(problem: Exception) -> bool:
    return isinstance(problem, MemoryError) or any(sign in str(problem).lower() for sign in OUT_OF_MEMORY)
