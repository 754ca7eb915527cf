"""Small networks for a pack: their weights as whole numbers with a scale for each row, and their manifest entry."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from turnwise.errors import TurnwiseError
from turnwise.models.export.storage import quantise
from turnwise.models.heads_numpy import SCALES

FINENESS = 16


def pack_weights(weights: Mapping[str, npt.NDArray[Any]], fineness: float | None = FINENESS) -> bytes:
    """A safetensors file of a network's weights; matrices are rounded unless `fineness` is None, biases never."""
    from safetensors.numpy import save

    stored: dict[str, npt.NDArray[Any]] = {}
    for name, values in weights.items():
        exact = np.ascontiguousarray(values, dtype=np.float32)
        # A single row has nothing to share its scale with: it is small, and it decides the score.
        if fineness is None or exact.ndim < 2 or len(exact) == 1:
            stored[name] = exact
        else:
            stored[name], stored[name + SCALES] = quantise(exact, fineness)
    return save(stored)


def write_head(
    folder: Path,
    role: str,
    weights: Mapping[str, npt.NDArray[Any]],
    card: Mapping[str, Any],
    fineness: float | None = FINENESS,
) -> dict[str, Any]:
    """Write the file of a role into a folder; returns the role's entry for the manifest (`PackBuilder.roles`)."""
    file = f"{role}.safetensors"
    (folder / file).write_bytes(pack_weights(weights, fineness))
    return {"kind": "weights", "file": file, "card": dict(card)}


def head_roles(folder: Path) -> tuple[str, ...]:
    """The roles of a folder of small networks: those with both ROLE.safetensors and a card, ROLE.json."""
    cards = (path.stem for path in sorted(folder.glob("*.json")) if path.with_suffix(".safetensors").is_file())
    return tuple(role for role in cards if _card(folder, role).get("objective") == role)


def copy_heads(folder: Path, roles: Sequence[str], out: Path) -> dict[str, dict[str, Any]]:
    """Put small networks into a pack's folder as they are; returns their entries for the manifest."""
    entries = {}
    for role in roles:
        file = f"{role}.safetensors"
        (out / file).write_bytes((folder / file).read_bytes())
        entries[role] = {"kind": "weights", "file": file, "card": _card(folder, role)}
    return entries


def check_foundations(out: Path, roles: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a network that was trained over other word vectors than a pack's: it would judge at random."""
    for role, entry in roles.items():
        over = entry.get("card", {}).get("over")
        wanted = over.get("sha256") if isinstance(over, Mapping) and over.get("role") == "vectors" else None
        if wanted is None:
            continue
        file = out / str(roles.get("vectors", {}).get("file", "vectors.safetensors"))
        found = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "none"
        if found != wanted:
            raise TurnwiseError(f"'{role}' was trained over other word vectors than this pack's; train it again")


def _card(folder: Path, role: str) -> dict[str, Any]:
    try:
        card = json.loads((folder / f"{role}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise TurnwiseError(f"{folder / role}.json: cannot be read as JSON ({problem})") from None
    return card if isinstance(card, dict) else {}
