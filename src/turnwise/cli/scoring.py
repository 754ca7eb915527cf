"""`score`, `merge` and `compare`: runs over systems, and every form in which a result leaves."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import again
from turnwise.cli.options import (
    EndedEarlyError,
    Files,
    Format,
    Metrics,
    Out,
    Printed,
    Report,
    Summary,
    with_run_options,
)
from turnwise.errors import TurnwiseError
from turnwise.files import claim
from turnwise.interrupts import deferred
from turnwise.options import RunOptions
from turnwise.problems import counted

if TYPE_CHECKING:
    from turnwise.analyses.compare import Comparison
    from turnwise.analyses.part import Part
    from turnwise.analyses.result import Result
    from turnwise.analyses.verdict import Verdict

# Rows of a run that stay in memory, for charts and the report; of more, an even sample does.
MOST_KEPT, FEWEST_KEPT = 20_000, 5_000


class Engines(StrEnum):
    """What does the work."""

    local = "local"
    ray = "ray"


class Missing(StrEnum):
    """What a reply that was not given counts as."""

    worst = "worst"
    skip = "skip"


@with_run_options()
def score(
    files: Files,
    metrics: Metrics = "default",
    out: Out = None,
    report: Report = None,
    format: Printed = Format.table,
    summary: Summary = None,
    *,
    options: RunOptions,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Score one of N parts; 'turnwise merge' merges them.")
    ] = None,
    engine: Annotated[
        Engines, typer.Option(help="Where the work is done: here, or on the Ray cluster that RAY_ADDRESS names.")
    ] = Engines.local,
) -> None:
    """Score every response, dialogue and system of one or more files."""
    if engine is Engines.ray:
        if out is None:
            raise TurnwiseError("--engine ray: workers leave what they find in a folder or address; add --out DIR")
        if shard is not None:
            raise TurnwiseError("--shard: the cluster shares the work out itself; leave --shard or --engine ray out")
        _score_on_cluster(files, metrics, options, out, report, format, summary)
        return
    from turnwise.analyses.evaluate import score_part
    from turnwise.analyses.part import Shard, check_usable
    from turnwise.analyses.shards import PART, save_part
    from turnwise.analyses.targets import PARTIAL_TURNS, check_targets
    from turnwise.cli import show
    from turnwise.options import Run, name_of

    mine = None if shard is None else Shard.parse(shard)
    if mine is not None and out is None:
        raise TurnwiseError("--shard: a part of a run is kept in a folder; add --out DIR")
    check_targets([*files, options.get("config")], folder=out, report=report, files=[summary])
    run = Run.of(**options)
    kept, wanted = PART if mine else None, out is not None or format is not Format.table
    with deferred(), _claimed(out), _folder_of_turns(out, kept, wanted=wanted) as folder:
        with show.progress("scoring", options):
            part = score_part(
                files,
                metrics,
                replace(run, progress=options.get("progress")),
                keep_when_interrupted=True,
                shard=mine,
                most=max(FEWEST_KEPT, MOST_KEPT // (mine.count if mine else 1)),
                spool=folder,
                ready=None if out is None else out / PARTIAL_TURNS,
            )
        if mine is None:
            check_usable(name_of(files), part)
        elif folder is not None:
            save_part(part, mine, folder)
        _deliver(part, out, report, format, run.seed, summary)
    if mine is not None:
        show.note(f"shard {mine} is in {out}/; 'turnwise merge' puts all {mine.count} together")


def _score_on_cluster(
    files: Sequence[str],
    metrics: str,
    options: RunOptions,
    out: Path,
    report: Path | None,
    format: Format,
    summary: Path | None,
) -> None:
    from turnwise.analyses.cluster import score_on_cluster
    from turnwise.analyses.part import check_usable
    from turnwise.analyses.targets import check_targets
    from turnwise.cli import show
    from turnwise.engine.state import STATE
    from turnwise.io.remote import as_url, is_url, store
    from turnwise.report.charts import FILES

    away = is_url(out)
    check_targets([*files, options.get("config")], folder=None if away else out, report=report, files=[summary])
    with deferred(), _claimed(None if away else out), TemporaryDirectory() as name:
        work = Path(name)
        with show.progress("scoring partitions", options):
            part = score_on_cluster(files, metrics, out, work=work / "parts", most=MOST_KEPT, **options)
        check_usable(", ".join(files), part)
        place = work / "result" if away else out
        _deliver(part, place, report, format, options["seed"], summary)
        if away:
            store(place, as_url(out), STATE, replaced=[f"charts/{file}" for file in FILES])
            show.note(f"results are at {as_url(out)}")


def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="The --out folders of all shards.", show_default=False)
    ],
    out: Out = None,
    report: Report = None,
    format: Printed = Format.table,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of every resampling.")] = 0,
) -> None:
    """Merge shards. The result is exactly that of one run."""
    from turnwise.analyses.part import check_usable
    from turnwise.analyses.shards import merged, part_folder
    from turnwise.analyses.targets import check_targets
    from turnwise.cli import show

    check_targets(folder=out, report=report)
    with deferred(), _claimed(out):
        with show.working("merging"):
            part = merged([part_folder(folder) for folder in folders], most=MOST_KEPT)
            check_usable(", ".join(map(str, folders)), part)
        _deliver(part, out, report, format, seed)


def verify(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="Output folders, shards, caches or packs.", show_default=False)
    ],
) -> None:
    """Check that results, shards, caches and packs are whole."""
    from turnwise.analyses.verify import kinds_in
    from turnwise.analyses.verify import verify as run
    from turnwise.cli import show

    failed = False
    for folder in folders:
        kinds, problems = " and ".join(kinds_in(folder)), run(folder)
        more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
        show.text(f"{problems[0]}{more}\n" if problems else f"{folder}: whole and unchanged ({kinds})\n")
        failed = failed or bool(problems)
    if failed:
        raise typer.Exit(2)


def _deliver(
    part: Part, out: Path | None, report: Path | None, format: Format, seed: int, summary: Path | None = None
) -> None:
    from turnwise.cli import show

    result = part.result(seed=seed)
    show.remarks(result)
    if out is not None:
        with show.working("saving the results"):
            result.save_claimed(out)
        show.note(f"results are in {out}/")
    if report is not None:
        write_report(result, report)
    if summary is not None:
        write_summary(result.verdict, result.comparison, summary)
    show.scores(result, format)
    if result.interrupted:
        show.note(f"interrupted after {counted(result.rows, 'row')}; this result is of those alone; {again()}")
        raise EndedEarlyError


def write_summary(verdict: Verdict, comparison: Comparison | None, file: Path) -> None:
    """Write the verdict as Markdown, and say where it is."""
    from turnwise.analyses.verdict import markdown
    from turnwise.cli import show
    from turnwise.files import write_text

    write_text(file, markdown(verdict, comparison))
    show.note(f"summary: {file}")


def write_report(result: Result, report: Path) -> None:
    """Write the report, and say where it is."""
    from turnwise.cli import show

    with show.working("making the report"):
        result.report(report)
    show.note(f"report: {report}")


@contextmanager
def _claimed(out: Path | None) -> Iterator[None]:
    """Keep other runs out of the output folder, if there is one; a run that fails leaves it as it was."""
    from turnwise.analyses.targets import PARTIAL_TURNS

    if out is None:
        yield
        return
    with claim(out):
        try:
            yield
        except Exception:
            (out / PARTIAL_TURNS).unlink(missing_ok=True)
            raise


@contextmanager
def _folder_of_turns(out: Path | None, kept: str | None, *, wanted: bool) -> Iterator[Path | None]:
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
        # A name that the next run clears if this one is killed.
        with TemporaryDirectory(prefix=f".turns.{os.getpid()}-", suffix=".partial", dir=out) as folder_name:
            yield Path(folder_name)
    else:
        yield None


@with_run_options()
def compare(
    files: Files,
    metrics: Metrics = "default",
    baseline: Annotated[
        str | None,
        typer.Option(metavar="SYSTEM", help="Compare every other system with this one instead of every pair."),
    ] = None,
    fail_if_worse: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC@MARGIN",
            help="Exit with 1 if a system is surely worse than the baseline by more than the margin. Repeatable.",
        ),
    ] = None,
    fail_unless_as_good: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC@MARGIN",
            help="Exit with 1 unless every system is shown to be worse by less than the margin, if at all. Repeatable.",
        ),
    ] = None,
    fail_if_worst: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC@SHARE",
            help="Exit with 1 if more than this share of replies is clearly worse, beyond chance. Repeatable.",
        ),
    ] = None,
    fail_if_failures: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Exit with 1 if a system gave no reply more often than this."),
    ] = None,
    missing: Annotated[
        Missing, typer.Option(help="Whether a blank or missing reply counts as the worst one or is skipped.")
    ] = Missing.worst,
    format: Printed = Format.table,
    summary: Summary = None,
    *,
    options: RunOptions,
) -> None:
    """Compare systems, with confidence intervals. Can fail CI."""
    from turnwise.analyses.compare import compare as run
    from turnwise.analyses.targets import check_targets
    from turnwise.cli import show

    check_targets([*files, options.get("config")], files=[summary])
    with show.progress("comparing", options):
        result = run(
            *files,
            metrics=metrics,
            baseline=baseline,
            fail_if_worse=fail_if_worse or (),
            fail_unless_as_good=fail_unless_as_good or (),
            fail_if_worst=fail_if_worst or (),
            fail_if_failures=fail_if_failures,
            missing=missing.value,
            **options,
        )
    failures, unchecked = list[str](), None
    try:
        failures = result.failures()
    except TurnwiseError as problem:
        # Said last, after all that shows what to mend.
        unchecked = problem
    try:
        show.remarks(result)
        show.comparison(result, format)
        if summary is not None:
            write_summary(result.verdict, result, summary)
        for line in failures:
            show.note(f"gate failed: {line}")
    except OSError:
        # Whether or not anybody reads it, a gate that failed has failed.
        if not failures:
            raise
    if unchecked is not None:
        raise unchecked
    if failures:
        raise typer.Exit(1)
