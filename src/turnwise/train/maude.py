"""Training of MAUDE (Sinha et al. 2020): network, loss, and results on held-out dialogues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from turnwise.errors import TurnwiseError
from turnwise.files import atomic, write_json
from turnwise.models.export.weights import CARD, OWN, WEIGHTS
from turnwise.models.maude import GAIN, Difference, TrunkReading
from turnwise.models.requests import Floats
from turnwise.train.checkpoint import copy_file, save_model
from turnwise.train.classifiers import config_of
from turnwise.train.loop import Fitted, Recipe, fit_epochs, seeded
from turnwise.train.maude_data import KINDS, SEMANTICS, SYNTAX, DialogueBatch, DrawnDialogues, Kind, Sampled
from turnwise.train.utterances import Trunk

Loss = Literal["mean", "paper"]
Down = Literal["learned", "pca"]
# "all" in the papers' tables; corrupted contexts are not among them.
SETS: Mapping[str, tuple[Kind, ...]] = {"all": SYNTAX + SEMANTICS, "semantics": SEMANTICS, "syntax": SYNTAX}


@dataclass(frozen=True, kw_only=True)
class MaudeOptions:
    """Everything that can be chosen. The defaults are those of the recommended form; `MODES` has the other two.

    `weights` says how much a kind of negative counts beside the others, 1 where nothing is said. `reworded` is how
    often a positive is replaced by its paraphrase. `standardise` centres and scales the encoder's vectors.

    `recent` are rates at which turns fade: the scorer is also told how alike the response is to the turns so far, once
    for each rate; 0 is the last turn alone. `in_batch` is how many true responses of other dialogues of the batch
    are random utterances too, and `contrast` how much it counts to pick the true response out of these, and out of
    `in_dialogue` responses to other turns of its own dialogue, which are on its topic. `sharpness` gives more of the
    batch's weight to those that the network takes for true: 0 to all of them alike. `learning` names the parts of the
    network that learn, such as `down`: all of them if it is empty.
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
    recent: tuple[float, ...] = ()
    in_batch: int = 0
    in_dialogue: int = 0
    contrast: float = 0.0
    sharpness: float = 0.0
    learning: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = [kind for kind in (*self.negatives, *self.weights) if kind not in KINDS]
        if unknown:
            raise TurnwiseError(f"negatives: expected {', '.join(KINDS)}, got {unknown[0]!r}")
        if not self.negatives:
            raise TurnwiseError("negatives: expected at least one kind, got none")
        if not self.frozen and (self.standardise or self.down == "pca"):
            raise TurnwiseError("frozen=false: expected neither standardise nor PCA. Fix: set frozen=true")
        if min((1.0, *self.weights.values())) < 0 or not any(self.weights.get(k, 1.0) for k in self.negatives):
            raise TurnwiseError("weights: expected numbers of 0 or more, at least one above 0")
        if any(not 0 <= rate < 1 for rate in self.recent):
            raise TurnwiseError(f"recent: turns fade at rates from 0 to below 1, got {self.recent}")
        if self.contrast and not self.others:
            raise TurnwiseError("contrast: expected in_batch above 0, and rand_utt among the negatives")

    @property
    def others(self) -> int:
        """Return the number of responses of the batch that serve as random utterances for each context."""
        return self.in_batch if "rand_utt" in self.negatives else 0


_AS_PUBLISHED: dict[str, Any] = {"standardise": False, "fresh": False}
MODES: Mapping[str, Mapping[str, Any]] = {
    "recommended": {},
    "released": {**_AS_PUBLISHED, "reworded": 0.0},
    "paper": {**_AS_PUBLISHED, "bidirectional": True, "difference": "signed", "loss": "paper", "frozen": False},
}


