"""An encoder of utterances that learns together with MAUDE's head, as the paper says that its own did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from turnwise.models.tokens import Tokens, rectangle
from turnwise.models.utterances import Reading

if TYPE_CHECKING:
    from transformers import BertModel

LONGEST = 64


class Trunk(nn.Module):
    """Texts to vectors: layers of a BERT, each averaged over the tokens."""

    def __init__(self, bert: BertModel, tokens: Tokens, reading: Reading, folder: Path) -> None:
        super().__init__()
        if reading.pooling != "mean":
            raise ValueError("an encoder that learns is pooled by its mean")
        self.bert, self._tokens, self._reading, self.folder = bert, tokens, reading, folder

    @classmethod
    def open(cls, folder: Path, reading: Reading) -> Trunk:
        """The trunk in a folder, in the hub's layout; its words stay as they are."""
        from transformers import BertModel

        bert = BertModel.from_pretrained(folder, add_pooling_layer=False, dtype=torch.float32)
        bert.embeddings.word_embeddings.weight.requires_grad_(False)
        return cls(bert, Tokens.from_bytes((folder / "tokenizer.json").read_bytes(), LONGEST), reading, folder)

    @property
    def width(self) -> int:
        """The size of a vector."""
        size: int = self.bert.config.hidden_size
        return size * len(self._reading.layers)

    def forward(self, texts: Sequence[str]) -> Tensor:
        """A vector for each text."""
        batch = rectangle([tuple(self._tokens.encode(text, None, None).ids) for text in texts])
        ids, mask = torch.from_numpy(batch.ids), torch.from_numpy(batch.mask)
        states: Any = self.bert(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        share = mask[..., None] / mask.sum(dim=1)[:, None, None]
        return torch.cat([(states[layer] * share).sum(dim=1) for layer in self._reading.layers], dim=1)
