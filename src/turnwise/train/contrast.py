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
from turnwise.text.inputs import context_text, restyled
from turnwise.train import validation
from turnwise.train.causal import TURN_SEPARATORS, Continuation
from turnwise.train.config import Config
from turnwise.train.dialogues import Dialogue
from turnwise.train.encode import IGNORED
from turnwise.train.loop import Batch
from turnwise.train.negatives import corrupted
from turnwise.train.tasks import UNKNOWN, Labelled, NextUtterance
from turnwise.train.teachers import Teachers

# What a difference of one nat counts: in the mean over a response's tokens, and in their sum.
SHARPNESS = 4.0
SHARPNESS_OF_SUMS = 0.1
# Of the responses that are compared, how many stand alone, against what is left of them after their words were
# reordered, dropped or repeated.
ALONE = 0.25


def responses_of(dialogues: Sequence[Dialogue], config: Config) -> NextUtterance:
    """True and wrong responses, without facts: a language model is not told any."""
    tfidf = TfIdf(turn.text for dialogue in dialogues for turn in dialogue.turns)
    return NextUtterance(dialogues, dataclasses.replace(config, fact_share=0.0), tfidf)


class Contrast:
    """Beside each batch of dialogue, true and wrong responses that are told apart by their likelihood.

    A judge, if there is one, says how well each response follows, also those that a model wrote, and the order of
    likelihoods is to be its order.
    """

    def __init__(
        self, fluent: Continuation, dialogues: Sequence[Dialogue], config: Config, judge: Teachers | None = None
    ) -> None:
        self._fluent, self._config, self._judge = fluent, config, judge
        self._task = responses_of(dialogues, config)

    def batch(self, index: int) -> list[Batch]:
        number = index % self._config.taught if self._judge and self._config.taught else index
        rng = self._config.drawing(number, "contrast:")
        alone = [pair for pair in (self._alone(rng) for _ in range(round(ALONE * self._config.batch))) if pair]
        following = [self._following(rng) for _ in range(self._config.batch - len(alone))]
        true, wrong = zip(*alone, *following, strict=True)
        rows = [*true, *wrong]
        compared = self._fluent.responses(rows, [rng.choice(TURN_SEPARATORS) for _ in true] * 2)
        compared |= {"rows": len(true), "alone": len(alone)}
        if self._judge:
            compared |= self._judge.reads(rows, self._task.name, f"{number}")
        return [*self._fluent.batch(index), compared]

    def _alone(self, rng: Random) -> tuple[Labelled, Labelled] | None:
        dialogue, turn = self._task.places.draw(rng)
        truth = dialogue.turns[turn].text
        broken = corrupted(truth, rng)
        if broken is None:
            return None
        truth, broken = restyled([truth, broken], rng, self._config.restyle)
        return Labelled(None, truth, 1), Labelled(None, broken, 0)

    def _following(self, rng: Random) -> tuple[Labelled, Labelled]:
        if self._judge and self._task.replies and rng.random() < self._config.reply_share:
            return self._written(rng)
        dialogue, turn = self._task.places.draw(rng)
        wrong, _ = self._task.negatives.draw(dialogue, turn, self._config.mix, rng)
        style = rng.random()  # the same turns in the same style for both
        true, other = (
            self._task.example(dialogue, turn, text, label, "", Random(style))
            for label, text in ((1, dialogue.turns[turn].text), (0, wrong))
        )
        return true, other

    def _written(self, rng: Random) -> tuple[Labelled, Labelled]:
        """What a model replied, and what it replied elsewhere; how well either follows, the judge will say."""
        reply, elsewhere = rng.choices(self._task.replies, k=2)
        *turns, here, other = restyled([*reply.context, reply.response, elsewhere.response], rng, self._config.restyle)
        context = context_text(turns)
        return Labelled(context, here, UNKNOWN), Labelled(context, other, UNKNOWN)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if "alone" not in batch:
            return self._fluent.loss(model, batch)
        sums, tokens = log_probs(model, batch)
        means, alone = sums / tokens, batch["alone"]
        if self._judge is None:
            return self._config.contrast * preference(*means.chunk(2))
        said = self._judge.answer(batch, self._task.name)
        wanted = said[:, 1] - said[:, 0]
        scores = (SHARPNESS * means, SHARPNESS_OF_SUMS * sums)
        as_judged = sum(ranked(*_pairs(some, alone), *_pairs(wanted, alone)) for some in scores) / len(scores)
        broken = preference(*(part[:alone] for part in means.chunk(2))) if alone else means.new_zeros(())
        return self._config.contrast * ((1 - ALONE) * as_judged + ALONE * broken)


def preference(true: Tensor, wrong: Tensor) -> Tensor:
    """How far true responses are from being likelier than wrong ones: than the one beside them, and than any."""
    beside = nn.functional.softplus(-SHARPNESS * (true - wrong)).mean()
    across = nn.functional.softplus(-SHARPNESS * (true[:, None] - wrong[None, :])).mean()
    return (beside + across) / 2


def _pairs(values: Tensor, alone: int) -> tuple[Tensor, Tensor]:
    """The values of the responses that follow something, first and second of each pair."""
    first, second = (part[alone:] for part in values.chunk(2))
    return first, second


def ranked(first: Tensor, second: Tensor, wanted_first: Tensor, wanted_second: Tensor) -> Tensor:
    """How far differences of scores are from the wanted differences of log-odds: in each pair, and between any two."""

    def cost(a: Tensor, b: Tensor, wanted_a: Tensor, wanted_b: Tensor) -> Tensor:
        return nn.functional.binary_cross_entropy_with_logits(a - b, (wanted_a - wanted_b).sigmoid())

    every, wanted = torch.cat([first, second]), torch.cat([wanted_first, wanted_second])
    across = cost(every[:, None], every[None, :], wanted[:, None], wanted[None, :])
    return (cost(first, second, wanted_first, wanted_second) + across) / 2


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
