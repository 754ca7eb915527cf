"""`turnwise score` and `turnwise merge`: a run or its parts, and every form in which the result leaves."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from turnwise.cli import show
from turnwise.errors import TurnwiseError
from turnwise.wording import counted

if TYPE_CHECKING:
    from turnwise.analyses.result import Result

# Rows of a run that stay in memory, for charts and the report; of more, an even sample does.
MOST_KEPT, FEWEST_KEPT = 20_000, 5_000


def score(
    files: Sequence[str],
    metrics: str,
    options: Mapping[str, Any],
    *,
    out: Path | None,
    report: Path | None,
    form: str,
    seed: int,
    shard: str | None,
    engine: str = "local",
) -> None:
    """Score files and show what was found."""
    if engine == "ray":
        _score_on_cluster(files, metrics, options, out=out, report=report, form=form, seed=seed, shard=shard)
        return
    from turnwise.analyses.evaluate import check_targets, name_of, score_part
    from turnwise.analyses.part import Shard, check_usable
    from turnwise.analyses.shards import PART, save_part

    mine = None if shard is None else Shard.parse(shard)
    if mine is not None and out is None:
        raise TurnwiseError("--shard: a part of a run is kept in a folder; add --out DIR")
    check_targets([*files, options.get("config")], folder=out, report=report)
    with _room_for_turns(out, PART if mine else None, wanted=out is not None or form != "table") as room:
        with show.progress("scoring") as tick:
            part = score_part(
                files,
                metrics,
                **options,
                keep_when_interrupted=True,
                progress=tick,
                shard=mine,
                most=max(FEWEST_KEPT, MOST_KEPT // (mine.count if mine else 1)),
                spool=room,
            )
        if mine is None:
            check_usable(name_of(files), part)
        elif room is not None:
            save_part(part, mine, room)
        _deliver(part.result(seed=seed), out=out, report=report, form=form)
    if mine is not None:
        show.note(f"shard {mine} is in {out}/; 'turnwise merge' puts all {mine.count} together")


def _score_on_cluster(
    files: Sequence[str],
    metrics: str,
    options: Mapping[str, Any],
    *,
    out: Path | None,
    report: Path | None,
    form: str,
    seed: int,
    shard: str | None,
) -> None:
    from turnwise.analyses.cluster import score_on_cluster
    from turnwise.analyses.evaluate import check_targets
    from turnwise.analyses.part import check_usable
    from turnwise.engine.state import STATE
    from turnwise.io.remote import as_url, is_url, store
    from turnwise.report.charts import FILES

    if out is None:
        raise TurnwiseError("--engine ray: workers leave what they find in a folder or address; add --out DIR")
    if shard is not None:
        raise TurnwiseError("--shard: the cluster shares the work out itself; leave --shard or --engine ray out")
    away = is_url(out)
    check_targets([*files, options.get("config")], folder=None if away else out, report=report)
    with TemporaryDirectory() as name:
        work = Path(name)
        with show.progress("scoring partitions") as tick:
            part = score_on_cluster(files, metrics, out, work=work / "parts", progress=tick, most=MOST_KEPT, **options)
        check_usable(", ".join(files), part)
        place = work / "result" if away else out
        _deliver(part.result(seed=seed), out=place, report=report, form=form)
        if away:
            store(place, as_url(out), STATE, replaced=[f"charts/{file}" for file in FILES])
            show.note(f"results are at {as_url(out)}")


def merge(folders: Sequence[Path], *, out: Path | None, report: Path | None, form: str, seed: int) -> None:
    """Put shards together and show what was found."""
    from turnwise.analyses.evaluate import check_targets
    from turnwise.analyses.shards import merge as run

    check_targets(folder=out, report=report)
    with show.working("merging"):
        result = run(folders, seed=seed, most=MOST_KEPT)
    _deliver(result, out=out, report=report, form=form)


def _deliver(result: Result, *, out: Path | None, report: Path | None, form: str) -> None:
    show.problems(result.problems)
    show.notes(result.notes)
    if out is not None:
        with show.working("saving the results"):
            result.save(out)
        show.note(f"results are in {out}/")
    if report is not None:
        with show.working("making the report"):
            result.report(report)
        show.note(f"report: {report}")
    show.scores(result, form)
    if result.interrupted:
        show.note(f"interrupted after {counted(result.rows, 'row')}; everything above is of those")
        sys.exit(130)


@contextmanager
def _room_for_turns(out: Path | None, kept: str | None, *, wanted: bool) -> Iterator[Path | None]:
    """A folder for scored turns: one that stays where a part is kept, else one that goes when they are delivered."""
    from turnwise.engine.spool import clear_spool
    from turnwise.engine.state import STATE

    if out is not None and kept is not None:
        folder = out / kept
        # What says that all is there goes first: from here on it is not.
        (folder / STATE).unlink(missing_ok=True)
        clear_spool(folder)
        yield folder
    elif wanted:
        with TemporaryDirectory(prefix=".turns-", dir=out) as folder_name:
            yield Path(folder_name)
    else:
        yield None