class MaudeNetwork(nn.Module):
    """Down-projection, LSTM over the turns, their largest states, combination with the response, scorer."""

    centre: Tensor
    scale: Tensor

    def __init__(self, width: int, options: MaudeOptions, encoder: nn.Module | None = None, parts: int = 1) -> None:
        """Build the layers; a vector of this width holds `parts` vectors side by side, one of each encoder layer."""
        super().__init__()
        # Texts to vectors, where the encoder learns too.
        self.encoder = encoder
        size, directions = options.down_size, 1 + options.bidirectional
        self.options, self.parts = options, parts
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.down = nn.Linear(width, size, bias=False)
        self.transition = nn.LSTM(
            size, options.hidden, options.layers, batch_first=True, bidirectional=options.bidirectional
        )
        self.mix = nn.Linear(options.hidden * directions, size, bias=False)
        likenesses = parts * len(options.recent)
        self.dense = nn.Linear(4 * size + likenesses, options.dense)
        self.out = nn.Linear(options.dense, 1)
        self.dropout, self.input_dropout = nn.Dropout(options.dropout), nn.Dropout(options.input_dropout)
        nn.init.xavier_normal_(self.down.weight)
        nn.init.xavier_uniform_(self.mix.weight)
        if likenesses:
            # Likeness alone is informative on any corpus, so it has a direct weight from the start.
            self.direct = nn.Linear(likenesses, 1, bias=False)
            nn.init.constant_(self.direct.weight, 1 / (2 * likenesses))

    def settle(self, vectors: Floats) -> None:
        """Set the centre and scale of the training vectors, and for PCA their main directions."""
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

    def resume(self, weights: Mapping[str, Floats]) -> None:
        """Load the weights of a saved head, which must have these sizes and `recent`."""
        if "centre" not in weights:
            raise TurnwiseError("start: expected a head with likeness (`recent`). Fix: train it again")
        saved = {name: torch.from_numpy(np.array(value)) for name, value in weights.items() if name != "down.bias"}
        saved["down.weight"] *= saved["scale"]
        try:
            self.load_state_dict(saved, strict=self.encoder is None)
        except RuntimeError as problem:
            raise TurnwiseError(f"start: expected a head of the same form, got another form ({problem})") from None

    def project(self, vectors: Tensor) -> Tensor:
        """Return the projected vectors, followed by their directions if `recent` is set."""
        scaled = (vectors - self.centre) / self.scale
        projected: Tensor = self.down(self.input_dropout(scaled))
        if not self.options.recent:
            return projected
        return torch.cat([projected, _directions(_cut(scaled, self.parts)).flatten(-2)], dim=-1)

    def contexts(self, turns: Tensor, row: Tensor, length: Tensor) -> Tensor:
        """Return the vector of the first `length` turns of each `row`; turns are projected already."""
        size = self.options.down_size
        context = self._read(turns[..., :size], row, length)
        if not self.options.recent:
            return context
        return torch.cat([context, self._faded(turns[..., size:], row, length)], dim=-1)

    def _read(self, turns: Tensor, row: Tensor, length: Tensor) -> Tensor:
        """Return context vectors: in one pass for one direction; with two directions, one pass for each prefix."""
        if not self.options.bidirectional:
            states, _ = self.transition(turns)
            pooled: Tensor = states.cummax(dim=1).values[row, length - 1]
            return self.mix(pooled)  # type: ignore[no-any-return]
        packed = nn.utils.rnn.pack_padded_sequence(turns[row], length.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            self.transition(packed)[0], batch_first=True, padding_value=float("-inf")
        )
        return self.mix(states.amax(dim=1))  # type: ignore[no-any-return]

    def _faded(self, directions: Tensor, row: Tensor, length: Tensor) -> Tensor:
        """Return decayed sums of the directions of the turns so far, one for each rate (examples, rates * width)."""
        place = torch.arange(directions.shape[1], device=directions.device)
        ago = place[:, None] - place
        kept = torch.stack([(ago >= 0) * rate ** ago.clamp(min=0) for rate in self.options.recent])
        faded = torch.einsum("dts,bsw->btdw", kept.to(directions.dtype), directions)
        return faded[row, length - 1].flatten(1)

    def score(self, context: Tensor, response: Tensor) -> Tensor:
        """Return the logit of each response (examples, responses, size) after its context (examples, size)."""
        size = self.options.down_size
        r = response[..., :size]
        c = context[:, None, :size].expand_as(r)
        joined = [c, r, (c - r).abs(), c * r] if self.options.difference == "absolute" else [r, c, r * c, r - c]
        direct: Tensor | float = 0.0
        if self.options.recent:
            said = _directions(_cut(context[:, size:], len(self.options.recent), self.parts))
            alike = torch.einsum("edpw,ekpw->ekdp", said, _cut(response[..., size:], self.parts))
            joined.append(GAIN * alike.flatten(2))
            direct = self.direct(joined[-1])[..., 0]
        hidden = torch.relu(self.dense(torch.cat(joined, dim=-1)))
        return self.out(self.dropout(hidden))[..., 0] + direct  # type: ignore[no-any-return]

    def forward(self, batch: DialogueBatch) -> tuple[Tensor, Tensor]:
        """Return logits (examples, 1 + negatives), the true response first, and which of them count.

        While it learns, responses of the same batch come last, first those of other dialogues.
        """
        vectors = batch.vectors if self.encoder is None else self.encoder(batch.texts)
        if vectors is None:
            raise ValueError("batch: expected vectors, or an encoder to compute them")
        said = self.project(vectors)
        responses = said[batch.responses]
        context = self.contexts(said[batch.turns], batch.row, batch.length)
        logits, present = self.score(context, responses), batch.present
        if batch.other_turns is not None:
            other = self.contexts(said[batch.other_turns], batch.row, batch.length)
            elsewhere = self.score(other, responses[:, :1])
            logits = torch.cat([logits, elsewhere], dim=1)
            present = torch.cat([present, torch.ones_like(elsewhere, dtype=torch.bool)], dim=1)
        if self.training and self.options.others:
            drawn, counts = _in_batch(batch, self.options.others, self.options.in_dialogue)
            logits = torch.cat([logits, self.score(context, responses[:, 0][drawn])], dim=1)
            present = torch.cat([present, counts], dim=1)
        return logits, present


