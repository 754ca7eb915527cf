"""Objectives and data builders that make the models. Torch is imported only when a model is trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def train_model(
    objective: str, *, data: Sequence[str | Path], base: str | Path, out: str | Path, **config: Any
) -> dict[str, Any]:
    """Train a model.

    Args:
        objective: What it learns: see `turnwise train --help`.
        data: Files or folders of dialogues.
        base: The model to start from.
        out: The folder of the checkpoint.
        config: Every other option of `turnwise.train.config.Config`.

    Returns:
        The model card.

    >>> import turnwise as tw
    >>> tw.train_model("telepathy", data=["chats.jsonl"], base="bert", out="model")
    Traceback (most recent call last):
    ...
    turnwise.errors.TurnwiseError: objective: expected mlm, nup, dr-f, vup, nli, emotion, clm, got 'telepathy'
    """
    from turnwise.train.config import Config
    from turnwise.train.whole import train

    return train(Config.make(objective, data=data, base=base, out=out, **config))
