"""Answer requests: deduplicate, look into the cache, batch, run, keep. A killed run starts again at its last batch."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from turnwise.engine.cache import Cache
from turnwise.errors import TurnwiseError
from turnwise.interrupts import check
from turnwise.models.kinds import Model, ModelSource, TokenRow, kind_of
from turnwise.models.requests import Answer, Request

# Part of every key: raise it when answers change their meaning, and old cache entries are simply not found.
FORM = 1
# Requests that are read at a time, and tokens that are sorted together where others run meanwhile.
READ_AHEAD, PORTION = 1024, 524_288
# Whose the rows of a batch are: for each, the numbers of requests and the row's place in each.
Owners = list[list[tuple[int, int]]]
OUT_OF_MEMORY = ("out of memory", "bad_alloc", "bad alloc", "failed to allocate memory")


def request_key(fingerprint: str, request: Request) -> bytes:
    """Return the sixteen bytes that name a request to a model by content alone."""
    fields = dataclasses.asdict(request)  # type: ignore[call-overload]
    fields.pop("role")  # the fingerprint says which model answers; what the metric calls it is of no matter
    text = json.dumps([FORM, fingerprint, request.key, fields], sort_keys=True)
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).digest()


def answer_requests(
    requests: Iterable[Request],
    source: ModelSource,
    *,
    cache: Cache | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[Request, Answer]:
    """Return the answer to every distinct request. `progress` is told how many more were answered, after each batch."""
    # What each request that no network runs for asks first; those requests join the others, to be batched with them.
    first: dict[Request, Sequence[Request]] = {}
    queue = deque(dict.fromkeys(requests))
    wanted: dict[str, dict[Request, bytes]] = {}
    while queue:
        request = queue.popleft()
        if request.runs:
            wanted.setdefault(request.role, {})[request] = b""
        elif request not in first:
            first[request] = source.model(request.role).asks(request)
            queue.extend(first[request])
    answers = {} if cache is None else _cached(wanted, source, cache)
    if progress is not None and answers:
        progress(len(answers))
    missing = {
        role: {request: key for request, key in keys.items() if request not in answers}
        for role, keys in wanted.items()
        if any(request not in answers for request in keys)
    }
    source.open_together(missing)
    for role, keys in missing.items():
        _run_model(source.model(role), keys, answers, cache, progress)

    def finish(request: Request) -> Answer:
        if request not in answers:
            given = [finish(one) for one in first[request]]
            answers[request] = source.model(request.role).answer(request, [], given)
        return answers[request]

    for request in first:
        finish(request)
    return answers


def _cached(wanted: Mapping[str, dict[Request, bytes]], source: ModelSource, cache: Cache) -> dict[Request, Answer]:
    """Give every request its key, and return what the cache has. No model is opened where the source can do without."""
    answers: dict[Request, Answer] = {}
    for role, keys in wanted.items():
        fingerprint = source.fingerprint(role)
        keys.update({request: request_key(fingerprint, request) for request in keys})
        found = cache.get(keys.values(), kind_of(next(iter(keys))).decode_answer)
        answers |= {request: found[key] for request, key in keys.items() if key in found}
    return answers


def _run_model(
    model: Model,
    wanted: Mapping[Request, bytes],
    answers: dict[Request, Answer],
    cache: Cache | None,
    progress: Callable[[int], None] | None,
) -> None:
    results: dict[int, list[Any]] = {}
    rows_of: dict[int, list[TokenRow]] = {}
    requests = list(wanted)

    def finish(done: Sequence[int]) -> None:
        for number in done:
            answers[requests[number]] = model.answer(requests[number], rows_of.pop(number), results.pop(number))
        if done and cache is not None:
            kept = {wanted[requests[number]]: answers[requests[number]] for number in done}
            cache.put(kept, kind_of(requests[done[0]]).encode_answer)
        if done and progress is not None:
            progress(len(done))

    def batched() -> Iterator[tuple[Owners, list[TokenRow]]]:
        """Batches of rows, and for each row the numbers of the requests that it belongs to and its place in each."""
        for portion in _portions(model, requests):
            # Different requests may come down to the same row: the response's part of a text, and all of that text.
            owners: dict[TokenRow, list[tuple[int, int]]] = {}
            for number, its_rows in portion.items():
                for place, row in enumerate(its_rows):
                    owners.setdefault(row, []).append((number, place))
                rows_of[number], results[number] = its_rows, [None] * len(its_rows)
                missing[number] = len(its_rows)
            finish([number for number, its_rows in portion.items() if not its_rows])
            rows, owned = list(owners), list(owners.values())
            for batch in batches(rows, model.budget, even=model.even):
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
        check()


def batches(rows: Sequence[TokenRow], budget: int, *, even: bool = False) -> Iterator[list[int]]:
    """Indices of rows that run together. A row over the budget runs alone; `even` rows have prefixes of one length.

    Longest first, so that too large a batch fails at once and not after an hour, and neighbours need little
    padding. A prefix that several rows share counts once, as it is read once.

    >>> list(batches([TokenRow((1,)), TokenRow((1, 2, 3)), TokenRow((1, 2))], budget=4))
    [[1], [2, 0]]
    """
    order = sorted(
        range(len(rows)), key=lambda i: (rows[i].group, -len(rows[i].prefix), rows[i].prefix, -len(rows[i].ids))
    )
    current: list[int] = []
    widest = longest = prefixes = 0
    last: TokenRow | None = None
    for i in order:
        row = rows[i]
        # Rows that share a prefix are neighbours, so that a new one shows.
        new = prefixes + (last is None or (row.prefix is not last.prefix and row.prefix != last.prefix))
        wide, long = max(widest, len(row.ids)), max(longest, len(row.prefix))
        fits = (len(current) + 1) * wide + new * long <= budget
        apart = last is not None and (row.group != last.group or (even and len(row.prefix) != len(last.prefix)))
        if current and (apart or not fits):
            yield current
            current, new, wide, long = [], 1, len(row.ids), len(row.prefix)
        current.append(i)
        prefixes, widest, longest, last = new, wide, long, row
    if current:
        yield current


def _portions(model: Model, requests: Sequence[Request]) -> Iterator[dict[int, list[TokenRow]]]:
    """The rows of all requests, by number, at once; or of some, where the first can run while the next are made."""
    most = PORTION if model.ahead else math.inf
    portion: dict[int, list[TokenRow]] = {}
    tokens = 0
    for start in range(0, len(requests), READ_AHEAD):
        model.read_ahead(requests[start : start + READ_AHEAD])
        for number, request in enumerate(requests[start : start + READ_AHEAD], start):
            portion[number] = rows = model.rows(request)
            tokens += sum(len(row.ids) for row in rows)
            if tokens >= most:
                yield portion
                portion, tokens = {}, 0
    yield portion


def _results(model: Model, todo: Iterable[tuple[Owners, list[TokenRow]]]) -> Iterator[tuple[Owners, list[Any]]]:
    """Every batch's results, beside whose they are; some batches are on their way ahead of the one that is waited for.

    A GPU is given its batches from this one thread: what is begun goes on by itself, and another thread would have to
    wait for this one at every step of its own.
    """
    under_way: deque[tuple[Owners, Callable[[], list[Any]]]] = deque()
    for owners, rows in todo:
        under_way.append((owners, begin_rows(model, rows)))
        if len(under_way) > model.ahead:
            done, wait = under_way.popleft()
            yield done, wait()
    while under_way:
        done, wait = under_way.popleft()
        yield done, wait()


def begin_rows(model: Model, rows: Sequence[TokenRow]) -> Callable[[], list[Any]]:
    """Begin a batch; if memory does not suffice for it, its halves are run, and less is asked for next time."""
    try:
        begun = model.begin(rows)
    except Exception as problem:  # torch and onnxruntime have each their own class for this
        found = _in_halves(model, rows, problem)
        return lambda: found

    def wait() -> list[Any]:
        try:
            return begun()
        except Exception as problem:
            return _in_halves(model, rows, problem)

    return wait


def _in_halves(model: Model, rows: Sequence[TokenRow], problem: Exception) -> list[Any]:
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
