"""Models that run through transformers: a folder of checkpoints, the papers' models by hub name.

Only safetensors weights are read, and no code from a model's repository is ever run. Single precision on the CPU,
bfloat16 on a GPU.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.errors import TurnwiseError, in_brief
from turnwise.models.kinds import KINDS, Model, ModelKind, ModelSource
from turnwise.models.requests import WHOLE, Window
from turnwise.models.text import EncoderModel, TextModel, Tokens

if TYPE_CHECKING:
    from turnwise.models.maude import Head, TrunkReading

# Tokens of a batch: enough that no kernel is over before the next is sent.
# Batches are on their way while the results of an earlier one are used.
GPU_BUDGET, GPU_AHEAD = 131_072, 2
# The beginning of the message of transformers.
UNREACHABLE = "couldn't connect"
OFFSET_POSITIONS = {"roberta", "xlm-roberta", "camembert"}
CONFIG, HEADS, RECURRENT = "config.json", "heads.json", "maude.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """A folder or hub name, as a kind of model opens it. `head` picks a head of a folder of `turnwise train`."""

    kind: str
    name: str
    device: str = "auto"
    head: str | None = None
    window: Window = WHOLE
    labels: tuple[str, ...] = ()

    def load(self, auto: str) -> Any:
        """Return the module that a class of transformers loads, on its device."""
        try:
            import torch
            import transformers

            from turnwise.models import torch_networks as torch_networks
        except ImportError:
            text = f"model '{self.name}' needs torch and transformers: pip install 'turnwise[torch]'"
            raise TurnwiseError(text) from None
        where = _device(self.device)
        if where == "cuda" and hasattr(torch.backends.cuda, "enable_cudnn_sdp"):
            # It makes a plan for each new shape of batch, which takes longer than the batch.
            torch.backends.cuda.enable_cudnn_sdp(False)
        dtype = torch.bfloat16 if where == "cuda" else torch.float32
        loader = getattr(transformers, auto)
        try:
            with quiet_loading():
                module = loader.from_pretrained(self.name, dtype=dtype, use_safetensors=True, trust_remote_code=False)
        except (OSError, ValueError) as problem:
            reason = in_brief(problem)
            if UNREACHABLE in reason:
                folder = "download it where there is a network, and give `models` its folder"
                text = f"model '{self.name}': no hub can be reached, and no copy is kept here; {folder}"
                raise TurnwiseError(text) from None
            raise TurnwiseError(
                f"model '{self.name}' cannot be loaded: it must be a folder or a reachable hub name with safetensors "
                f"weights; pickled weights are refused ({reason})"
            ) from None
        return module.to(where).eval()

    def text_model(self, of: type[TextModel], network: Any) -> Model:
        """Return the model that reads text with a network whose module `load` gave."""
        module = network.module
        mark = f"{_identity(self.name, module.config)}|{self.kind}|{self.head}|{self.labels}|{self.window.key}"
        fingerprint = hashlib.sha256(f"{mark}|{module.dtype}".encode()).hexdigest()[:32]
        budget: dict[str, Any] = {}
        if module.device.type == "cuda":
            budget = {"budget": GPU_BUDGET, "ahead": GPU_AHEAD}
        return of(network, _tokens(self.name, module.config, self.window), fingerprint, **budget)


def open_transformers(
    kind: str,
    name: str,
    *,
    device: str = "auto",
    head: str | None = None,
    window: Window | None = None,
    labels: Sequence[str] | None = None,
) -> Model:
    """Return the model of a hub name or folder."""
    open_torch = KINDS.get(kind).open_torch
    if open_torch is None:
        raise TurnwiseError(f"model '{name}': expected a kind of model that opens checkpoints, got '{kind}'")
    return open_torch(Checkpoint(kind, name, device, head, window or WHOLE, tuple(labels or ())))


def _device(asked: str) -> str:
    import torch

    present = torch.cuda.is_available()
    if asked == "cuda" and not present:
        raise TurnwiseError("`device=cuda`: torch sees no GPU here; use `device=cpu` or auto")
    return "cuda" if present and asked != "cpu" else "cpu"


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Yield silence the loading messages of transformers and the hub, and restore their verbosity afterwards."""
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
    """Return the identity of the weights: the commit of a hub model, or the hash of a folder's files."""
    folder = Path(name)
    if not folder.is_dir():
        return f"{name}@{getattr(config, '_commit_hash', None)}"
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")) + sorted(folder.glob("*.json")):
        digest.update(path.name.encode() + b"\0")
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


