"""`--models DIR` where DIR holds models as `turnwise train` or transformers save them: they run through transformers.

That is how one's own models run on a GPU, how they can be tried before a pack is built of them, and how a model that
somebody else published answers for a role.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.errors import TurnwiseError
from turnwise.models.kinds import Model, ModelSource
from turnwise.models.transformers_backend import GPU_BUDGET, Kind, open_transformers

if TYPE_CHECKING:
    from turnwise.models.maude_head import Head
    from turnwise.models.utterances import Reading

# By how an architecture's name ends; a classifier's role is not in its architecture, so its folder has to name it.
KINDS: dict[str, Kind] = {
    "ForMaskedLM": "masked-lm",
    "ForCausalLM": "causal-lm",
    "LMHeadModel": "causal-lm",
    "ForSequenceClassification": "classifier",
    "Model": "encoder",
}
CLASSIFIERS = ("nup", "dr-f", "vup", "nli", "emotion")
CONFIG, HEADS, RECURRENT = "config.json", "heads.json", "maude.safetensors"


class CheckpointModels(ModelSource):
    """The checkpoint in a folder, or those in its folders, by the roles that they fill; opened when first asked for."""

    def __init__(self, folder: Path, device: str = "auto") -> None:
        self.name, self._device = folder.resolve().name, device
        self._places: dict[str, tuple[Path, Kind, str | None]] = {}
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
            kind = next((kind for end, kind in KINDS.items() if architecture.endswith(end)), None)
            role = folder.resolve().name if kind == "classifier" else kind
            if kind is None or role is None or (kind == "classifier" and role not in CLASSIFIERS):
                name_it = f"; name its folder {', '.join(CLASSIFIERS)}" if kind else ""
                self._unused.append(f"{folder} ({architecture}{name_it})")
            else:
                self._places[role] = (folder, kind, None)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that there is a checkpoint for."""
        return (*self._places, *self._recurrent)

    def label(self, roles: Iterable[str]) -> str:
        """The folder, and a hash of the weights that answer for these roles."""
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
        """Of the weights in a folder, as they were when first asked about."""
        if folder not in self._hashes:
            digest = hashlib.sha256()
            for file in sorted(folder.glob("*.safetensors")):
                with file.open("rb") as content:
                    digest.update(hashlib.file_digest(content, "sha256").digest())
            self._hashes[folder] = digest.digest()
        return self._hashes[folder]

    def model(self, role: str) -> Model:
        """The model of a role."""
        if role not in self._models:
            self._folder(role)
            self._models[role] = self._open_recurrent(role) if role in self._recurrent else self._open(role)
        return self._models[role]

    def _open(self, role: str) -> Model:
        folder, kind, head = self._places[role]
        return open_transformers(kind, str(folder), device=self._device, head=head)

    def _open_recurrent(self, role: str) -> Model:
        """A small network in numpy over the vectors of another checkpoint."""
        from turnwise.models.maude import MaudeModel
        from turnwise.models.text import EncoderModel
        from turnwise.models.utterances import UtteranceEncoder

        head, reading, content = self._head(role)
        below = self.model(reading.role)
        if not isinstance(below, EncoderModel):
            raise TurnwiseError(f"'{role}' reads the encoder '{reading.role}', which is something else here")
        mark = f"{below.fingerprint}|{hashlib.sha256(content).hexdigest()}"
        fingerprint = hashlib.sha256(mark.encode()).hexdigest()[:32]
        encoder = UtteranceEncoder(below.network, below.tokens, reading)
        return MaudeModel(encoder, head, fingerprint, min(below.budget, GPU_BUDGET))

    def _head(self, role: str) -> tuple[Head, Reading, bytes]:
        from turnwise.models.maude_head import read_head

        content = (self._recurrent[role] / RECURRENT).read_bytes()
        return *read_head(content, RECURRENT), content


def holds_checkpoints(folder: Path) -> bool:
    """Whether a folder is one of these, and not a pack."""
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
