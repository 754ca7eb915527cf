"""The optional backend: any model on a hub or in a folder, through transformers, on the CPU or a GPU.

Only safetensors weights are read and no code from a model's repository is ever run. Single precision on the CPU,
bfloat16 on a GPU.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from turnwise.errors import TurnwiseError, in_brief
from turnwise.models.kinds import Model
from turnwise.models.requests import WHOLE, Window
from turnwise.models.text import CausalModel, ClassifierModel, EncoderModel, MaskedModel, Tokens

Kind = Literal["encoder", "masked-lm", "causal-lm", "classifier"]
CLASSES = {
    "encoder": "AutoModel",
    "masked-lm": "AutoModelForMaskedLM",
    "causal-lm": "AutoModelForCausalLM",
    "classifier": "AutoModelForSequenceClassification",
}
# Tokens of a batch: enough that no kernel is over before the next is sent.
# Batches are on their way while the results of an earlier one are used.
GPU_BUDGET, GPU_AHEAD = 131_072, 2
# How transformers begins to say so.
UNREACHABLE = "couldn't connect"
OFFSET_POSITIONS = {"roberta", "xlm-roberta", "camembert"}


def open_transformers(
    kind: Kind,
    name: str,
    *,
    device: str = "auto",
    head: str | None = None,
    window: Window | None = None,
    labels: Sequence[str] | None = None,
) -> Model:
    """The model of a hub name or folder. `head` picks a head of a folder that `turnwise train` wrote."""
    try:
        import torch

        from turnwise.models import torch_networks
    except ImportError:
        raise TurnwiseError(f"model '{name}' needs torch and transformers: pip install 'turnwise[torch]'") from None
    where = _device(device)
    if where == "cuda" and hasattr(torch.backends.cuda, "enable_cudnn_sdp"):
        # It makes a plan for each new shape of batch, which takes longer than the batch.
        torch.backends.cuda.enable_cudnn_sdp(False)
    dtype = torch.bfloat16 if where == "cuda" else torch.float32
    heads = Path(name) / "heads.json"
    trained = kind == "classifier" and heads.is_file()
    network = _load("encoder" if trained else kind, name, dtype).to(where).eval()
    window, labels_of = window or WHOLE, tuple(labels or ())
    wrapped: Any
    if trained:
        layout = json.loads(heads.read_text(encoding="utf-8"))
        head = head or next(iter(layout["heads"]))
        if head not in layout["heads"]:
            raise TurnwiseError(f"{name}: no head '{head}'; it has: {', '.join(layout['heads'])}")
        labels_of = labels_of or tuple(layout["heads"][head]["labels"])
        window = Window(first=layout["first_tokens"], second=layout["second_tokens"]) if window == WHOLE else window
        wrapped = torch_networks.TorchHead(network, Path(name) / "heads.safetensors", head, layout, labels_of)
    elif kind == "classifier":
        names = network.config.id2label
        wrapped = torch_networks.TorchClassifier(
            network, labels_of or tuple(names[i].lower() for i in range(len(names)))
        )
    else:
        classes = {"encoder": "TorchEncoder", "masked-lm": "TorchMaskedLM", "causal-lm": "TorchCausalLM"}
        wrapped = getattr(torch_networks, classes[kind])(network)
    tokens = _tokens(name, network.config, window)
    mark = f"{_identity(name, network.config)}|{kind}|{head}|{labels_of}|{window.key}|{dtype}"
    fingerprint = hashlib.sha256(mark.encode()).hexdigest()[:32]
    budget: dict[str, Any] = {"budget": GPU_BUDGET, "ahead": GPU_AHEAD} if where == "cuda" else {}
    models: dict[str, Any] = {
        "encoder": EncoderModel,
        "masked-lm": MaskedModel,
        "causal-lm": CausalModel,
        "classifier": ClassifierModel,
    }
    opened: Model = models[kind](wrapped, tokens, fingerprint, **budget)
    return opened


def _device(asked: str) -> str:
    import torch

    present = torch.cuda.is_available()
    if asked == "cuda" and not present:
        raise TurnwiseError("--device cuda: torch sees no GPU here; use --device cpu or auto")
    return "cuda" if present and asked != "cpu" else "cpu"


@contextmanager
def quiet_loading() -> Iterator[None]:
    """What transformers and the hub have to say about weights that they open is for their own users, not for ours."""
    import transformers
    from huggingface_hub.utils import logging as hub

    own: Any = transformers.utils.logging
    before, before_hub = own.get_verbosity(), hub.get_verbosity()
    own.set_verbosity_error()
    own.disable_progress_bar()
    # One line will say that a hub was not reached, and not one for each time that it was tried.
    hub.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        own.set_verbosity(before)
        hub.set_verbosity(before_hub)


def _load(kind: str, name: str, dtype: Any) -> Any:
    import transformers

    loader = getattr(transformers, CLASSES[kind])
    try:
        with quiet_loading():
            return loader.from_pretrained(name, dtype=dtype, use_safetensors=True, trust_remote_code=False)
    except (OSError, ValueError) as problem:
        reason = in_brief(problem)
        if UNREACHABLE in reason:
            folder = "download it where there is a network, and give --models its folder"
            raise TurnwiseError(f"model '{name}': no hub can be reached, and no copy is kept here; {folder}") from None
        raise TurnwiseError(
            f"model '{name}' cannot be loaded: it must be a folder or a reachable hub name with safetensors weights; "
            f"pickled weights are refused ({reason})"
        ) from None


def _tokens(name: str, config: Any, window: Window) -> Tokens:
    limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if limit is not None and config.model_type in OFFSET_POSITIONS:
        limit -= config.pad_token_id + 1
    local = Path(name) / "tokenizer.json"
    if local.is_file():
        return Tokens.from_bytes(local.read_bytes(), limit, window, config.bos_token_id, file=local)
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name, use_fast=True, trust_remote_code=False)
        return Tokens(tokenizer.backend_tokenizer, limit, window, config.bos_token_id)
    except (OSError, ValueError, AttributeError) as problem:
        reason = in_brief(problem)
        raise TurnwiseError(f"model '{name}' has no fast tokenizer that can be loaded ({reason})") from None


def _identity(name: str, config: Any) -> str:
    """What the weights are: the commit of a hub model, the hash of a folder's files."""
    folder = Path(name)
    if not folder.is_dir():
        return f"{name}@{getattr(config, '_commit_hash', None)}"
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")) + sorted(folder.glob("*.json")):
        digest.update(path.name.encode() + b"\0")
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
