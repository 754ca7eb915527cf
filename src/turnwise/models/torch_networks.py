"""The four networks over torch modules. Imported only where torch is installed.

Every method has a `begin_` form, which starts the work and gives back a function that waits for its numbers: on a GPU
the next batch is laid out and sent off while this one is still computed. Nothing in between may wait for the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from turnwise.errors import TurnwiseError
from turnwise.models.kinds import Batch, CausalLM, Classifier, Encoder, Later, MaskedLM
from turnwise.models.requests import Floats, Ints
from turnwise.models.text import check_layer

# The vocabulary-sized head runs on so many places at a time, so that its logits fit into memory.
MOST_PLACES = {"cpu": 2048, "cuda": 8192}
# Models that take a ready mask of who sees whom as it is, from version 5 of transformers on. Given one for each token,
# they would first look at it on the GPU to find out whether it hides anything at all, and wait for that.
TAKE_READY_MASKS = {"bert", "roberta", "xlm-roberta", "camembert", "distilbert", "llama"}
SINCE = 5


def _on(module: Any, array: npt.NDArray[Any]) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if module.device.type != "cuda":
        return tensor
    # From pinned memory the copy goes on while the GPU still works on what came before.
    return tensor.pin_memory().to(module.device, non_blocking=True)


def _takes_ready_mask(module: Any) -> bool:
    import transformers

    config, version = module.config, int(transformers.__version__.partition(".")[0])
    known = version >= SINCE and config.model_type in TAKE_READY_MASKS
    return known and getattr(config, "_attn_implementation", None) == "sdpa"


def _inputs(module: Any, batch: Batch) -> dict[str, Tensor | None]:
    inputs: dict[str, Tensor | None] = {"input_ids": _on(module, batch.ids)}
    if not _takes_ready_mask(module):
        inputs["attention_mask"] = _on(module, batch.mask)
    else:
        # Without any padding there is nothing to hide, and the fastest kernels of all can be used.
        hidden = not batch.mask.all()
        inputs["attention_mask"] = _on(module, batch.mask[:, None, None, :] == 1) if hidden else None
    if getattr(module.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = _on(module, batch.types)
    return inputs


def _later(tensor: Tensor) -> Later:
    """Return a function that waits for the tensor's numbers and returns them."""
    tensor = tensor.detach().float()
    if tensor.device.type != "cuda":
        array: Floats = tensor.numpy()
        return lambda: array
    here = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    here.copy_(tensor, non_blocking=True)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()

    def wait() -> Floats:
        arrived.synchronize()
        numbers: Floats = here.numpy()
        return numbers

    return wait


def _likelihood(head: Callable[[Tensor], Tensor], states: Tensor, wanted: Tensor) -> Tensor:
    """Return the log-probability of each wanted id, by a head that gives a number for every word of the vocabulary."""
    found = []
    most = MOST_PLACES["cuda" if states.device.type == "cuda" else "cpu"]
    for part, ids in zip(torch.split(states, most), torch.split(wanted, most), strict=True):
        logits = head(part).float()
        found.append(logits.gather(-1, ids[:, None])[:, 0] - torch.logsumexp(logits, dim=-1))
    return torch.cat(found)


@dataclass
class TorchEncoder(Encoder):
    """Hidden states of any layer."""

    module: Any

    @property
    def layers(self) -> int:
        """See `Encoder`."""
        return int(self.module.config.num_hidden_layers) + 1

    @torch.inference_mode()
    def begin_hidden(self, batch: Batch, layer: int) -> Later:
        """Return a function that waits for `hidden`."""
        states = self.module(**_inputs(self.module, batch), output_hidden_states=True).hidden_states
        check_layer(layer, len(states))
        return _later(states[layer])

    @torch.inference_mode()
    def pooled_layers(self, batch: Batch, layers: Sequence[int], pooling: str) -> list[Floats]:
        """Return one vector per row for each of several layers, in one pass, pooled on the device."""
        states = self.module(**_inputs(self.module, batch), output_hidden_states=True).hidden_states
        mask = _on(self.module, batch.mask)[..., None]
        begun = [_later(pool(states[layer].float(), mask, pooling)) for layer in layers]
        return [wait() for wait in begun]


def pool(states: Tensor, mask: Tensor, pooling: str) -> Tensor:
    if pooling == "cls":
        return states[:, 0]
    if pooling == "mean":
        return (states * mask).sum(dim=1) / mask.sum(dim=1)
    return states.masked_fill(mask == 0, -1e4).amax(dim=1)