class CheckpointModels(ModelSource):
    """The checkpoint in a folder, or those in its folders, by the roles that they fill; opened when first asked for."""

    def __init__(self, folder: Path, device: str = "auto") -> None:
        self.name, self._device = folder.resolve().name, device
        self._places: dict[str, tuple[Path, str, str | None]] = {}
        self._recurrent: dict[str, Path] = {}
        self._unused: list[str] = []
        self._models: dict[str, Model] = {}
        self._hashes: dict[Path, bytes] = {}
        inside = sorted(path for path in folder.iterdir() if path.is_dir())
        for one in [folder] if (folder / CONFIG).is_file() else inside:
            self._add(one)
        if not self.roles:
            raise TurnwiseError(
                f"{folder}: no checkpoint in its folders{self._left_out()}; "
                "give a pack, or folders of 'turnwise train' or of transformers"
            )

    def _add(self, folder: Path) -> None:
        if (folder / RECURRENT).is_file():
            self._recurrent["maude"] = folder
        elif (folder / HEADS).is_file():
            for head in _read(folder / HEADS)["heads"]:
                self._places[head] = (folder, "classifier", head)
                self._places.setdefault(f"{head}-trunk", (folder, "encoder", None))
        elif (folder / CONFIG).is_file():
            architecture = str((_read(folder / CONFIG).get("architectures") or ["no architecture"])[0])
            kind = next((kind for end, kind in _architectures().items() if architecture.endswith(end)), None)
            role = folder.resolve().name if kind is None or kind.folders else kind.name
            if kind is None or (kind.folders and role not in kind.folders):
                name_it = f"; name its folder {', '.join(kind.folders)}" if kind else ""
                self._unused.append(f"{folder} ({architecture}{name_it})")
            else:
                self._places[role] = (folder, kind.name, None)

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the roles of the checkpoints."""
        return (*self._places, *self._recurrent)

    def label(self, roles: Iterable[str]) -> str:
        """Return the folder, and a hash of the weights that answer for these roles."""
        digest = hashlib.sha256()
        for role in sorted(roles):
            digest.update(self._hash(self._folder(role)))
            if role in self._recurrent:
                digest.update(self._hash(self._folder(self._head(role)[1].role)))
        return f"{self.name}#{digest.hexdigest()[:8]}"

    def _folder(self, role: str) -> Path:
        if role not in self.roles:
            there = f"there are: {', '.join(self.roles)}{self._left_out()}"
            raise TurnwiseError(f"no checkpoint for '{role}' among the models; {there}")
        return self._recurrent.get(role) or self._places[role][0]

    def _left_out(self) -> str:
        return f" (not used: {', '.join(self._unused)})" if self._unused else ""

    def _hash(self, folder: Path) -> bytes:
        """Return the hash of the weights in a folder, computed once."""
        if folder not in self._hashes:
            digest = hashlib.sha256()
            weights = sorted(folder.glob("*.safetensors"))
            for file in weights or sorted(file for file in folder.iterdir() if file.is_file()):
                with file.open("rb") as content:
                    digest.update(hashlib.file_digest(content, "sha256").digest())
            self._hashes[folder] = digest.digest()
        return self._hashes[folder]

    def model(self, role: str) -> Model:
        """Return the model of a role."""
        if role not in self._models:
            self._folder(role)
            self._models[role] = self._open_recurrent(role) if role in self._recurrent else self._open(role)
        return self._models[role]

    def _open(self, role: str) -> Model:
        folder, kind, head = self._places[role]
        return open_transformers(kind, str(folder), device=self._device, head=head)

    def _open_recurrent(self, role: str) -> Model:
        """Return a small network in numpy over the vectors of another checkpoint."""
        from turnwise.models.maude import MaudeModel, UtteranceEncoder

        head, reading, content = self._head(role)
        below = self.model(reading.role)
        if not isinstance(below, EncoderModel):
            raise TurnwiseError(f"'{role}' reads the encoder '{reading.role}', which is something else here")
        mark = f"{below.fingerprint}|{hashlib.sha256(content).hexdigest()}"
        fingerprint = hashlib.sha256(mark.encode()).hexdigest()[:32]
        encoder = UtteranceEncoder(below.network, below.tokens, reading)
        return MaudeModel(encoder, head, fingerprint, min(below.budget, GPU_BUDGET))

    def _head(self, role: str) -> tuple[Head, TrunkReading, bytes]:
        from turnwise.models.maude import read_head

        content = (self._recurrent[role] / RECURRENT).read_bytes()
        return *read_head(content, RECURRENT), content


def _architectures() -> dict[str, ModelKind]:
    """Return the kinds by the ends of the names of their architectures, the longest first."""
    ends = {end: kind for _, kind in KINDS.items() for end in kind.architectures}
    return dict(sorted(ends.items(), key=lambda item: -len(item[0])))


def holds_checkpoints(folder: Path) -> bool:
    """Return whether a folder holds a checkpoint or folders of checkpoints."""
    if not folder.is_dir():
        return False
    return any((one / CONFIG).is_file() for one in (folder, *folder.iterdir()) if one.is_dir())


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise TurnwiseError(f"{file}: not readable as JSON ({problem}); save the model again") from None
    if not isinstance(content, dict):
        raise TurnwiseError(f"{file}: not an object; save the model again")
    return content


@dataclass(frozen=True)
class PaperModel:
    """A hub model and how its paper used it. Without labels the model's own are used."""

    kind: str
    name: str
    window: Window = WHOLE
    labels: tuple[str, ...] = ()
    trained: bool = True


