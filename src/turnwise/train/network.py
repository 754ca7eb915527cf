"""The networks that are trained: a BERT (or causal) trunk with small heads, and a masked language model."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import BertForMaskedLM, BertModel, LlamaModel, PretrainedConfig

from turnwise.errors import TurnwiseError
from turnwise.train import checkpoint

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
    """One trunk, several heads; the last layer is pooled by its maximum.

    Over every position but padding; in a causal trunk only over the second text, which alone has read everything.
    """

    def __init__(
        self, trunk: BertModel | LlamaModel, labels: Mapping[str, Sequence[str]], dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.trunk = trunk
        self.causal = isinstance(trunk, LlamaModel)
        width = trunk.config.hidden_size
        self.heads = nn.ModuleDict({name: Head(width, len(of), dropout) for name, of in labels.items()})

    def forward(self, head: str, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor) -> Tensor:
        # Padding stands on the right, where no token of a causal trunk can see it.
        seen = {} if self.causal else {"token_type_ids": token_type_ids, "attention_mask": attention_mask}
        states = self.trunk(input_ids=input_ids, **seen).last_hidden_state
        read = token_type_ids if self.causal else attention_mask
        pooled = states.masked_fill(read[..., None] == 0, LOWEST).amax(dim=1)
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


def trunk_of(folder: Path, dtype: torch.dtype = torch.float32) -> BertModel | LlamaModel:
    """The bare trunk of the model in a folder: BERT's, a masked language model's or a causal one's."""
    if is_causal(folder):
        return checkpoint.open_network(LlamaModel, folder, dtype=dtype, use_cache=False)
    return checkpoint.open_network(BertModel, folder, add_pooling_layer=False, dtype=dtype)


def is_causal(folder: Path) -> bool:
    """Whether the model in a folder reads from left to right."""
    return bool(json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"] == "llama")


def grow(trunk: BertModel, layers: int) -> None:
    """Add layers that at first pass on what they are given, each a copy of the one before it.

    Nothing leaves the new layer's two blocks yet, and its norms undo themselves: numbers that were normed with some
    gain and shift keep about their mean and spread.
    """
    old: Any = trunk.encoder.layer
    made = nn.ModuleList()
    for place, layer in enumerate(old):
        made.append(layer)
        for _ in range(layers * (place + 1) // len(old) - layers * place // len(old) - 1):
            made.append(_passing_on(layer))
    trunk.encoder.layer = made
    trunk.config.num_hidden_layers = len(made)


@torch.no_grad()
def _passing_on(layer: nn.Module) -> nn.Module:
    new: Any = copy.deepcopy(layer)
    gain, shift = (value.clone() for value in (new.output.LayerNorm.weight, new.output.LayerNorm.bias))
    spread, mean = (gain.square().mean() + shift.var(unbiased=False)).sqrt(), shift.mean()
    for block in (new.attention.output, new.output):
        for value in (block.dense.weight, block.dense.bias):
            value.zero_()
        block.LayerNorm.weight.fill_(spread)
        block.LayerNorm.bias.fill_(mean)
    return cast("nn.Module", new)


def classifier(
    base: Path, labels: Mapping[str, Sequence[str]], dropout: float, freeze_words: bool, layers: int | None = None
) -> Classifier:
    """A classifier over the trunk of the model in a folder, grown if asked; heads that an earlier run left go on."""
    trunk = trunk_of(base)
    if layers is not None:
        if not isinstance(trunk, BertModel) or layers < trunk.config.num_hidden_layers:
            raise TurnwiseError(f"{base}: only a BERT trunk can grow, and not to fewer layers than it has")
        grow(trunk, layers)
    _freeze(trunk, freeze_words)
    model = Classifier(trunk, labels, dropout)
    if (base / checkpoint.HEADS_LAYOUT).is_file():
        known = json.loads((base / checkpoint.HEADS_LAYOUT).read_text(encoding="utf-8"))["heads"]
        same = tuple(f"{name}." for name, of in labels.items() if known.get(name, {}).get("labels") == list(of))
        weights = checkpoint.read_tensors(base / checkpoint.HEADS)
        model.heads.load_state_dict({k: v for k, v in weights.items() if k.startswith(same)}, strict=False)
    return model


def load_classifier(folder: Path, dtype: torch.dtype = torch.float32) -> Classifier:
    """A classifier as an earlier run saved it."""
    layout = json.loads((folder / checkpoint.HEADS_LAYOUT).read_text(encoding="utf-8"))
    model = Classifier(trunk_of(folder, dtype), {name: of["labels"] for name, of in layout["heads"].items()})
    model.heads.load_state_dict(checkpoint.read_tensors(folder / checkpoint.HEADS))
    return model.to(dtype).eval()


def masked_lm(base: Path, freeze_words: bool) -> MaskedLanguageModel:
    """A masked language model over the BERT model in a folder; a head that is missing there starts afresh."""
    model = checkpoint.open_network(BertForMaskedLM, base, dtype=torch.float32)
    model.tie_weights()
    _freeze(model.bert, freeze_words)
    return MaskedLanguageModel(model)


def compile_layers(trunk: nn.Module, backend: str = "inductor") -> None:
    """Compile one layer for texts of any length; all layers are alike, so they share what was compiled."""
    layers: Any = trunk.encoder.layer if isinstance(trunk, BertModel) else trunk.layers
    for layer in layers:
        layer.compile(dynamic=True, backend=backend)


def _freeze(trunk: BertModel | LlamaModel, freeze_words: bool) -> None:
    trunk.get_input_embeddings().weight.requires_grad_(not freeze_words)


def config_of(trunk: Any, architecture: str) -> dict[str, Any]:
    """The configuration to store beside a trunk's weights."""
    config: PretrainedConfig = trunk.config
    return {**config.to_diff_dict(), "architectures": [architecture], "dtype": "float16"}
