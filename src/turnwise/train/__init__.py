"""Objectives and data builders that make the models. Torch is imported only when a model is trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def train_model(objective: str, *, data: Sequence[str | Path], out: str | Path, **config: Any) -> dict[str, Any]:
    """Train one objective (see `turnwise.train.config.Config` for every option) and return its model card."""
    from turnwise.train.config import Config
    from turnwise.train.whole import train

    return train(Config.make(objective, data=data, out=out, **config))
