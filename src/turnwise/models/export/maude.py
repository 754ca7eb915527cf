"""MAUDE's head as a checkpoint and in a pack: small weights, read by numpy.

A checkpoint is a folder with `maude.safetensors` and `card.json`, and with a trunk of its own if that learnt too. The
centring and scaling of the encoder's vectors are folded into the down-projection. In a pack, matrices are whole
numbers with a scale for each row.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turnwise.errors import TurnwiseError
from turnwise.models.export.heads import pack_weights
from turnwise.models.heads_numpy import unpack_weights
from turnwise.models.maude import LABELS
from turnwise.models.maude_head import header, read_head
from turnwise.models.protocols import Floats
from turnwise.models.utterances import Reading

if TYPE_CHECKING:
    from turnwise.train.maude import Maude

WEIGHTS, CARD = "maude.safetensors", "card.json"
FINENESS = 24
# What a head reads that learnt together with its encoder.
OWN = "own"


def save_head(model: Maude, reading: Reading, card: Mapping[str, Any], folder: Path, own: Path | None = None) -> None:
    """Write a trained head as a checkpoint; `own` is the folder of an encoder that learnt with it before."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    facts = {
        "role": reading.role,
        "layers": ",".join(map(str, reading.layers)),
        "pooling": reading.pooling,
        "bidirectional": str(model.options.bidirectional).lower(),
        "difference": model.options.difference,
        "recent": ",".join(map(str, model.options.recent)),
    }
    if model.encoder is not None:
        _save_trunk(model.encoder, folder)
        facts["role"] = OWN
    if own is not None:
        for name in ("model.safetensors", "config.json", "tokenizer.json"):
            shutil.copyfile(own / name, folder / name)
        facts["role"] = OWN
    save_file(folded(model), folder / WEIGHTS, metadata=facts)
    (folder / CARD).write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def folded(model: Maude) -> dict[str, Floats]:
    """The weights by name, with what is done to vectors first made part of the down-projection."""
    kept = {name: value for name, value in model.state_dict().items() if not name.startswith("encoder.")}
    tensors = {name: value.detach().cpu().numpy().astype(np.float32) for name, value in kept.items()}
    centre, scale = tensors.pop("centre"), tensors.pop("scale")
    down = tensors["down.weight"] / scale
    kept_too = {"centre": centre, "scale": scale} if model.options.recent else {}
    return {**tensors, **kept_too, "down.weight": down, "down.bias": -(down @ centre)}


def _save_trunk(trunk: Any, folder: Path) -> None:
    from turnwise.train.checkpoint import save_model
    from turnwise.train.network import config_of

    weights = trunk.bert.state_dict()
    save_model(folder, weights, config_of(trunk.bert, "BertModel"), trunk.folder / "tokenizer.json")


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