# Where `trained` is false the paper fine-tuned the model on its own dialogues and the hub holds only the base:
# a fresh classifier head would give random scores, so it is refused.
PAPER: dict[str, PaperModel] = {
    "encoder": PaperModel("encoder", "bert-base-uncased"),
    "encoder-roberta": PaperModel("encoder", "roberta-base"),
    "encoder-roberta-large": PaperModel("encoder", "roberta-large"),
    "encoder-distilbert": PaperModel("encoder", "distilbert-base-uncased"),
    "masked-lm": PaperModel("masked-lm", "roberta-base"),
    "masked-lm-bert": PaperModel("masked-lm", "bert-base-uncased"),
    "causal-lm": PaperModel("causal-lm", "gpt2"),
    "nli": PaperModel(
        "classifier",
        "roberta-large-mnli",
        Window(total=128, keep="start"),
        ("contradiction", "neutral", "entailment"),
    ),
    "nup": PaperModel("classifier", "bert-base-uncased", trained=False),
    "dr-f": PaperModel("classifier", "roberta-base", Window(total=128, keep="start"), trained=False),
    "vup": PaperModel("classifier", "bert-base-uncased", Window(total=25), trained=False),
    "emotion": PaperModel("classifier", "bert-base-uncased", trained=False),
}


class PaperModels(ModelSource):
    """The papers' models by role; loaded when first asked for."""

    name = "paper"

    def __init__(self, device: str = "auto") -> None:
        self._device = device
        self._models: dict[str, Model] = {}

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the roles that the hub has a ready model for."""
        return tuple(role for role, source in PAPER.items() if source.trained)

    def label(self, roles: Iterable[str]) -> str:
        """Return the names of the models that answer for these roles."""
        return "+".join(dict.fromkeys(self._source(role).name for role in sorted(roles)))

    def _source(self, role: str) -> PaperModel:
        if role not in PAPER:
            has = f"it has: {', '.join(self.roles)}"
            raise TurnwiseError(f"`models=paper` has no model for '{role}'; give other `models` ({has})")
        return PAPER[role]

    def model(self, role: str) -> Model:
        """Return the model of a role."""
        source = self._source(role)
        if not source.trained:
            raise TurnwiseError(
                f"`models=paper`: '{role}' was {source.name} fine-tuned on dialogues, of which the hub has no copy; "
                f"train one (see 'turnwise train --help'), and give `models` its folder or a pack that is built with it"
            )
        if role not in self._models:
            self._models[role] = open_transformers(
                source.kind, source.name, device=self._device, window=source.window, labels=source.labels
            )
        return self._models[role]
