"""The commands of `data`: list and fetch public corpora, and clean dialogues."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli.options import Format, Printed

data = typer.Typer(no_args_is_help=True, help="Look after training and evaluation data.")


@data.command("list")
def list_corpora(format: Printed = Format.table) -> None:
    """List the public corpora. Address, licence, size and checksum as far as they are known for certain."""
    from turnwise.cli import show
    from turnwise.data.get import UNKNOWN, public_corpora

    corpora = list(public_corpora().values())
    files = [record for corpus in corpora for record in corpus.file_records()]
    whole = {"corpora": [corpus.to_dict() for corpus in corpora]}
    if show.machine_readable(files, format, whole=whole):
        return
    for corpus in corpora:
        show.text(f"{corpus.name}: {corpus.what}\n  licence: {corpus.licence}\n  page: {corpus.page or 'none'}\n")
        for file in corpus.files:
            size = UNKNOWN if file.size is None else f"{file.size:,} bytes"
            show.text(f"  {file.url}\n    to {file.to}; size {size}; sha256 {file.sha256 or UNKNOWN}\n")


@data.command()
def get(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME", help="Corpora as 'turnwise data list' has them, or all.")
    ],
    out: Annotated[Path, typer.Option(help="The folder of data, for 'turnwise reproduce --data'.")] = Path("data"),
) -> None:
    """Fetch public corpora. Goes on after a break, and checks what has a known checksum."""
    from turnwise.cli import show
    from turnwise.data.get import find_corpus, get_corpus, public_corpora
    from turnwise.errors import TurnwiseError

    every = [corpus for corpus in public_corpora().values() if corpus.files]
    wanted = every if names == ["all"] else [find_corpus(name) for name in names]
    alone = len(wanted) == 1 and len(wanted[0].files) <= 1
    failed: list[TurnwiseError] = []
    incomplete = 0
    for corpus in wanted:
        show.note(f"{corpus.name}: licence: {corpus.licence}")
        problems: list[TurnwiseError] = []
        try:
            for got in get_corpus(corpus, out, _progress, problems.append):
                made = f", read into {got.made}" if got.made else ""
                checked = "checked" if got.checked else "no checksum is known to hold it against"
                show.text(f"{got.path}\tsha256 {got.sha256} ({checked}){made}\n")
        except TurnwiseError as problem:
            problems.append(problem)
        # Every file that has to be fetched by hand is named, not the first alone.
        for one in () if alone else problems:
            show.note(f"error: {one}")
        failed += problems
        incomplete += bool(problems)
    if failed:
        many = (
            f"{incomplete} of {len(wanted)} corpora are not whole; put what is named above in its place and ask again"
        )
        raise failed[0] if alone else TurnwiseError(many)


def _progress(name: str) -> Callable[[int, int | None], None] | None:
    """A line on stderr that is written anew; none where stderr is no terminal."""
    from turnwise.cli import show

    if not show.err.is_terminal:
        return None

    def tell(done: int, whole: int | None) -> None:
        share = f" of {whole / 1e6:.1f}" if whole else ""
        show.err.print(f"{name}: {done / 1e6:.1f}{share} MB", end="\r", soft_wrap=True)

    return tell


@data.command("decontaminate")
def decontaminate_files(
    files: Annotated[list[Path], typer.Argument(help="Files of dialogues to clean: .jsonl or .jsonl.xz.")],
    evaluation: Annotated[list[Path], typer.Option(help="Rated or test files that must not be trained on.")],
    out: Annotated[Path, typer.Option(help="Folder for the cleaned files.")],
) -> None:
    """Remove dialogues that share a whole utterance of six or more words with evaluation files, and say which."""
    from turnwise.cli import show
    from turnwise.train.dialogues import clean_files

    for file, report in clean_files(files, evaluation, out):
        show.note(f"{file.name}: {report.summary()}")
        for removal in report.removed:
            show.text(f"{removal.dialogue_id}\t{removal.utterance}\n")
