"""What there is, as tables: metrics, models, packs, file formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from turnwise.cli import show
from turnwise.cli.options import Format

if TYPE_CHECKING:
    from turnwise.models.pack import Checked


# In a narrower window than this, five columns cannot be read.
WIDE = 110


def metric_list(form: Format, models: str | None = None) -> None:
    """Every registered metric with what it is and needs; with models, also whether they can answer it."""
    from turnwise.engine.session import Session
    from turnwise.metrics.registry import list_metrics

    rows = list_metrics(None if models is None else Session(models).roles)
    if show.machine_readable(rows, form, whole={"metrics": rows}):
        return
    # Who asks what some models can do looks for that alone.
    wide = show.out.width >= WIDE
    last = (f"with {Path(models).name}",) if models is not None else ("modes", "options") if wide else ()
    table = show.table_of("Metrics", ("name", "what", "needs", *last))
    table.columns[0].no_wrap = True
    for row in rows:
        needs = row["needs"].removeprefix("response").removeprefix(", ")
        needs = "; ".join(filter(None, (needs, row["models"] and f"models {row['models']}")))
        modes = ", ".join(mode for mode in row["modes"].split(", ") if mode != "recommended")
        answered = f"lacks {row['lacks']}" if row.get("lacks") else "yes"
        answered = f"as {row['instead']}" if row.get("instead") else answered
        told = (answered,) if models is not None else (modes, row["options"]) if wide else ()
        table.add_row(*map(Text, (row["name"], row["summary"], needs, *told)))
    show.out.print(table)
    if models is not None:
        able = sum(not row["lacks"] or bool(row["instead"]) for row in rows)
        show.note(f"{able} of {len(rows)} metrics can be computed with {models}")
    show.note(
        "asked for as NAME, NAME:mode or NAME[option=value]; groups: default, classic, usr+, usl-h+, all; "
        f"{'--format json has' if wide else 'a wider window and --format json have'} more"
    )


def model_list(form: Format, models: str | None = None) -> None:
    """Every role of the models that were asked about, or of the bundled packs and the papers' own models."""
    from turnwise.models.pack import Pack, installed_packs, load_models
    from turnwise.models.sources import PAPER, PaperModels

    sources = [Pack(folder) for folder in installed_packs().values()] if models is None else [load_models(models)]
    rows = []
    for source in sources:
        if isinstance(source, Pack):
            roles = source.manifest.roles.items()
            rows += [
                {"models": source.manifest.name, "role": role, "kind": e.kind, "what": e.file} for role, e in roles
            ]
        elif not isinstance(source, PaperModels):
            name = Path(str(models)).name
            rows += [{"models": name, "role": role, "kind": "", "what": source.label([role])} for role in source.roles]
    if models in (None, "paper"):
        rows += [
            {"models": "paper", "role": role, "kind": source.kind, "what": source.name}
            for role, source in PAPER.items()
            if source.trained
        ]
    if show.machine_readable(rows, form, whole={"models": rows}):
        return
    table = show.table_of("Models", rows[0])
    for row in rows:
        table.add_row(*map(Text, row.values()))
    show.out.print(table)


def pack_list(form: Format) -> None:
    """The bundled packs."""
    from turnwise.models.pack import Pack, installed_packs

    rows = []
    for name, folder in installed_packs().items():
        of = Pack(folder).manifest
        told = {"name": name, "version": of.version, "roles": ", ".join(of.roles), "licence": of.licence}
        rows.append((told, sum(entry.size for entry in of.files.values())))
    whole = [told | {"size": size} for told, size in rows]
    if show.machine_readable(whole, form, whole={"packs": whole}):
        return
    table = show.table_of("Packs", ("name", "version", "roles", "licence"), ("MB",))
    for told, size in rows:
        table.add_row(*map(Text, told.values()), f"{size / 1e6:.1f}")
    show.out.print(table)


def verified(checked: Sequence[Checked], form: Format) -> None:
    """Roles that were opened and answered."""
    rows = [asdict(role) for role in checked]
    if show.machine_readable(rows, form, whole={"roles": rows}):
        return
    table = show.table_of(
        "Every file is what it should be, every role answers", ("role", "kind", "file"), ("MB", "opened in")
    )
    for role in checked:
        table.add_row(*map(Text, (role.role, role.kind, role.file)), f"{role.size / 1e6:.1f}", f"{role.seconds:.2f} s")
    show.out.print(table)


def format_list(form: Format) -> None:
    """Every file format that can be read."""
    from turnwise.io.base import format_table

    rows = format_table()
    if show.machine_readable(rows, form, whole={"formats": rows}):
        return
    shown = [name for name in rows[0] if name != "cite"]
    table = show.table_of("Formats", shown)
    for row in rows:
        table.add_row(*(Text(row[name]) for name in shown))
    show.out.print(table)
