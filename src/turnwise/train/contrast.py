"""A causal language model that also learns what was not said: true responses are to be likelier than wrong ones.

Likelihood alone teaches what people say. How far a response fits its context is a small part of that, so a lower
perplexity need not make a better judge of it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from turnwise.text.facts import TfIdf
from turnwise.text.inputs import restyled
from turnwise.train import validation
from turnwise.train.causal import TURN_SEPARATORS, Continuation
from turnwise.train.config import Config
from turnwise.train.dialogues import Dialogue
from turnwise.train.encode import IGNORED
from turnwise.train.loop import Batch
from turnwise.train.negatives import corrupted
from turnwise.train.tasks import Labelled, NextUtterance

# Of the responses that are compared, how many stand alone, against what is left of them after their words were
# reordered, dropped or repeated.
ALONE = 0.25


def responses_of(dialogues: Sequence[Dialogue], config: Config) -> NextUtterance:
    """True and wrong responses, without facts: a language model is not told any."""
    tfidf = TfIdf(turn.text for dialogue in dialogues for turn in dialogue.turns)
    return NextUtterance(dialogues, dataclasses.replace(config, fact_share=0.0), tfidf)


class Contrast:
    """Beside each batch of dialogue, true and wrong responses that are told apart by their likelihood."""

    def __init__(self, fluent: Continuation, dialogues: Sequence[Dialogue], config: Config) -> None:
        self._fluent, self._task, self._config = fluent, responses_of(dialogues, config), config

    def batch(self, index: int) -> list[Batch]:
        rng = self._config.drawing(index, "contrast:")
        pairs = [self._pair(rng) for _ in range(self._config.batch)]
        true, wrong = zip(*pairs, strict=True)
        compared = self._fluent.responses([*true, *wrong], [rng.choice(TURN_SEPARATORS) for _ in pairs] * 2)
        return [*self._fluent.batch(index), compared | {"rows": len(pairs), "compared": True}]

    def _pair(self, rng: Random) -> tuple[Labelled, Labelled]:
        dialogue, turn = self._task.places.draw(rng)
        truth = dialogue.turns[turn].text
        broken = corrupted(truth, rng) if rng.random() < ALONE else None
        if broken is not None:
            truth, broken = restyled([truth, broken], rng, self._config.restyle)
            return Labelled(None, truth, 1), Labelled(None, broken, 0)
        wrong, _ = self._task.negatives.draw(dialogue, turn, self._config.mix, rng)
        style = rng.random()  # the same turns in the same style for both
        both = [
            self._task.example(dialogue, turn, text, label, "", Random(style))
            for label, text in ((1, truth), (0, wrong))
        ]
        return both[0], both[1]

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if "compared" not in batch:
            return self._fluent.loss(model, batch)
        totals, tokens = log_probs(model, batch)
        true, wrong = (totals / tokens).chunk(2)
        return self._config.contrast * preference(true, wrong, self._config.sharpness)


def preference(true: Tensor, wrong: Tensor, sharpness: float) -> Tensor:
    """How far true responses are from being likelier than wrong ones: than the one beside them, and than any."""
    beside = nn.functional.softplus(-sharpness * (true - wrong)).mean()
    across = nn.functional.softplus(-sharpness * (true[:, None] - wrong[None, :])).mean()
    return (beside + across) / 2


def log_probs(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """The log-probability of each row's targets together, and how many they are."""
    logits = model(input_ids=batch["input_ids"], use_cache=False).logits[:, :-1]
    targets = batch["targets"][:, 1:]
    real = targets != IGNORED
    each = torch.zeros(targets.shape, device=logits.device)
    each[real] = -nn.functional.cross_entropy(logits[real].float(), targets[real], reduction="none")
    return each.sum(dim=1), real.sum(dim=1).clamp(min=1)


@torch.no_grad()
def told_apart(model: nn.Module, fluent: Continuation, held: Sequence[Dialogue], config: Config) -> dict[str, Any]:
    """How often held-out true responses are likelier than wrong ones, by their sum and by their mean."""
    model.eval()
    device = next(model.parameters()).device
    task, count = responses_of(held, config), max(1, config.validate // 2)

    @functools.cache  # both forms are asked about the same rows
    def found(rows: tuple[Labelled, ...], size: int = 64) -> tuple[Tensor, Tensor]:
        parts = []
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            batch = {name: value.to(device) for name, value in fluent.responses(part, [" "] * len(part)).items()}
            parts.append(torch.stack(log_probs(model, batch)).cpu())
        totals, tokens = torch.cat(parts, dim=1)
        return totals, tokens

    def score(rows: Sequence[Labelled], power: int) -> npt.NDArray[np.floating]:
        totals, tokens = found(tuple(rows))
        return np.stack([np.zeros(len(rows)), (totals / tokens**power).numpy()], axis=1)

    return {
        name: validation.ranking(task, functools.partial(score, power=power), count, config.seed)
        for name, power in (("sum", 0), ("mean", 1))
    }
