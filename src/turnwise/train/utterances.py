"""An encoder of utterances that is trained together with MAUDE's head, as the paper describes its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from turnwise.models.maude import TrunkReading
from turnwise.models.requests import Floats
from turnwise.models.text import Tokens
from turnwise.train.checkpoint import open_network

if TYPE_CHECKING:
    from transformers import BertModel


Encode = Callable[[Sequence[str]], Floats]
LONGEST = 64
# Texts of similar length that are encoded together.
ENCODED = 1024
# Texts per tokeniser call: its results take more memory than the ids that are kept.
TOKENISED = 65536


class Trunk(nn.Module):
    """Texts to vectors: layers of a BERT, each averaged over the tokens."""

    def __init__(self, bert: BertModel, tokens: Tokens, reading: TrunkReading, folder: Path) -> None:
        super().__init__()
        if reading.pooling != "mean":
            raise ValueError("an encoder that learns is pooled by its mean")
        self.bert, self._tokens, self._reading, self.folder = bert, tokens, reading, folder
        # Halves serve learning on a GPU; vectors that are kept are made in full.
        self.halves = False
        # Every text that was met, its tokens in a row of one table, and how many they are.
        self._rows: dict[str, int] = {}
        self._ids = torch.zeros((0, tokens.limit or LONGEST), dtype=torch.int32)
        self._lengths = np.zeros(0, dtype=np.int64)

    @classmethod
    def open(cls, folder: Path, reading: TrunkReading, longest: int = LONGEST, learning: int | None = None) -> Trunk:
        """Return the trunk in a folder, in the hub's layout, up to the last layer that is read.

        Its words stay as they are; so do all layers below the `learning` last ones.
        """
        from transformers import BertModel

        bert = open_network(BertModel, folder, add_pooling_layer=False, dtype=torch.float32)
        bert.embeddings.word_embeddings.weight.requires_grad_(False)
        if min(reading.layers) >= 0:
            bert.encoder.layer = bert.encoder.layer[: max(reading.layers)]
            bert.config.num_hidden_layers = len(bert.encoder.layer)
        if learning is not None:
            still = bert.encoder.layer[: max(0, len(bert.encoder.layer) - learning)]
            for part in (bert.embeddings, *still):
                part.requires_grad_(False)
        file = folder / "tokenizer.json"
        return cls(bert, Tokens.from_bytes(file.read_bytes(), longest, file=file), reading, folder)

    @property
    def width(self) -> int:
        """Return the size of an utterance's vector."""
        size: int = self.bert.config.hidden_size
        return size * self.parts

    @property
    def parts(self) -> int:
        """Return how many layers a vector is made of."""
        return len(self._reading.layers)

    def prepare(self, texts: Iterable[str]) -> None:
        """Cut texts into tokens before they are needed, many at once."""
        new = list(dict.fromkeys(text for text in texts if text not in self._rows))
        if not new:
            return
        longest, encode = self._ids.shape[1], self._tokens.tokenizer.encode_batch
        table, lengths = np.zeros((len(new), longest), dtype=np.int32), np.zeros(len(new), dtype=np.int64)
        for start in range(0, len(new), TOKENISED):
            for row, encoding in enumerate(encode(new[start : start + TOKENISED]), start):
                ids = encoding.ids
                cut = ids if len(ids) <= longest else [*ids[: longest - 1], ids[-1]]
                table[row, : len(cut)], lengths[row] = cut, len(cut)
        self._rows |= {text: row for row, text in enumerate(new, len(self._rows))}
        self._lengths = np.concatenate([self._lengths, lengths])
        where = self.bert.device
        self._ids = torch.cat([self._ids.to(where), torch.from_numpy(table).to(where)])

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Return a vector for each text."""
        self.prepare(texts)
        where = self.bert.device
        self._ids = self._ids.to(where)
        rows = np.fromiter((self._rows[text] for text in texts), dtype=np.int64, count=len(texts))
        order = np.argsort(self._lengths[rows], kind="stable")
        placed, lengths = torch.from_numpy(rows[order]).to(where), self._lengths[rows[order]]
        counts = torch.from_numpy(lengths).to(where)
        parts = []
        for start in range(0, len(order), ENCODED):
            span = slice(start, start + ENCODED)
            # Each part is as wide as its longest text, which is its last.
            parts.append(self._vectors(self._ids[placed[span], : int(lengths[span][-1])], counts[span]))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return torch.cat(parts)[torch.from_numpy(back).to(where)]

    def _vectors(self, ids: Tensor, lengths: Tensor) -> Tensor:
        mask = (torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]).long()
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=self.halves and ids.device.type == "cuda"):
            states: Any = self.bert(input_ids=ids.long(), attention_mask=mask, output_hidden_states=True).hidden_states
        share = mask[..., None] / lengths[:, None, None]
        return torch.cat([(states[layer].float() * share).sum(dim=1) for layer in self._reading.layers], dim=1)


def encode_with_trunk(folder: Path, reading: TrunkReading, longest: int = 256, device: str = "cpu") -> Encode:
    """Return a function from utterances to the vectors of a folder's encoder, on the given device."""
    trunk = Trunk.open(folder, reading, longest).to(device).eval()

    @torch.no_grad()
    def encode(texts: Sequence[str]) -> Floats:
        trunk.prepare(texts)
        parts = (texts[start : start + 4 * ENCODED] for start in range(0, len(texts), 4 * ENCODED))
        return np.concatenate([trunk(part).cpu().numpy() for part in parts])

    return encode