@dataclass
class TorchMaskedLM(MaskedLM):
    """Likelihood at masked places; the vocabulary-sized head runs on those places only."""

    module: Any

    @torch.inference_mode()
    def begin_log_probs(self, batch: Batch, rows: Ints, places: Ints, wanted: Ints) -> Later:
        """Return a function that waits for `log_probs`."""
        states = self.module.base_model(**_inputs(self.module, batch)).last_hidden_state
        chosen = states[_on(self.module, rows), _on(self.module, places)]
        return _later(_likelihood(self._head, chosen, _on(self.module, wanted)))

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
class TorchClassifier(Classifier):
    """A sequence classifier with its own head."""

    module: Any
    labels: tuple[str, ...]

    @torch.inference_mode()
    def begin_logits(self, batch: Batch) -> Later:
        """Return a function that waits for `logits`."""
        return _later(self.module(**_inputs(self.module, batch)).logits)


class TorchHead(Classifier):
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
    def begin_logits(self, batch: Batch) -> Later:
        """Return a function that waits for `logits`."""
        states = self.module(**_inputs(self.module, batch)).last_hidden_state.float()
        pooled = pool(states, _on(self.module, batch.mask)[..., None], self._pooling)
        inner = self._activation(nn.functional.linear(pooled, *self._dense))
        return _later(nn.functional.linear(inner, *self._out))


@dataclass
class TorchCausalLM(CausalLM):
    """Likelihood after a prefix, whose keys and values are computed once for all rows that share it."""

    module: Any

    @torch.inference_mode()
    def begin_log_probs(self, prefixes: Batch, source: Ints, batch: Batch, wanted: Ints) -> Later:
        """Return a function that waits for `log_probs`."""
        past, before = None, prefixes.mask[source]
        if prefixes.ids.shape[1]:
            past = self.module.base_model(**self._inputs(prefixes, prefixes.mask[:, :0])).past_key_values
            past.batch_select_indices(_on(self.module, source))
        states = self.module.base_model(**self._inputs(batch, before), past_key_values=past).last_hidden_state
        # Whole numbers, not yes or no: how many of these there are would have to come back from the GPU first.
        chosen = np.flatnonzero(batch.mask)
        flat = states.reshape(-1, states.shape[-1])[_on(self.module, chosen)]
        ids = _on(self.module, wanted.reshape(-1)[chosen])
        wait = _later(_likelihood(self.module.get_output_embeddings(), flat, ids))

        def laid_out() -> Floats:
            found = np.zeros(batch.ids.shape, dtype=np.float32)
            found.reshape(-1)[chosen] = wait()
            return found

        return laid_out

    @torch.inference_mode()
    def advance(self, ids: Ints, past: Any) -> tuple[Floats, Any]:
        """See `CausalLM`."""
        before = 0 if past is None else past.get_seq_length()
        batch = Batch(ids, np.ones_like(ids), np.zeros_like(ids))
        inputs = self._inputs(batch, np.ones((len(ids), before), dtype=np.int64))
        read = self.module.base_model(**inputs, past_key_values=past)
        return _later(self.module.get_output_embeddings()(read.last_hidden_state[:, -1]))(), read.past_key_values

    def select(self, past: Any, rows: Ints) -> Any:
        """See `CausalLM`."""
        past.batch_select_indices(_on(self.module, rows))
        return past

    def _inputs(self, batch: Batch, before: Ints) -> dict[str, Any]:
        # Padding is at place 0: beside a long prefix it would lie beyond the last position of the model.
        positions = (before.sum(axis=1, keepdims=True) + np.arange(batch.ids.shape[1])) * batch.mask
        if _takes_ready_mask(self.module):
            length = batch.ids.shape[1]
            earlier = np.broadcast_to(np.tri(length, dtype=bool), (len(before), length, length))
            seen = np.broadcast_to(before[:, None, :] == 1, (len(before), length, before.shape[1]))
            mask = np.concatenate([seen, earlier], axis=2)[:, None]
        else:
            mask = np.concatenate([before, batch.mask], axis=1)
        return {
            "input_ids": _on(self.module, batch.ids),
            "attention_mask": _on(self.module, mask),
            "position_ids": _on(self.module, positions),
            "use_cache": True,
        }
