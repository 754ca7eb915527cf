"""MAUDE's network over vectors of utterances, as it is trained."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from turnwise.errors import TurnwiseError
from turnwise.models.maude_head import GAIN
from turnwise.models.requests import Floats
from turnwise.train.maude_draws import Batch
from turnwise.train.maude_options import Options


class Maude(nn.Module):
    """Down-projection, LSTM over the turns, their largest states, combination with the response, scorer."""

    centre: Tensor
    scale: Tensor

    def __init__(self, width: int, options: Options, encoder: nn.Module | None = None, parts: int = 1) -> None:
        """`parts` is how many vectors, one of each layer that is read, lie side by side in a vector of this width."""
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
            # Likeness alone tells much, and of any corpus: it starts with a say of its own.
            self.direct = nn.Linear(likenesses, 1, bias=False)
            nn.init.constant_(self.direct.weight, 1 / (2 * likenesses))

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

    def resume(self, weights: Mapping[str, Floats]) -> None:
        """Go on from a head that was saved; it has to be of these sizes, and to read likeness."""
        if "centre" not in weights:
            raise TurnwiseError("a head that reads no likeness does not say how its vectors were scaled; train it anew")
        saved = {name: torch.from_numpy(np.array(value)) for name, value in weights.items() if name != "down.bias"}
        saved["down.weight"] *= saved["scale"]
        try:
            self.load_state_dict(saved, strict=self.encoder is None)
        except RuntimeError as problem:
            raise TurnwiseError(f"the head to go on from is of another form ({problem})") from None

    def project(self, vectors: Tensor) -> Tensor:
        """Vectors in the smaller space, followed by their directions where likeness is asked for."""
        scaled = (vectors - self.centre) / self.scale
        projected: Tensor = self.down(self.input_dropout(scaled))
        if not self.options.recent:
            return projected
        return torch.cat([projected, _directions(_cut(scaled, self.parts)).flatten(-2)], dim=-1)

    def contexts(self, turns: Tensor, row: Tensor, length: Tensor) -> Tensor:
        """The vector of the first `length` turns of each `row`; turns are projected already."""
        size = self.options.down_size
        context = self._read(turns[..., :size], row, length)
        if not self.options.recent:
            return context
        return torch.cat([context, self._faded(turns[..., size:], row, length)], dim=-1)

    def _read(self, turns: Tensor, row: Tensor, length: Tensor) -> Tensor:
        """In one direction all beginnings of a dialogue come out of one pass; in two, each has to be read by itself."""
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
        """The sum of the directions of the turns so far, which fade at each of the rates (examples, rates * width)."""
        place = torch.arange(directions.shape[1], device=directions.device)
        ago = place[:, None] - place
        kept = torch.stack([(ago >= 0) * rate ** ago.clamp(min=0) for rate in self.options.recent])
        faded = torch.einsum("dts,bsw->btdw", kept.to(directions.dtype), directions)
        return faded[row, length - 1].flatten(1)

    def score(self, context: Tensor, response: Tensor) -> Tensor:
        """The logit of each response (examples, responses, size) after its context (examples, size)."""
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

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits (examples, 1 + negatives), the true response first, and which of them count.

        While it learns, responses of the same batch come last, first those of other dialogues.
        """
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
        if self.training and self.options.others:
            drawn, counts = _in_batch(batch, self.options.others, self.options.in_dialogue)
            logits = torch.cat([logits, self.score(context, responses[:, 0][drawn])], dim=1)
            present = torch.cat([present, counts], dim=1)
        return logits, present


def _in_batch(batch: Batch, others: int, own: int) -> tuple[Tensor, Tensor]:
    """For each example some examples of other dialogues, then some of its own, and which of them are indeed others."""
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
    """Vectors cut into so many parts."""
    return vectors.reshape(*vectors.shape[:-1], *counts, -1)
