"""MAUDE's head in a pack: small weights, read by numpy; matrices are whole numbers with a scale for each row.

It comes from a checkpoint, a folder with `maude.safetensors` and `card.json`, and with a trunk of its own if that
learnt too (`turnwise.train.maude` writes them).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.errors import TurnwiseError
from turnwise.models.export.heads import pack_weights
from turnwise.models.heads_numpy import unpack_weights
from turnwise.models.maude import LABELS
from turnwise.models.maude_head import header, read_head

if TYPE_CHECKING:
    pass

WEIGHTS, CARD = "maude.safetensors", "card.json"
FINENESS = 24
# What a head reads that learnt together with its encoder.
OWN = "own"


def pack_head(folder: Path, role: str, out: Path, fineness: float | None) -> dict[str, Any]:
    """Write a checkpoint's head into a pack's folder; what the manifest says of it beside its encoder's entry."""
    from safetensors.numpy import load, save

    content = (folder / WEIGHTS).read_bytes()
    file = f"{role}.safetensors"
    # A checkpoint may hold whole numbers already: they have to be multiplied out before they are rounded again.
    exact = unpack_weights(content)
    (out / file).write_bytes(save(load(pack_weights(exact, fineness)), metadata=header(content)))
    return {"kind": "recurrent", "weights": file, "labels": list(LABELS), "card": _card(folder)}


def role_of(folder: Path) -> str:
    """The role that a checkpoint fills: `maude`, or `maude-paper` and `maude-released` for the other forms."""
    form = _card(folder).get("form", "recommended")
    return "maude" if form == "recommended" else f"maude-{form}"


def encoder_of(folder: Path) -> str:
    """The role whose states a checkpoint's head reads."""
    return read_head((folder / WEIGHTS).read_bytes(), str(folder / WEIGHTS))[1].role


def _card(folder: Path) -> dict[str, Any]:
    try:
        card: dict[str, Any] = json.loads((folder / CARD).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise TurnwiseError(f"{folder / CARD}: cannot be read as JSON ({problem})") from None
    return card


def is_head(folder: Path) -> bool:
    """Whether a folder holds a head of MAUDE."""
    return (folder / WEIGHTS).is_file()
