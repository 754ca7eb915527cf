"""Answering requests: plan, batch, run, remember. A killed run starts again where its last batch ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from turnwise.engine.batching import batches
from turnwise.engine.cache import Cache
from turnwise.engine.plan import make_plan
from turnwise.errors import TurnwiseError
from turnwise.models.protocols import Answer, Model, ModelSource, ReadySource, Request, Row

# Batches that wait for a GPU while it works.
AHEAD = 2
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
    rows_of = {request: model.rows(request) for request in wanted}
    # Different requests may come down to the same row: the response's part of a text, and all of that text.
    owners_of: dict[Row, list[tuple[Request, int]]] = {}
    for request, its_rows in rows_of.items():
        for place, row in enumerate(its_rows):
            owners_of.setdefault(row, []).append((request, place))
    rows, owners = list(owners_of), list(owners_of.values())
    del owners_of
    results: dict[Request, dict[int, Any]] = {request: {} for request in wanted}

    def finish(done: Iterable[Request]) -> None:
        new = {}
        for request in done:
            found = results.pop(request)
            answer = model.answer(request, rows_of[request], [found[i] for i in range(len(found))])
            answers[request] = new[wanted[request]] = answer
        if new and cache is not None:
            cache.put(new)
        if new and progress is not None:
            progress(len(new))

    finish([request for request, its_rows in rows_of.items() if not its_rows])
    for batch, found_rows in _results(model, rows):
        for index, result in zip(batch, found_rows, strict=True):
            for request, place in owners[index]:
                results[request][place] = result
        touched = dict.fromkeys(request for index in batch for request, _ in owners[index])
        finish([request for request in touched if len(results[request]) == len(rows_of[request])])


def _results(model: Model, rows: Sequence[Row]) -> Iterator[tuple[list[int], list[Any]]]:
    """Every batch with its results. Where a model runs elsewhere, the next batches are on their way meanwhile."""
    todo = batches(rows, model.budget)
    if not getattr(model, "elsewhere", False):
        for batch in todo:
            yield batch, run_rows(model, [rows[i] for i in batch])
        return
    # One thread: batches run in their order, while this one makes answers of the last and keeps them.
    with ThreadPoolExecutor(1) as runner:
        under_way: deque[tuple[list[int], Future[list[Any]]]] = deque()
        try:
            for batch in todo:
                under_way.append((batch, runner.submit(run_rows, model, [rows[i] for i in batch])))
                if len(under_way) > AHEAD:
                    done, future = under_way.popleft()
                    yield done, future.result()
            while under_way:
                done, future = under_way.popleft()
                yield done, future.result()
        finally:
            for _, future in under_way:
                future.cancel()


def run_rows(model: Model, rows: Sequence[Row]) -> list[Any]:
    """Run a batch; if memory does not suffice, run its halves, and remember to ask for less next time."""
    try:
        return model.run(rows)
    except Exception as problem:  # torch and onnxruntime have each their own class for this
        if not _is_out_of_memory(problem):
            raise
    if len(rows) == 1:
        size = len(rows[0].prefix) + len(rows[0].ids)
        raise TurnwiseError(f"not enough memory to run a model on one text of {size} tokens")
    model.budget = max(1, model.budget // 2)
    half = len(rows) // 2
    return run_rows(model, rows[:half]) + run_rows(model, rows[half:])


def _is_out_of_memory(problem: Exception) -> bool:
    return isinstance(problem, MemoryError) or any(sign in str(problem).lower() for sign in OUT_OF_MEMORY)
