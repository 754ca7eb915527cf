"""The four networks over torch modules. Imported only where torch is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from turnwise.errors import TurnwiseError
from turnwise.models.protocols import Batch, Floats, Ints

# The vocabulary-sized head runs on so many places at a time, so that its logits fit into memory.
MOST_PLACES = 2048


def _on(module: Any, array: Ints) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if module.device.type != "cuda":
        return tensor
    # From pinned memory the copy goes on while the GPU still works on what came before.
    return tensor.pin_memory().to(module.device, non_blocking=True)


def _inputs(module: Any, batch: Batch) -> dict[str, Tensor]:
    inputs = {"input_ids": _on(module, batch.ids), "attention_mask": _on(module, batch.mask)}
    if getattr(module.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = _on(module, batch.types)
    return inputs


def _array(tensor: Tensor) -> Floats:
    array: Floats = tensor.detach().to("cpu", torch.float32).numpy()
    return array


def _likelihood(logits: Tensor, wanted: Tensor) -> Floats:
    scores = torch.log_softmax(logits.float(), dim=-1)
    return _array(scores.gather(-1, wanted[:, None])[:, 0])


@dataclass
class TorchEncoder:
    """Hidden states of any layer."""

    module: Any

    @torch.inference_mode()
    def hidden(self, batch: Batch, layer: int) -> Floats:
        """See `Encoder`."""
        states = self.module(**_inputs(self.module, batch), output_hidden_states=True).hidden_states
        if not -len(states) <= layer < len(states):
            raise TurnwiseError(f"this encoder has layers 0 to {len(states) - 1}; layer {layer} was asked for")
        return _array(states[layer])

    @torch.inference_mode()
    def pooled_layers(self, batch: Batch, layers: Sequence[int], pooling: str) -> list[Floats]:
        """A vector per row of each of several layers, in one pass; pooled where the states are, so that few travel."""
        inputs = _inputs(self.module, batch)
        states = self.module(**inputs, output_hidden_states=True).hidden_states
        mask = inputs["attention_mask"][..., None]
        return [_array(_pooled(states[layer].float(), mask, pooling)) for layer in layers]


def _pooled(states: Tensor, mask: Tensor, pooling: str) -> Tensor:
    if pooling == "cls":
        return states[:, 0]
    if pooling == "mean":
        return (states * mask).sum(dim=1) / mask.sum(dim=1)
    return states.masked_fill(mask == 0, -1e4).amax(dim=1)


@dataclass
class TorchMaskedLM:
    """Likelihood at masked places; the vocabulary-sized head runs on those places only."""

    module: Any

    @torch.inference_mode()
    def log_probs(self, batch: Batch, rows: Ints, places: Ints, wanted: Ints) -> Floats:
        """See `MaskedLM`."""
        states = self.module.base_model(**_inputs(self.module, batch)).last_hidden_state
        chosen = torch.split(states[_on(self.module, rows), _on(self.module, places)], MOST_PLACES)
        ids = torch.split(_on(self.module, wanted), MOST_PLACES)
        return np.concatenate([_likelihood(self._head(part), of) for part, of in zip(chosen, ids, strict=True)])

    def _head(self, states: Tensor) -> Tensor:
        module, kind = self.module, self.module.config.model_type
        if hasattr(module, "vocab_projector"):
            inner = module.vocab_layer_norm(module.activation(module.vocab_transform(states)))
            logits: Tensor = module.vocab_projector(inner)
        elif hasattr(module, "cls"):
            logits = module.cls(states)
        elif hasattr(module, "lm_head"):
            logits = module.lm_head(states)
        else:
            raise TurnwiseError(
                f"masked language models of type '{kind}' are not known; use BERT, RoBERTa or DistilBERT"
            )
        return logits


@dataclass
class TorchClassifier:
    """A sequence classifier with its own head."""

    module: Any
    labels: tuple[str, ...]

    @torch.inference_mode()
    def logits(self, batch: Batch) -> Floats:
        """See `Classifier`."""
        return _array(self.module(**_inputs(self.module, batch)).logits)


class TorchHead:
    """A head that `turnwise train` wrote, over its trunk."""

    def __init__(
        self, module: Any, weights: Path, head: str, layout: Mapping[str, Any], labels: tuple[str, ...]
    ) -> None:
        from safetensors.torch import load_file

        self.module, self.labels, self._pooling = module, labels, layout["pooling"]
        activations: dict[str, Any] = {"gelu": nn.functional.gelu, "tanh": torch.tanh, "relu": torch.relu}
        self._activation = activations[layout["activation"]]
        tensors = load_file(weights)
        self._dense, self._out = (
            tuple(tensors[f"{head}.{layer}.{part}"].to(module.device, torch.float32) for part in ("weight", "bias"))
            for layer in ("dense", "out")
        )

    @torch.inference_mode()
    def logits(self, batch: Batch) -> Floats:
        """See `Classifier`."""
        states = self.module(**_inputs(self.module, batch)).last_hidden_state.float()
        pooled = _pooled(states, _on(self.module, batch.mask)[..., None], self._pooling)
        inner = self._activation(nn.functional.linear(pooled, *self._dense))
        return _array(nn.functional.linear(inner, *self._out))


@dataclass
class TorchCausalLM:
    """Likelihood after a prefix, whose keys and values are computed once for all rows that share it."""

    module: Any

    @torch.inference_mode()
    def log_probs(self, prefixes: Batch, source: Ints, batch: Batch, wanted: Ints) -> Floats:
        """See `CausalLM`."""
        past, before = None, prefixes.mask[source]
        if prefixes.ids.shape[1]:
            past = self.module.base_model(**self._inputs(prefixes, prefixes.mask[:, :0])).past_key_values
            past.batch_select_indices(_on(self.module, source))
        states = self.module.base_model(**self._inputs(batch, before), past_key_values=past).last_hidden_state
        chosen = batch.mask == 1
        logits = self.module.get_output_embeddings()(states[_on(self.module, chosen)])
        found = np.zeros(batch.ids.shape, dtype=np.float32)
        found[chosen] = _likelihood(logits, _on(self.module, wanted[chosen]))
        return found

    @torch.inference_mode()
    def advance(self, ids: Ints, past: Any) -> tuple[Floats, Any]:
        """See `CausalLM`."""
        before = 0 if past is None else past.get_seq_length()
        batch = Batch(ids, np.ones_like(ids), np.zeros_like(ids))
        inputs = self._inputs(batch, np.ones((len(ids), before), dtype=np.int64))
        read = self.module.base_model(**inputs, past_key_values=past)
        return _array(self.module.get_output_embeddings()(read.last_hidden_state[:, -1])), read.past_key_values

    def select(self, past: Any, rows: Ints) -> Any:
        """See `CausalLM`."""
        past.batch_select_indices(_on(self.module, rows))
        return past

    def _inputs(self, batch: Batch, before: Ints) -> dict[str, Any]:
        # Padding is at place 0: beside a long prefix it would lie beyond the last place the model knows.
        positions = (before.sum(axis=1, keepdims=True) + np.arange(batch.ids.shape[1])) * batch.mask
        return {
            "input_ids": _on(self.module, batch.ids),
            "attention_mask": _on(self.module, np.concatenate([before, batch.mask], axis=1)),
            "position_ids": _on(self.module, positions),
            "use_cache": True,
        }
