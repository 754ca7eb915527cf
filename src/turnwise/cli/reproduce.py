"""The command `reproduce`: every table and figure of the papers, ours beside theirs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli.options import MODELS, Format, Printed, with_run_options
from turnwise.errors import TurnwiseError
from turnwise.options import Run, RunOptions

DATA = "TURNWISE_DATA"


@with_run_options("seed", *MODELS)
def reproduce(
    paper: Annotated[
        str, typer.Argument(metavar="PAPER", help="usr, usl-h, maude, holistic, fbd, leaderboard, or all.")
    ],
    data: Annotated[Path | None, typer.Option(help=f"Folder with human/, test/, published/; else ${DATA}.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the pages; what is in it from before is gone on with.")] = Path(
        "reproduced"
    ),
    tables: Annotated[str | None, typer.Option(help="Comma-separated numbers: these tables and figures only.")] = None,
    limit: Annotated[
        int | None, typer.Option(min=2, help="Contexts of each corpus; a sample for a first look.")
    ] = None,
    publish: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also copy Markdown and figures here, as docs/results has them."),
    ] = None,
    format: Printed = Format.table,
    *,
    options: RunOptions,
) -> None:
    """Compute every table and figure of a paper. Ours beside what was published."""
    from tempfile import TemporaryDirectory

    from turnwise.analyses.targets import check_targets
    from turnwise.cli import show
    from turnwise.reproduce.pages import document, write_pages
    from turnwise.reproduce.pages import publish as copy_pages
    from turnwise.reproduce.run import check_numbers, papers
    from turnwise.reproduce.run import reproduce as compute
    from turnwise.reproduce.workspace import Workspace

    run = Run.of(**options)
    backend = run.backend
    wanted = papers([paper])
    folder = _data_folder(data)
    check_targets(folder=out)
    only = [name.strip() for name in (tables or "").split(",") if name.strip()]
    check_numbers(wanted, only)
    # Corpora that are made from others belong to their authors as these do, and stay out of what people pass on.
    with TemporaryDirectory(prefix="turnwise-") as work:
        space = Workspace(folder, Path(work), backend.models, backend.device, backend.cache, run.seed, limit)
        found = compute(wanted, space, out, only=only, tell=show.note)
        write_pages(found, space, out)
    if format is Format.table:
        for one in found:
            published, filled, same = one.counts()
            show.text(f"{one.paper.name}: {published} published numbers, {filled} computed, {same} the same\n")
    else:
        show.document(document(found))
    show.note(f"the pages are in {out}/")
    if publish is not None:
        show.note(f"{publish}/: {', '.join(copy_pages(out, publish))}")


def _data_folder(given: Path | None) -> Path:
    from turnwise.reproduce.workspace import FOLDERS

    named = given if given is not None else Path(os.environ[DATA]) if os.environ.get(DATA) else None
    if named is None:
        raise TurnwiseError(
            f"where are the data? Give --data DIR or set {DATA}; 'turnwise data list' says what to fetch"
        )
    if not named.is_dir():
        raise TurnwiseError(f"{named}: no such folder; give --data DIR")
    if not any((named / one).is_dir() for one in FOLDERS):
        wanted = " or ".join(f"{one}/" for one in FOLDERS)
        raise TurnwiseError(f"{named}: no {wanted} in it; 'turnwise data list' says what to fetch")
    return named
