"""Trained models on disk: safetensors and JSON, so that reading never executes code.

    config.json          the trunk's transformers configuration
    model.safetensors    masked LM: BertForMaskedLM; causal LM: LlamaForCausalLM; classifiers: BertModel (no pooler)
    tokenizer.json       the tokenizer
    heads.safetensors    classifiers only: per head NAME.dense.weight, NAME.dense.bias, NAME.out.weight, NAME.out.bias
    heads.json           classifiers only: {"pooling": "max", "activation": "gelu", "first_tokens": 160,
                         "second_tokens": 64, "separator": "[SEP]", "heads": {NAME: {"labels": [...]}}}
    card.json            data, licences, seeds, hyper-parameters, losses, held-out results

A head reads the last layer: element-wise maximum over all positions that are not padding ([CLS] and [SEP]
included), dense, GELU (exact), out, softmax. Text A carries token type 0 and text B type 1; a text without a
partner is `[CLS] text [SEP]`, all of type 0. Weights are stored in half precision.

A causal trunk (LlamaModel), which only teaches, reads `A\\nB` and is pooled over B alone: "max of the second text".

`state/` beside them, while a run is unfinished, holds what resuming needs.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from turnwise.errors import TurnwiseError, in_brief
from turnwise.files import atomic, write_json
from turnwise.models.sources import quiet_loading

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedModel

    Tensors = dict[str, torch.Tensor]

Network = TypeVar("Network", bound="PreTrainedModel")

WEIGHTS, HEADS, HEADS_LAYOUT, CARD = "model.safetensors", "heads.safetensors", "heads.json", "card.json"


def write_tensors(path: Path, tensors: Tensors) -> None:
    """Write a safetensors file in one step."""
    from safetensors.torch import save_file

    with atomic(path) as partial:
        save_file({k: v.contiguous() for k, v in tensors.items()}, partial, metadata={"format": "pt"})


def read_tensors(path: Path) -> Tensors:
    """Read a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise TurnwiseError(f"{path}: not a readable safetensors file ({error})") from None


def open_network(kind: type[Network], folder: Path, **options: Any) -> Network:
    """Return the transformers model in a folder, from safetensors alone: unpickling would execute code."""
    try:
        with quiet_loading():
            return kind.from_pretrained(folder, use_safetensors=True, **options)
    except (OSError, ValueError) as problem:
        reason = in_brief(problem)
        raise TurnwiseError(
            f"{folder}: no safetensors weights that can be opened ({reason}); "
            "pickled weights are refused: save the model again with a new transformers"
        ) from None


def save_model(folder: Path, weights: Tensors, config: dict[str, Any], tokenizer: Path) -> None:
    """Write the trunk (or whole language model) in half precision, its configuration and its tokenizer."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / WEIGHTS, {name: value.detach().to("cpu", torch.float16) for name, value in weights.items()})
    write_json(folder / "config.json", config)
    if tokenizer.resolve() != (folder / "tokenizer.json").resolve():
        copy_file(tokenizer, folder / "tokenizer.json")


def copy_file(source: Path, target: Path) -> None:
    """Copy a file in one step."""
    with atomic(target) as partial:
        shutil.copyfile(source, partial)


def save_heads(folder: Path, weights: Tensors, layout: dict[str, Any]) -> None:
    """Write the classifier heads and the JSON of their layout."""
    import torch

    write_tensors(folder / HEADS, {name: value.detach().to("cpu", torch.float32) for name, value in weights.items()})
    write_json(folder / HEADS_LAYOUT, layout)


def save_state(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, average: Tensors, where: Any) -> None:
    """Write the weights, their average, the optimizer's moments and the position in the run, for resuming."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.{name}": value.detach().cpu() for name, value in trainable(model).items()}
    tensors |= {f"average.{name}": value.cpu() for name, value in average.items()}
    for index, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value.cpu() for name, value in moments.items()}
    write_tensors(folder / "state.safetensors", tensors)
    write_json(folder / "state.json", where)


def load_state(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, average: Tensors) -> Any | None:
    """Restore what `save_state` wrote, and return the position in the run; None without a saved state."""
    import torch

    if not (folder / "state.json").is_file():
        return None
    tensors = read_tensors(folder / "state.safetensors")
    moments: dict[int, Tensors] = {}
    weights = trainable(model)
    with torch.no_grad():
        for name, value in tensors.items():
            kind, rest = name.split(".", 1)
            if kind == "model":
                weights[rest].copy_(value)
            elif kind == "average":
                average[rest].copy_(value)
            else:
                index, moment = rest.split(".", 1)
                moments.setdefault(int(index), {})[moment] = value
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
    return json.loads((folder / "state.json").read_text(encoding="utf-8"))


def trainable(model: nn.Module) -> Tensors:
    """Return the parameters that training changes, by name."""
    return {name: value for name, value in model.named_parameters() if value.requires_grad}
