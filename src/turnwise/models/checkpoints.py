"""`--models DIR` where DIR holds checkpoints as `turnwise train` writes them: they run through transformers.

That is how one's own models run on a GPU, and how they can be tried before a pack is built of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from turnwise.errors import TurnwiseError
from turnwise.models.protocols import Model
from turnwise.models.transformers_backend import GPU_BUDGET, Kind, open_transformers

ROLES: dict[str, tuple[str, Kind]] = {
    "BertModel": ("encoder", "encoder"),
    "BertForMaskedLM": ("masked-lm", "masked-lm"),
    "LlamaForCausalLM": ("causal-lm", "causal-lm"),
}
HEADS, RECURRENT = "heads.json", "maude.safetensors"


class CheckpointModels:
    """The checkpoints in a folder's folders, by the roles that they fill; opened when first asked for."""

    def __init__(self, folder: Path, device: str = "auto") -> None:
        self.name, self._device = folder.name, device
        self._places: dict[str, tuple[Path, Kind, str | None]] = {}
        self._recurrent: dict[str, Path] = {}
        self._models: dict[str, Model] = {}
        for inside in sorted(path for path in folder.iterdir() if path.is_dir()):
            self._add(inside)
        if not self.roles:
            raise TurnwiseError(f"{folder}: no checkpoint in its folders; give a pack, or folders of 'turnwise train'")

    def _add(self, folder: Path) -> None:
        if (folder / RECURRENT).is_file():
            self._recurrent["maude"] = folder
        elif (folder / HEADS).is_file():
            for head in json.loads((folder / HEADS).read_text(encoding="utf-8"))["heads"]:
                self._places[head] = (folder, "classifier", head)
                self._places.setdefault(f"{head}-trunk", (folder, "encoder", None))
        elif (folder / "config.json").is_file():
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            if known := ROLES.get((config.get("architectures") or [""])[0]):
                self._places[known[0]] = (folder, known[1], None)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that there is a checkpoint for."""
        return (*self._places, *self._recurrent)

    def label(self, roles: Iterable[str]) -> str:
        """The folder, and a hash of the weights that answer for these roles."""
        digest = hashlib.sha256()
        for role in sorted(roles):
            folder = self._recurrent.get(role) or self._places[role][0]
            for file in sorted(folder.glob("*.safetensors")):
                with file.open("rb") as content:
                    digest.update(hashlib.file_digest(content, "sha256").digest())
        return f"{self.name}#{digest.hexdigest()[:8]}"

    def model(self, role: str) -> Model:
        """The model of a role."""
        if role not in self._models:
            if role not in self.roles:
                raise TurnwiseError(f"no checkpoint for '{role}' among the models; there are: {', '.join(self.roles)}")
            self._models[role] = self._open_recurrent(role) if role in self._recurrent else self._open(role)
        return self._models[role]

    def _open(self, role: str) -> Model:
        folder, kind, head = self._places[role]
        return open_transformers(kind, str(folder), device=self._device, head=head)

    def _open_recurrent(self, role: str) -> Model:
        """A small network in numpy over the vectors of another checkpoint."""
        from turnwise.models.maude import MaudeModel, read_head
        from turnwise.models.tasks import EncoderModel
        from turnwise.models.utterances import UtteranceEncoder

        content = (self._recurrent[role] / RECURRENT).read_bytes()
        head, reading = read_head(content, RECURRENT)
        below = self.model(reading.role)
        if not isinstance(below, EncoderModel):
            raise TurnwiseError(f"'{role}' reads the encoder '{reading.role}', which is something else here")
        mark = f"{below.fingerprint}|{hashlib.sha256(content).hexdigest()}"
        fingerprint = hashlib.sha256(mark.encode()).hexdigest()[:32]
        encoder = UtteranceEncoder(below.network, below.tokens, reading)
        return MaudeModel(encoder, head, fingerprint, min(below.budget, GPU_BUDGET))


def holds_checkpoints(folder: Path) -> bool:
    """Whether a folder is one of these, and not a pack."""
    return folder.is_dir() and any((inside / "config.json").is_file() for inside in folder.iterdir() if inside.is_dir())
