"""`--engine ray`: a run shared out over the workers of a Ray cluster, partition by partition.

Every partition leaves a folder: its turns as Parquet, and what they add up to. A partition that has left its folder is
not scored again, so a run that was stopped goes on where it was; a partition whose worker died is scored by another.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

from turnwise.analyses.evaluate import PEEK, fill_part, metrics_for, refuse_waiting, remarks_on
from turnwise.analyses.part import Part, Shard
from turnwise.analyses.shards import check_part, facts_of, merged, metrics_in, save_part
from turnwise.engine.spool import FILES, Spool, metrics_of_turns
from turnwise.engine.state import STATE, Saved
from turnwise.errors import TurnwiseError
from turnwise.io.remote import PARTITION_BYTES, Partition, as_url, is_url, partitions, places, retrieve, store
from turnwise.metrics.registry import Asked
from turnwise.options import Backend, Reading, Run, RunOptions

FOLDER = "partitions"
# Rows of a partition that are kept for the report's charts and turns.
KEPT_OF_EACH = 500
# Places in the run: a partition may have up to so many rows.
ROWS = 2**32


@dataclass(frozen=True)
class Job:
    """What every worker is told: plain data, so that it travels."""

    facts: Mapping[str, Any]
    out: str
    count: int
    reading: Reading
    backend: Backend

    def folder(self, index: int) -> str:
        """Where a partition leaves what it found."""
        return f"{self.out.rstrip('/')}/{FOLDER}/{index:05d}-of-{self.count:05d}"


class Scorer:
    """Scores partitions. One lives on each worker, and opens the models once."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.metrics = metrics_in(job.facts)
        self.run = Run(job.reading, job.backend)
        self.session = job.backend.session()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Score the partitions of a batch; what comes back says only which, how many rows, and what is wrong."""
        import json

        found: dict[str, list[Any]] = {"index": [], "rows": [], "problem": []}
        for index, facts in zip(batch["index"].tolist(), batch["partition"].tolist(), strict=True):
            rows, wrong = 0, ""
            try:
                rows = self.score(index, Partition.from_dict(json.loads(facts)))
            except TurnwiseError as problem:
                # Ray would wrap it, and lose the line that the user is to see.
                wrong = str(problem)
            found["index"].append(index)
            found["rows"].append(rows)
            found["problem"].append(wrong)
        return dict(found)

    def score(self, index: int, partition: Partition) -> int:
        """Score one partition into its folder."""
        job = self.job
        with TemporaryDirectory() as name:
            folder = Path(name)
            spool = Spool(folder, metrics_of_turns(self.metrics))
            part = Part(self.metrics, dict(job.facts["models"]), job.reading.strict, KEPT_OF_EACH, spool)
            rows = partition.rows(corpus=job.reading.corpus, mapping=job.reading.mapping)
            fill_part(part, enumerate(rows, (index - 1) * ROWS), self.run, self.session)
            # Who scored it: where a partition is slow or wrong, that is the first thing to ask.
            worker = {"host": socket.gethostname(), "pid": os.getpid()}
            facts = {"partition": partition.to_dict(), "reading": asdict(job.reading), "worker": worker}
            save_part(part, Shard(index, job.count), folder, facts)
            store(folder, job.folder(index), STATE, replaced=[FILES])
            return part.rows


def score_on_cluster(
    sources: Sequence[str],
    metrics: Asked,
    out: str | Path,
    *,
    work: Path,
    most: int | None = None,
    workers: int | None = None,
    partition_bytes: int = PARTITION_BYTES,
    **options: Unpack[RunOptions],
) -> Part:
    """Score files on a Ray cluster. `out` is a folder or an address that every worker reaches; `work` is our own."""
    run = Run.of(**options)
    reading = run.reading
    cut = [
        part
        for place in places(list(sources))
        for part in partitions(place, whole=bool(reading.corpus), most=partition_bytes)
    ]
    first = list(
        islice(chain.from_iterable(part.rows(corpus=reading.corpus, mapping=reading.mapping) for part in cut), PEEK)
    )
    session = run.backend.session()
    chosen = metrics_for(first, metrics, run, session)
    refuse_waiting(chosen, "`engine=ray`")
    where = as_url(out) if is_url(out) else str(Path(out).absolute())
    facts = facts_of(chosen, session.labels(chosen))
    job = Job(facts, where, len(cut), reading, run.backend)
    numbered = dict(enumerate(cut, 1))
    done = {index: _finished(job, index, part, work) for index, part in numbered.items()}
    todo = {index: part for index, part in numbered.items() if not done[index]}
    for _ in range(len(cut) - len(todo)):
        run.tick()
    if todo:
        for scored in _run(job, todo, workers):
            if scored["problem"]:
                raise TurnwiseError(scored["problem"])
            run.tick()
    folders = [_brought(job.folder(index), work) for index in numbered]
    if gone := next((folder for folder in folders if not (folder / STATE).exists()), None):
        raise TurnwiseError(f"{gone.name}: a partition was not scored; run the same command again to finish")
    whole = merged(folders, most=most)
    whole.notes = remarks_on(first, metrics, session)
    if len({part.place for part in cut}) > 1 and whole.summary.dialogues.places:
        # Workers read a piece of one file each, and cannot see what the others hold.
        whole.notes.append("dialogues of one id and system are one, whichever file they are in, with `engine=ray`")
    return whole


def _run(job: Job, todo: Mapping[int, Partition], workers: int | None) -> Iterator[dict[str, Any]]:
    """Have partitions scored; a worker that dies is replaced, and its partition is scored again.

    Ray Data does that without end unless it is told otherwise, and "nothing is lost" rests on it.
    """
    import json

    ray = _ray()
    if not ray.is_initialized():
        # RAY_ADDRESS names a cluster; without it one is started here.
        ray.init(log_to_driver=False, include_dashboard=False if "RAY_ADDRESS" not in os.environ else None)
    ray.data.DataContext.get_current().enable_progress_bars = False
    items = [{"index": index, "partition": json.dumps(part.to_dict())} for index, part in todo.items()]
    available = max(1, int(ray.cluster_resources().get("CPU", 1)))
    size = min(len(items), workers or available)
    scored = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        Scorer,
        fn_constructor_args=(job,),
        batch_size=1,
        batch_format="numpy",
        compute=ray.data.ActorPoolStrategy(size=size),
        num_gpus=1 if job.backend.device == "cuda" else 0,
    )
    try:
        yield from scored.iter_rows()
    except ray.exceptions.RayError as problem:
        cause = getattr(problem, "cause", None)
        if isinstance(cause, TurnwiseError):
            raise TurnwiseError(str(cause)) from None
        reason = " ".join(str(problem).split())[-300:]
        raise TurnwiseError(f"`engine=ray`: {reason}; run the same command again to go on where it stopped") from None


def _finished(job: Job, index: int, partition: Partition, work: Path) -> bool:
    """Whether an earlier run has left just this partition, read alike and scored by the same metrics and models."""
    folder = _brought(job.folder(index), work)
    if not (folder / STATE).exists():
        return False
    wanted = {**job.facts, "partition": partition.to_dict(), "reading": asdict(job.reading)}
    # A damaged partition is scored again, as if it had never been.
    with suppress(TurnwiseError):
        saved = Saved(folder)
        check_part(saved)
        if all(saved.about.get(name) == fact for name, fact in wanted.items()):
            return True
    if is_url(job.folder(index)):
        # The copy would be taken for what is going to be scored now.
        shutil.rmtree(folder)
    return False


def _brought(folder: str, work: Path) -> Path:
    """The folder itself, or a copy here of one that is elsewhere."""
    if not is_url(folder):
        return Path(folder)
    copy = work / folder.rpartition("/")[2]
    if not (copy / STATE).exists():
        shutil.rmtree(copy, ignore_errors=True)
        retrieve(folder, copy)
    return copy


def _ray() -> Any:
    try:
        import ray
        import ray.data
    except ImportError:
        raise TurnwiseError("`engine=ray` needs the package ray: pip install 'turnwise[ray]'") from None
    return ray
