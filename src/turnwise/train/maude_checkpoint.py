"""MAUDE's head as a checkpoint: centring and scaling of the encoder's vectors become part of the down-projection."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from turnwise.models.export.maude import CARD, OWN, WEIGHTS
from turnwise.models.requests import Floats
from turnwise.models.utterances import Reading
from turnwise.train.checkpoint import save_model
from turnwise.train.maude import Maude
from turnwise.train.network import config_of


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
    weights = trunk.bert.state_dict()
    save_model(folder, weights, config_of(trunk.bert, "BertModel"), trunk.folder / "tokenizer.json")