def _in_batch(batch: DialogueBatch, others: int, own: int) -> tuple[Tensor, Tensor]:
    """Return indices of other examples (of other dialogues, then of the same), and a mask of valid ones."""
    row, place = batch.row, torch.arange(len(batch.row), device=batch.row.device)[:, None]
    sizes = torch.bincount(row)
    first, size = (sizes.cumsum(0) - sizes)[row][:, None], sizes[row][:, None]
    everywhere = torch.randint(len(row), (len(row), others), device=row.device)
    inside = first + (torch.rand(len(row), own, device=row.device) * size).long().clamp(max=size - 1)
    drawn = torch.cat([everywhere, inside], dim=1)
    right = torch.cat([row[everywhere] != row[:, None], inside != place], dim=1)
    said = batch.responses[:, 0]
    return drawn, right & (said[drawn] != said[:, None])


def _directions(vectors: Tensor) -> Tensor:
    return nn.functional.normalize(vectors, dim=-1)


def _cut(vectors: Tensor, *counts: int) -> Tensor:
    """Return vectors with the last axis cut into these numbers of parts."""
    return vectors.reshape(*vectors.shape[:-1], *counts, -1)


def save_head(
    model: MaudeNetwork, reading: TrunkReading, card: Mapping[str, Any], folder: Path, own: Path | None = None
) -> None:
    """Write a trained head as a checkpoint; `own` is the folder of an encoder that was trained with it."""
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
        trunk: Any = model.encoder
        described = config_of(trunk.bert, "BertModel")
        save_model(folder, trunk.bert.state_dict(), described, trunk.folder / "tokenizer.json")
        facts["role"] = OWN
    if own is not None:
        for name in ("model.safetensors", "config.json", "tokenizer.json"):
            copy_file(own / name, folder / name)
        facts["role"] = OWN
    with atomic(folder / WEIGHTS) as partial:
        save_file(folded(model), partial, metadata=facts)
    write_json(folder / CARD, card)


