"""MAUDE (Sinha et al. 2020) as it is trained: its network over vectors of utterances, its loss and its options."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from turnwise.errors import TurnwiseError
from turnwise.models.maude import Difference
from turnwise.models.protocols import Floats
from turnwise.train.heads import Fitted, Recipe, fit, seeded
from turnwise.train.maude_data import KINDS, SEMANTICS, SYNTAX, Kind, Sampled
from turnwise.train.maude_draws import Batch, Drawn
from turnwise.train.maude_trunk import Trunk

Loss = Literal["mean", "paper"]
Down = Literal["learned", "pca"]
# "all" in the papers' tables; corrupted contexts are not among them.
SETS: Mapping[str, tuple[Kind, ...]] = {"all": SYNTAX + SEMANTICS, "semantics": SEMANTICS, "syntax": SYNTAX}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Everything that can be chosen. The defaults are those of the recommended form; `MODES` has the other two.

    `weights` says how much a kind of negative counts beside the others, 1 where nothing is said. `reworded` is how
    often a positive is replaced by its paraphrase. `standardise` centres and scales the encoder's vectors.
    """

    negatives: tuple[Kind, ...] = SETS["all"]
    weights: Mapping[Kind, float] = field(default_factory=dict)
    loss: Loss = "mean"
    bidirectional: bool = False
    difference: Difference = "absolute"
    down: Down = "learned"
    down_size: int = 300
    hidden: int = 300
    layers: int = 2
    dense: int = 200
    dropout: float = 0.2
    input_dropout: float = 0.0
    standardise: bool = True
    frozen: bool = True
    reworded: float = 0.5
    fresh: bool = True

    def __post_init__(self) -> None:
        unknown = [kind for kind in (*self.negatives, *self.weights) if kind not in KINDS]
        if unknown:
            raise TurnwiseError(f"unknown negative '{unknown[0]}'; choose from {', '.join(KINDS)}")
        if not self.negatives:
            raise TurnwiseError("MAUDE learns by contrast: give at least one kind of negative")
        if not self.frozen and (self.standardise or self.down == "pca"):
            raise TurnwiseError("vectors that change cannot be standardised or projected by PCA; set frozen=true")
        if min((1.0, *self.weights.values())) < 0 or not any(self.weights.get(k, 1.0) for k in self.negatives):
            raise TurnwiseError("weights of negatives are 0 or more, and one of them is above 0")

    def record(self) -> dict[str, Any]:
        """The options as JSON can hold them."""
        return dataclasses.asdict(self) | {"negatives": list(self.negatives)}


_AS_PUBLISHED: dict[str, Any] = {"standardise": False, "fresh": False}
MODES: Mapping[str, Mapping[str, Any]] = {
    "recommended": {},
    "released": {**_AS_PUBLISHED, "reworded": 0.0},
    "paper": {**_AS_PUBLISHED, "bidirectional": True, "difference": "signed", "loss": "paper", "frozen": False},
}


