"""The commands around models and data: `train`, `pack`, `data` and `reproduce`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from turnwise.cli.options import MODELS, Cached, Format, Printed, names_in, with_run_options
from turnwise.errors import TurnwiseError
from turnwise.options import RunOptions

pack = typer.Typer(no_args_is_help=True, help="List, verify, build, measure and describe packs of models.")

Where = Annotated[str | None, typer.Argument(help="A pack's name or folder; default: turnwise-mini.")]


def train(
    objective: Annotated[
        str,
        typer.Argument(metavar="OBJECTIVE", help="mlm, nup, dr-f, vup, nli, emotion, clm; 'vup+nli' share a trunk."),
    ],
    files: Annotated[list[Path], typer.Argument(help="Files of dialogues: .jsonl or .jsonl.xz, a dialogue a line.")],
    base: Annotated[Path, typer.Option(help="Folder of the model to start from, in the hub's layout.")],
    out: Annotated[Path, typer.Option(help="Folder for the checkpoint and its card; an earlier run is resumed.")],
    evaluation: Annotated[
        list[Path] | None, typer.Option(help="Rated or test files: dialogues that overlap with them are removed.")
    ] = None,
    pairs: Annotated[list[Path] | None, typer.Option(help="Premise, hypothesis and label a line, for nli.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after this long.")] = None,
    steps: Annotated[int | None, typer.Option(help="Stop after this many steps.")] = None,
    batch: Annotated[int | None, typer.Option(help="Examples a step.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn.")] = 0,
    options: Annotated[Path | None, typer.Option(help="JSON file with any other option of a training run.")] = None,
) -> None:
    """Train a model for a pack on your own dialogues. Needs the extra [torch]."""
    import importlib.util
    import logging

    from turnwise.cli import show

    if importlib.util.find_spec("torch") is None:
        raise TurnwiseError("training needs torch; pip install 'turnwise[torch]'")
    from turnwise.train import train_model

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    given: dict[str, Any] = {"minutes": minutes, "steps": steps, "batch": batch}
    chosen = {name: value for name, value in given.items() if value is not None}
    card = train_model(
        objective,
        data=files,
        out=out,
        base=base,
        evaluation=evaluation or (),
        pairs=pairs or (),
        seed=seed,
        **(_read_object(options) if options else {}) | chosen,
    )
    show.note(f"checkpoint and card: {out}/")
    show.document({"held_out": card.get("held_out")})


def _read_object(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise TurnwiseError(f"{file}: not a JSON file of options ({problem})") from None
    if not isinstance(found, dict):
        raise TurnwiseError(f"{file}: write the options as one JSON object")
    return found


@pack.command("list")
def list_packs(format: Printed = Format.table) -> None:
    """List the packs that came with the package."""
    from turnwise.cli import listing

    listing.pack_list(format)


@pack.command()
def verify(where: Where = None, format: Printed = Format.table) -> None:
    """Check every file, open every role and ask it something."""
    from turnwise.cli import listing
    from turnwise.models.pack import verify_pack

    listing.verified(verify_pack(where), format)


@pack.command()
def card(
    where: Where = None,
    brief: Annotated[bool, typer.Option("--brief", help="Print only the roles and the licences of corpora.")] = False,
) -> None:
    """Print the model cards of a pack, as Markdown."""
    from turnwise.cli import show
    from turnwise.models.pack import pack_card

    show.text(pack_card(where, brief=brief))


@pack.command()
def build(
    checkpoints: Annotated[
        list[Path], typer.Argument(help="Folders of trained checkpoints; where two offer a role, the first has it.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the new pack.")],
    licence: Annotated[str, typer.Option(help="The pack's licence; its training data decide it.")],
    name: Annotated[str | None, typer.Option(help="The pack's name; its folder's when left out.")] = None,
    version: Annotated[str, typer.Option("--pack-version", help="The pack's version.")] = "1",
    texts: Annotated[
        list[Path] | None, typer.Option(help="Files of dialogues to count words in, for vectors and unigrams.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="A pack's name or folder: roles that no checkpoint fills are taken from it.")
    ] = None,
) -> None:
    """Make a pack of your own from checkpoints. Needs the extra [torch]."""
    from turnwise.cli import show
    from turnwise.models.export.build_pack import build_pack
    from turnwise.models.pack import load_pack
    from turnwise.train.dialogues import read

    dialogues = read(texts or ())
    built = build_pack(
        checkpoints,
        out,
        name=name or out.name,
        licence=licence,
        version=version,
        texts=(turn.text for dialogue in dialogues for turn in dialogue.turns),
        texts_card={"data": sorted({dialogue.corpus for dialogue in dialogues})},
        keep=load_pack(keep).folder if keep else None,
    )
    show.note(f"{out}: {', '.join(built.roles)}")


@pack.command()
def measure(
    data: Annotated[Path, typer.Option(help="Folder with human/, train/, test/ and published/.")],
    where: Where = None,
    against: Annotated[
        str | None, typer.Option(help="The same pack in full precision: what compression costs.")
    ] = None,
    before: Annotated[
        Path | None, typer.Option(help="JSON file of an earlier report: models that are the same are not repeated.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Markdown file to write; a JSON file is written beside it.")
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="Write the figures on the pack's cards.")] = False,
    cache: Cached = None,
) -> None:
    """Measure a pack's models against human ratings, beside published figures."""
    import logging

    from turnwise.cli import show
    from turnwise.engine.cache import open_cache
    from turnwise.files import write_json, write_text
    from turnwise.models.pack import load_pack
    from turnwise.train.measure import markdown, measure_pack

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    found = measure_pack(
        load_pack(where),
        data,
        against=load_pack(against) if against else None,
        before=_read_object(before) if before else None,
        record=record,
        cache=open_cache(cache),
    )
    show.text(markdown(found))
    if save is not None:
        write_text(save, markdown(found))
        write_json(save.with_suffix(".json"), found, indent=1)


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
    from turnwise.cli import show
    from turnwise.reproduce.pages import document, reproduce_paper
    from turnwise.reproduce.pages import publish as copy_pages

    found = reproduce_paper(
        paper, _data_folder(data), out, tables=names_in(tables) or (), limit=limit, tell=show.note, **options
    )
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
