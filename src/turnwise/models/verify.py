"""Looking a pack over: is every file what it should be, does every role answer, and what is written on its card."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.errors import TurnwiseError
from turnwise.models.kinds import KINDS
from turnwise.models.manifest import Manifest, RoleEntry
from turnwise.models.pack import Pack, load_pack
from turnwise.models.requests import Lookup, Request, TokenScores


@dataclass(frozen=True)
class Checked:
    """A role that was opened and answered: what it is, how much is read for it, how long opening took."""

    role: str
    kind: str
    file: str
    size: int
    seconds: float


def verify_pack(where: str | Path | None = None) -> list[Checked]:
    """Check every file's hash, then open every role and ask it something. The first fault is raised."""
    pack = load_pack(where)
    for name in pack.manifest.files:
        pack.read(name)
    checked = []
    for role, of in pack.manifest.roles.items():
        started = time.perf_counter()
        _ask(pack, role, of)
        size = sum(pack.manifest.files[name].size for name in of.files)
        checked.append(Checked(role, of.kind, of.file, size, time.perf_counter() - started))
    return checked


def _ask(pack: Pack, role: str, entry: RoleEntry) -> None:
    kind = KINDS.get(entry.kind)
    pack.model(role)
    if kind.probe is None:
        return
    request = kind.probe(role)
    try:
        answer = _answer(pack, request)
        _, numbers = kind.encode_answer(answer)
    except TurnwiseError:
        raise
    except Exception as problem:
        raise TurnwiseError(f"pack '{pack.name}', role '{role}': does not answer ({problem})") from None
    if not _is_sound(request, answer, numbers, entry):
        raise TurnwiseError(f"pack '{pack.name}', role '{role}': answers with numbers that make no sense")


def _answer(pack: Pack, request: Request) -> Any:
    model = pack.model(request.role)
    rows = model.rows(request)
    results = model.run(rows) if rows else [_answer(pack, one) for one in model.asks(request)]
    return model.answer(request, rows, results)


def _is_sound(request: Request, answer: Any, numbers: NDArray[Any], entry: RoleEntry) -> bool:
    finite = np.isfinite(numbers)
    if entry.labels:
        return tuple(answer) == entry.labels and math.isclose(numbers.sum(), 1.0, abs_tol=1e-6)
    if isinstance(answer, TokenScores) and not all(p <= 1e-5 for p in answer.log_probs):
        return False
    # A table may have none of the words that it is asked for.
    return bool(numbers.size) and (isinstance(request, Lookup) or bool(finite.all()))


def pack_card(where: str | Path | None = None, *, brief: bool = False) -> str:
    """Return the pack's model cards as Markdown; the brief form is one table of roles and one of training corpora."""
    manifest = load_pack(where).manifest
    total = sum(entry.size for entry in manifest.files.values())
    lines = [
        f"# {manifest.name} {manifest.version}",
        "",
        f"Licence of the pack (the code has its own): {manifest.licence}",
        f"Languages: {', '.join(manifest.languages) or 'not stated'}. "
        f"Size: {total / 1e6:.1f} MB in {len(manifest.files)} files.",
    ]
    if brief:
        return "\n".join(lines + _tables(manifest)) + "\n"
    for role, entry in manifest.roles.items():
        facts: dict[str, Any] = {"kind": entry.kind, "file": entry.file, "sha256": manifest.files[entry.file].sha256}
        if entry.labels:
            facts["labels"] = ", ".join(entry.labels)
        lines += ["", f"## {role}", ""]
        lines += [f"- {key}: {value}" for key, value in facts.items()]
        lines += [f"- {key}: {_shown(value)}" for key, value in entry.card.items()]
    return "\n".join(lines) + "\n"


def _tables(manifest: Manifest) -> list[str]:
    """Return the lines of the tables of roles and of training corpora."""
    roles, licences = [], dict[str, str]()
    for role, entry in manifest.roles.items():
        roles.append(f"| `{role}` | {entry.kind} | {entry.file} | {entry.card.get('origin') or 'trained'} |")
        # A table of words lists the names of its corpora alone.
        listed = [{"corpus": one} if isinstance(one, str) else one for one in entry.card.get("data", ())]
        licences = {one["corpus"]: "" for one in listed} | licences
        licences |= {one["corpus"]: one["licence"] for one in listed if "licence" in one}
    corpora = [f"| {corpus} | {licence or 'not stated'} |" for corpus, licence in sorted(licences.items())]
    head = ["", "| role | kind | file | origin |", "| --- | --- | --- | --- |"]
    return [*head, *roles, "", "| training corpus | licence |", "| --- | --- |", *corpora]


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key} {_shown(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
