"""The networks that are trained: a BERT trunk with small heads, and a masked language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM, BertModel

LOWEST = -1e4


class Head(nn.Module):
    """Two layers from a pooled vector to the logits of the labels."""

    def __init__(self, width: int, labels: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(width, width)
        self.out = nn.Linear(width, labels)

    def forward(self, pooled: Tensor) -> Tensor:
        hidden = nn.functional.gelu(self.dense(self.dropout(pooled)))
        logits: Tensor = self.out(self.dropout(hidden))
        return logits


class Classifier(nn.Module):
    """One trunk, several heads; the last layer is pooled by its maximum over every position but padding."""

    def __init__(self, trunk: BertModel, labels: Mapping[str, Sequence[str]], dropout: float) -> None:
        super().__init__()
        self.trunk = trunk
        width = trunk.config.hidden_size
        self.heads = nn.ModuleDict({name: Head(width, len(of), dropout) for name, of in labels.items()})

    def forward(self, head: str, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.trunk(
            input_ids=input_ids, token_type_ids=token_type_ids, attention_mask=attention_mask
        ).last_hidden_state
        pooled = states.masked_fill(attention_mask[..., None] == 0, LOWEST).amax(dim=1)
        logits: Tensor = self.heads[head](pooled)
        return logits


class MaskedLanguageModel(nn.Module):
    """A masked language model whose vocabulary-sized layer is computed at the chosen positions only."""

    def __init__(self, model: BertForMaskedLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor, chosen: Tensor) -> Tensor:
        states = self.model.bert(
            input_ids=input_ids, token_type_ids=token_type_ids, attention_mask=attention_mask
        ).last_hidden_state
        logits: Tensor = self.model.cls(states[chosen])
        return logits


def classifier(base: Path, labels: Mapping[str, Sequence[str]], dropout: float, freeze_words: bool) -> Classifier:
    """A classifier over the BERT model in a folder (a bare trunk or a masked language model's)."""
    trunk = BertModel.from_pretrained(base, add_pooling_layer=False, dtype=torch.float32)
    _freeze(trunk, freeze_words)
    return Classifier(trunk, labels, dropout)


def masked_lm(base: Path, freeze_words: bool) -> MaskedLanguageModel:
    """A masked language model over the BERT model in a folder; a head that is missing there starts afresh."""
    model = BertForMaskedLM.from_pretrained(base, dtype=torch.float32)
    model.tie_weights()
    _freeze(model.bert, freeze_words)
    return MaskedLanguageModel(model)


def _freeze(trunk: BertModel, freeze_words: bool) -> None:
    trunk.embeddings.word_embeddings.weight.requires_grad_(not freeze_words)


def config_of(trunk: Any, architecture: str) -> dict[str, Any]:
    """The configuration to store beside a trunk's weights."""
    config: BertConfig = trunk.config
    return {**config.to_diff_dict(), "architectures": [architecture], "dtype": "float16"}