def folded(model: MaudeNetwork) -> dict[str, Floats]:
    """Return the weights by name, with the standardisation folded into the down-projection."""
    kept = {name: value for name, value in model.state_dict().items() if not name.startswith("encoder.")}
    tensors = {name: value.detach().cpu().numpy().astype(np.float32) for name, value in kept.items()}
    centre, scale = tensors.pop("centre"), tensors.pop("scale")
    down = tensors["down.weight"] / scale
    kept_too = {"centre": centre, "scale": scale} if model.options.recent else {}
    return {**tensors, **kept_too, "down.weight": down, "down.bias": -(down @ centre)}


def nce(logits: Tensor, counts: Tensor, form: Loss = "mean") -> Tensor:
    """Return the loss of each example: column 0 is the true response, `counts` is how much each of the others does.

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


def batch_loss(model: MaudeNetwork, batch: DialogueBatch) -> Tensor:
    """Return the mean loss of a batch."""
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


def train_maude(
    training: Sequence[Sampled],
    validation: Sequence[Sampled],
    options: MaudeOptions,
    recipe: Recipe,
    *,
    vectors: Floats | None = None,
    index: Mapping[str, int] | None = None,
    encoder: Trunk | None = None,
    parts: int = 1,
    unlike: Mapping[str, Sequence[Sampled]] | None = None,
    start: Mapping[str, Floats] | None = None,
) -> tuple[MaudeNetwork, Fitted]:
    """Return a trained network, over vectors that are given, or with an encoder that learns with it.

    A batch of the recipe is that many dialogues, with all their turns. `parts` is how many layers' vectors lie side by
    side in each of those that are given. `unlike` are other dialogues, by corpus, that are only asked about at the end.
    With `start`, the weights of a head that was saved, it goes on from there.
    """
    if options.frozen:
        if vectors is None:
            raise TurnwiseError("frozen=true: expected the vectors of all texts, got none")
        width = vectors.shape[1]
        model = seeded(recipe.seed, lambda: MaudeNetwork(width, options, parts=parts))
        model.settle(vectors)
    else:
        if encoder is None:
            raise TurnwiseError("frozen=false: expected an encoder to train, got none")
        vectors, inside = None, encoder
        model = seeded(recipe.seed, lambda: MaudeNetwork(inside.width, options, inside, inside.parts))
        encoder.halves = True
        encoder.prepare(text for one in (*training, *validation) for text in one.texts())
    if start is not None:
        model.resume(start)
    if options.learning:
        for name, weight in model.named_parameters():
            weight.requires_grad_(name.split(".")[0] in options.learning)
    table = None if vectors is None else torch.from_numpy(vectors).to(recipe.device)
    drawn: dict[str, Any] = {"fresh": options.fresh, "seed": recipe.seed, "device": recipe.device}
    fitted = fit_epochs(
        model,
        batch_loss,
        DrawnDialogues(training, table, index, negatives=options.negatives, reworded=options.reworded, **drawn),
        # Validation uses the original wording, as the tables do.
        DrawnDialogues(validation, table, index, negatives=options.negatives, reworded=0.0, **drawn),
        recipe,
    )
    found: dict[str, Any] = held_out(model, validation, table, index, recipe)
    for corpus, dialogues in (unlike or {}).items():
        found[corpus] = held_out(model, dialogues, table, index, recipe)
    return model.to("cpu"), replace(fitted, found=found)


@torch.no_grad()
def held_out(
    model: MaudeNetwork,
    dialogues: Sequence[Sampled],
    table: Tensor | None,
    index: Mapping[str, int] | None,
    recipe: Recipe,
) -> dict[str, dict[str, float]]:
    """Return, for each kind of response, how far and how often its score lies below the true response's."""
    found: dict[str, dict[str, float]] = {}
    asked: list[tuple[tuple[Kind, ...], float]] = [(SETS["all"], 0.0)]
    if any(one.reworded for one in dialogues):
        asked.append((("rand_utt",), 1.0))
    for negatives, reworded in asked:
        rng = np.random.default_rng(11)
        total, wins, count = torch.zeros(3, 1 + len(negatives), dtype=torch.float64, device=recipe.device)
        examples = DrawnDialogues(dialogues, table, index, negatives=negatives, reworded=reworded, device=recipe.device)
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
