"""The commands around models: `train` and `pack`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from turnwise.cli.options import Cached, Format, Printed
from turnwise.errors import TurnwiseError

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
    from turnwise.train import run

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    given: dict[str, Any] = {"minutes": minutes, "steps": steps, "batch": batch}
    chosen = {name: value for name, value in given.items() if value is not None}
    card = run(
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
    from turnwise.models.verify import verify_pack

    listing.verified(verify_pack(where), format)


@pack.command()
def card(
    where: Where = None,
    brief: Annotated[bool, typer.Option("--brief", help="Print only the roles and the licences of corpora.")] = False,
) -> None:
    """Print the model cards of a pack, as Markdown."""
    from turnwise.cli import show
    from turnwise.models.verify import pack_card

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
    from turnwise.models.export.build import build_pack
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
