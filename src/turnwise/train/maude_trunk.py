"""An encoder of utterances that learns together with MAUDE's head, as the paper says that its own did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from turnwise.models.protocols import Floats
from turnwise.models.tokens import Tokens, rectangle
from turnwise.models.utterances import Reading
from turnwise.train.utterances import Encode

if TYPE_CHECKING:
    from transformers import BertModel

LONGEST = 64
# So many texts of like length are encoded together.
AT_ONCE = 512


class Trunk(nn.Module):
    """Texts to vectors: layers of a BERT, each averaged over the tokens."""

    def __init__(self, bert: BertModel, tokens: Tokens, reading: Reading, folder: Path) -> None:
        super().__init__()
        if reading.pooling != "mean":
            raise ValueError("an encoder that learns is pooled by its mean")
        self.bert, self._tokens, self._reading, self.folder = bert, tokens, reading, folder
        self._rows: dict[str, tuple[int, ...]] = {}

    @classmethod
    def open(cls, folder: Path, reading: Reading, longest: int = LONGEST) -> Trunk:
        """The trunk in a folder, in the hub's layout, up to the last layer that is read; its words stay as they are."""
        from transformers import BertModel

        bert = BertModel.from_pretrained(folder, add_pooling_layer=False, dtype=torch.float32)
        bert.embeddings.word_embeddings.weight.requires_grad_(False)
        if min(reading.layers) >= 0:
            bert.encoder.layer = bert.encoder.layer[: max(reading.layers)]
            bert.config.num_hidden_layers = len(bert.encoder.layer)
        return cls(bert, Tokens.from_bytes((folder / "tokenizer.json").read_bytes(), longest), reading, folder)

    @property
    def width(self) -> int:
        """The size of a vector."""
        size: int = self.bert.config.hidden_size
        return size * len(self._reading.layers)

    def prepare(self, texts: Iterable[str]) -> None:
        """Cut texts into tokens before they are needed, many at once."""
        new = list(dict.fromkeys(text for text in texts if text not in self._rows))
        last = (self._tokens.limit or LONGEST) - 1
        for text, encoding in zip(new, self._tokens.tokenizer.encode_batch(new), strict=True):
            ids = encoding.ids
            self._rows[text] = tuple(ids) if len(ids) <= last + 1 else (*ids[:last], ids[-1])

    def forward(self, texts: Sequence[str]) -> Tensor:
        """A vector for each text."""
        self.prepare(texts)
        rows = [self._rows[text] for text in texts]
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
        parts = [order[start : start + AT_ONCE] for start in range(0, len(order), AT_ONCE)]
        found = torch.cat([self._vectors([rows[place] for place in part]) for part in parts])
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order)] = torch.arange(len(order))
        return found[back.to(found.device)]

    def _vectors(self, rows: Sequence[tuple[int, ...]]) -> Tensor:
        where, batch = self.bert.device, rectangle(rows)
        ids, mask = torch.from_numpy(batch.ids).to(where), torch.from_numpy(batch.mask).to(where)
        # Halves serve learning on a GPU; vectors that are kept are made in full.
        with torch.autocast(where.type, torch.bfloat16, enabled=where.type == "cuda" and torch.is_grad_enabled()):
            states: Any = self.bert(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        share = mask[..., None] / mask.sum(dim=1)[:, None, None]
        return torch.cat([(states[layer].float() * share).sum(dim=1) for layer in self._reading.layers], dim=1)


def encode_with_trunk(folder: Path, reading: Reading, longest: int = 256, device: str = "cpu") -> Encode:
    """A function from utterances to the vectors that a folder's encoder gives them, on a GPU where there is one."""
    trunk = Trunk.open(folder, reading, longest).to(device).eval()

    @torch.no_grad()
    def encode(texts: Sequence[str]) -> Floats:
        trunk.prepare(texts)
        parts = (texts[start : start + 4 * AT_ONCE] for start in range(0, len(texts), 4 * AT_ONCE))
        return np.concatenate([trunk(part).cpu().numpy() for part in parts])

    return encode