class Maude(nn.Module):
    """Down-projection, LSTM over the turns, their largest states, combination with the response, scorer."""

    centre: Tensor
    scale: Tensor

    def __init__(self, width: int, options: Options, encoder: nn.Module | None = None) -> None:
        super().__init__()
        # Texts to vectors, where the encoder learns too.
        self.encoder = encoder
        size, directions = options.down_size, 1 + options.bidirectional
        self.options = options
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.down = nn.Linear(width, size, bias=False)
        self.transition = nn.LSTM(
            size, options.hidden, options.layers, batch_first=True, bidirectional=options.bidirectional
        )
        self.mix = nn.Linear(options.hidden * directions, size, bias=False)
        self.dense = nn.Linear(4 * size, options.dense)
        self.out = nn.Linear(options.dense, 1)
        self.dropout, self.input_dropout = nn.Dropout(options.dropout), nn.Dropout(options.input_dropout)
        nn.init.xavier_normal_(self.down.weight)
        nn.init.xavier_uniform_(self.mix.weight)

    def settle(self, vectors: Floats) -> None:
        """Look at the vectors that will be learnt from: their centre and scale, and for PCA their main directions."""
        if self.options.standardise:
            self.centre.copy_(torch.from_numpy(vectors.mean(axis=0)))
            self.scale.copy_(torch.from_numpy(vectors.std(axis=0).clip(min=1e-3)))
        if self.options.down == "pca":
            scaled = (vectors - vectors.mean(axis=0)) / self.scale.numpy()
            _, main = np.linalg.eigh((scaled.T @ scaled).astype(np.float64))
            chosen = main[:, ::-1][:, : self.options.down_size].T
            with torch.no_grad():
                self.down.weight.copy_(torch.from_numpy(np.ascontiguousarray(chosen, dtype=np.float32)))
            self.down.weight.requires_grad_(False)

    def project(self, vectors: Tensor) -> Tensor:
        """Vectors in the smaller space."""
        projected: Tensor = self.down(self.input_dropout((vectors - self.centre) / self.scale))
        return projected

    def contexts(self, turns: Tensor, row: Tensor, length: Tensor) -> Tensor:
        """The vector of the first `length` turns of each `row`; turns are projected already.

        In one direction all beginnings of a dialogue come out of one pass; in two, each has to be read by itself.
        """
        if not self.options.bidirectional:
            states, _ = self.transition(turns)
            pooled: Tensor = states.cummax(dim=1).values[row, length - 1]
            return self.mix(pooled)  # type: ignore[no-any-return]
        packed = nn.utils.rnn.pack_padded_sequence(turns[row], length.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            self.transition(packed)[0], batch_first=True, padding_value=float("-inf")
        )
        return self.mix(states.amax(dim=1))  # type: ignore[no-any-return]

    def score(self, context: Tensor, response: Tensor) -> Tensor:
        """The logit of each response (examples, responses, size) after its context (examples, size)."""
        c, r = context[:, None].expand_as(response), response
        joined = [c, r, (c - r).abs(), c * r] if self.options.difference == "absolute" else [r, c, r * c, r - c]
        hidden = torch.relu(self.dense(torch.cat(joined, dim=-1)))
        return self.out(self.dropout(hidden))[..., 0]  # type: ignore[no-any-return]

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits (examples, 1 + negatives), the true response first, and which of them count."""
        vectors = batch.vectors if self.encoder is None else self.encoder(batch.texts)
        if vectors is None:
            raise ValueError("the batch holds no vectors, and there is no encoder to make them")
        said = self.project(vectors)
        responses = said[batch.responses]
        context = self.contexts(said[batch.turns], batch.row, batch.length)
        logits, present = self.score(context, responses), batch.present
        if batch.other_turns is not None:
            other = self.contexts(said[batch.other_turns], batch.row, batch.length)
            elsewhere = self.score(other, responses[:, :1])
            logits = torch.cat([logits, elsewhere], dim=1)
            present = torch.cat([present, torch.ones_like(elsewhere, dtype=torch.bool)], dim=1)
        return logits, present


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
    options = model.options
    # A corrupted context is scored after all corrupted responses.
    in_order = sorted(options.negatives, key=lambda kind: kind == "corrupt_context")
    weights = torch.tensor([1.0, *(options.weights.get(kind, 1.0) for kind in in_order)], device=logits.device)
    return nce(logits, present * weights, options.loss).mean()


def train(
    training: Sequence[Sampled],
    validation: Sequence[Sampled],
    options: Options,
    recipe: Recipe,
    *,
    vectors: Floats | None = None,
    index: Mapping[str, int] | None = None,
    encoder: Trunk | None = None,
) -> tuple[Maude, Fitted]:
    """A trained network, over vectors that are given, or with an encoder that learns with it.

    A batch of the recipe is that many dialogues, with all their turns.
    """
    if options.frozen:
        if vectors is None:
            raise TurnwiseError("a frozen encoder learns nothing: give the vectors of all texts")
        width = vectors.shape[1]
        model = seeded(recipe.seed, lambda: Maude(width, options))
        model.settle(vectors)
    else:
        if encoder is None:
            raise TurnwiseError("frozen=false: give an encoder to train")
        vectors, inside = None, encoder
        model = seeded(recipe.seed, lambda: Maude(inside.width, options, inside))
        encoder.prepare(text for one in (*training, *validation) for text in one.texts())
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
    found = held_out(model, validation, table, index, recipe)
    return model.to("cpu"), replace(fitted, found=found)


@torch.no_grad()
def held_out(
    model: Maude, dialogues: Sequence[Sampled], table: Tensor | None, index: Mapping[str, int] | None, recipe: Recipe
) -> dict[str, dict[str, float]]:
    """For each kind of response how far its mean score lies below the true ones', and how often it does."""
    found: dict[str, dict[str, float]] = {}
    asked = [(SETS["all"], 0.0), (("rand_utt",), 1.0)]
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
        means, shares = (np.asarray((x / count).cpu()) for x in (total, wins))
        if reworded:
            found["paraphrase"] = {"delta": round(found["true"]["mean"] - float(means[0]), 4)}
            break
        found["true"] = {"mean": round(float(means[0]), 4)}
        for kind, mean, share in zip(negatives, means[1:], shares[1:], strict=True):
            found[kind] = {"delta": round(float(means[0] - mean), 4), "wins": round(float(share), 4)}
    return found
