"""MAUDE (Sinha et al. 2020) is trained: its loss, and what is found on dialogues that were held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from turnwise.errors import TurnwiseError
from turnwise.models.requests import Floats
from turnwise.train.heads import Fitted, Recipe, fit, seeded
from turnwise.train.maude_data import Kind, Sampled
from turnwise.train.maude_draws import Batch, Drawn
from turnwise.train.maude_network import Maude
from turnwise.train.maude_options import MODES, SETS, Loss, Options
from turnwise.train.maude_trunk import Trunk

__all__ = ["MODES", "SETS", "Maude", "Options", "batch_loss", "held_out", "nce", "train"]


def nce(logits: Tensor, counts: Tensor, form: Loss = "mean") -> Tensor:
    """The loss of each example: column 0 is the true response, `counts` is how much each of the others does.

    `mean` is the released form, the mean over positive and negatives; `paper` adds the mean of the negatives to the
    positive's loss, as the text has it.

    >>> half = torch.zeros(1, 7)
    >>> round(float(nce(half, torch.ones(1, 7))), 6)
    0.693147
    """
    wrong = nn.functional.softplus(logits[:, 1:]) * counts[:, 1:]
    right = nn.functional.softplus(-logits[:, 0])
    total = counts[:, 1:].sum(dim=1)
    if form == "paper":
        return right + wrong.sum(dim=1) / total.clamp(min=1e-9)
    return (right * counts[:, 0] + wrong.sum(dim=1)) / (counts[:, 0] + total)


def batch_loss(model: Maude, batch: Batch) -> Tensor:
    """The mean loss of a batch."""
    logits, present = model(batch)
    options, others = model.options, model.options.others if model.training else 0
    # A corrupted context is scored after all corrupted responses, and responses of the same batch after that.
    in_order = sorted(options.negatives, key=lambda kind: kind == "corrupt_context")
    by_kind = {kind: options.weights.get(kind, 1.0) for kind in in_order}
    if others:
        by_kind["rand_utt"] /= 1 + others
    weights = torch.tensor([1.0, *by_kind.values()], device=logits.device)
    last = len(weights)
    counts = present[:, :last] * weights
    if others:
        # The likelier one that is wrong seems, the more of their common weight it gets.
        drawn = slice(last, last + others)
        likely = (options.sharpness * logits[:, drawn].detach()).masked_fill(~present[:, drawn], float("-inf"))
        shares = likely.softmax(dim=1).nan_to_num() * others * by_kind["rand_utt"]
        counts = torch.cat([counts, shares], dim=1)
    loss = nce(logits[:, : counts.shape[1]], counts, options.loss).mean()
    if not others or not options.contrast:
        return loss
    elsewhere = logits[:, last:].masked_fill(~present[:, last:], float("-inf"))
    picked = torch.cat([logits[:, :1], elsewhere], dim=1)
    return loss + options.contrast * (picked.logsumexp(dim=1) - picked[:, 0]).mean()


def train(
    training: Sequence[Sampled],
    validation: Sequence[Sampled],
    options: Options,
    recipe: Recipe,
    *,
    vectors: Floats | None = None,
    index: Mapping[str, int] | None = None,
    encoder: Trunk | None = None,
    parts: int = 1,
    unlike: Mapping[str, Sequence[Sampled]] | None = None,
    start: Mapping[str, Floats] | None = None,
) -> tuple[Maude, Fitted]:
    """A trained network, over vectors that are given, or with an encoder that learns with it.

    A batch of the recipe is that many dialogues, with all their turns. `parts` is how many layers' vectors lie side by
    side in each of those that are given. `unlike` are other dialogues, by corpus, that are only asked about at the end.
    With `start`, the weights of a head that was saved, it goes on from there.
    """
    if options.frozen:
        if vectors is None:
            raise TurnwiseError("a frozen encoder learns nothing: give the vectors of all texts")
        width = vectors.shape[1]
        model = seeded(recipe.seed, lambda: Maude(width, options, parts=parts))
        model.settle(vectors)
    else:
        if encoder is None:
            raise TurnwiseError("frozen=false: give an encoder to train")
        vectors, inside = None, encoder
        model = seeded(recipe.seed, lambda: Maude(inside.width, options, inside, inside.parts))
        encoder.halves = True
        encoder.prepare(text for one in (*training, *validation) for text in one.texts())
    if start is not None:
        model.resume(start)
    if options.learning:
        for name, weight in model.named_parameters():
            weight.requires_grad_(name.split(".")[0] in options.learning)
    table = None if vectors is None else torch.from_numpy(vectors).to(recipe.device)
    drawn: dict[str, Any] = {"fresh": options.fresh, "seed": recipe.seed, "device": recipe.device}
    fitted = fit(
        model,
        batch_loss,
        Drawn(training, table, index, negatives=options.negatives, reworded=options.reworded, **drawn),
        # Validation asks what the tables ask: as it was said.
        Drawn(validation, table, index, negatives=options.negatives, reworded=0.0, **drawn),
        recipe,
    )
    found: dict[str, Any] = held_out(model, validation, table, index, recipe)
    for corpus, dialogues in (unlike or {}).items():
        found[corpus] = held_out(model, dialogues, table, index, recipe)
    return model.to("cpu"), replace(fitted, found=found)


@torch.no_grad()
def held_out(
    model: Maude, dialogues: Sequence[Sampled], table: Tensor | None, index: Mapping[str, int] | None, recipe: Recipe
) -> dict[str, dict[str, float]]:
    """For each kind of response how far its mean score lies below the true ones', and how often it does."""
    found: dict[str, dict[str, float]] = {}
    asked: list[tuple[tuple[Kind, ...], float]] = [(SETS["all"], 0.0)]
    if any(one.reworded for one in dialogues):
        asked.append((("rand_utt",), 1.0))
    for negatives, reworded in asked:
        rng = np.random.default_rng(11)
        total, wins, count = torch.zeros(3, 1 + len(negatives), dtype=torch.float64, device=recipe.device)
        examples = Drawn(dialogues, table, index, negatives=negatives, reworded=reworded, device=recipe.device)
        for start in range(0, len(examples), recipe.batch):
            logits, present = model(examples.batch(np.arange(start, min(start + recipe.batch, len(examples))), rng))
            there, chance = present.double(), logits.sigmoid().double()
            total += (chance * there).sum(dim=0)
            wins += ((chance[:, :1] > chance) * there).sum(dim=0)
            count += there.sum(dim=0)
        means, shares = (np.asarray((x / count.clamp(min=1)).cpu()) for x in (total, wins))
        if reworded:
            found["paraphrase"] = {"delta": round(found["true"]["mean"] - float(means[0]), 4)}
            break
        found["true"] = {"mean": round(float(means[0]), 4)}
        for kind, mean, share, some in zip(negatives, means[1:], shares[1:], count[1:].tolist(), strict=True):
            if some:
                found[kind] = {"delta": round(float(means[0] - mean), 4), "wins": round(float(share), 4)}
    return found
