"""Open packs: folders of models that answer every request of the metrics, installed or given as a folder."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from turnwise.errors import TurnwiseError, in_brief
from turnwise.models.kinds import KINDS, Model, ModelSource
from turnwise.models.manifest import MANIFEST, Manifest, RoleEntry, read_checked, read_manifest
from turnwise.models.onnx.session import thread_count
from turnwise.models.text import Tokens, read_tokenizer
from turnwise.plugins import Registry

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

DEFAULT_PACK = "turnwise-mini"
CALIBRATION = "calibration.json"
INSTALL = f"pip install ./packs/{DEFAULT_PACK}"
Precision = Literal["fp32", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
# Between a pack and the precision that it should compute in, as in turnwise-mini@int8.
AT = "@"


def _folder_of(package: types.ModuleType) -> Path:
    """Return the folder of a package that is a pack."""
    folder = Path(package.__path__[0])
    if not (folder / MANIFEST).is_file():
        raise TurnwiseError(f"package '{package.__name__}': expected {MANIFEST} in {folder}")
    return folder


# Installed packs; an entry point names the package whose folder holds the manifest.
PACKS = Registry[Path](
    "pack",
    "turnwise.packs",
    adapt=lambda _, package: _folder_of(package),
    hint=f"Fix: {INSTALL}, or give a folder with a {MANIFEST} or with checkpoints, or 'paper'",
)


class Pack(ModelSource):
    """A pack on disk. Roles are opened when first asked for; every file is checked against its hash first.

    `precision` is that of its arithmetic: fp32, in which a text scores the same everywhere, or int8, which is faster.
    """

    def __init__(self, folder: Path, precision: Precision = "fp32") -> None:
        self.folder, self.precision = folder, precision
        self.manifest: Manifest = read_manifest(folder)
        self.name = self.manifest.name if precision == "fp32" else f"{self.manifest.name}{AT}{precision}"
        self._models: dict[str, Model] = {}
        self._sessions: dict[str, InferenceSession] = {}
        self._tables: dict[str, dict[str, npt.NDArray[Any]]] = {}
        self._tokenizers: dict[str, Tokenizer] = {}

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that this pack has a model for."""
        return tuple(self.manifest.roles)

    def model(self, role: str) -> Model:
        """The model of a role."""
        if role not in self._models:
            entry = self.manifest.role(role)
            open_onnx = KINDS.get(entry.kind).open_onnx
            if open_onnx is None:
                raise TurnwiseError(f"pack '{self.name}': '{role}' is a {entry.kind}, which no pack can hold")
            try:
                self._models[role] = open_onnx(self, role)
            except (TurnwiseError, MemoryError):
                raise
            except Exception as problem:  # each reader of files has its own classes of them
                where, why = f"{self.folder / entry.file}: not what its role '{role}' needs", in_brief(problem)
                raise TurnwiseError(f"{where} ({why}); build the pack again") from None
        return self._models[role]

    def fingerprint(self, role: str) -> str:
        """What the model of a role will call itself."""
        found = self.manifest.fingerprint(role)
        # What has a tokenizer is computed; tables are the same in every precision.
        computed = self.manifest.role(role).tokenizer is not None
        return f"{found}-{self.precision}" if computed and self.precision != "fp32" else found

    def open_together(self, roles: Iterable[str]) -> None:
        """Open the files of several roles at a time: most of it is work that threads share."""
        wanted = {entry.file: entry for entry in map(self.manifest.role, roles) if entry.tokenizer is not None}
        closed = [entry for name, entry in wanted.items() if name not in self._sessions]
        if len(closed) < 2:
            return
        for entry in closed:
            self.word_table(entry)
        with ThreadPoolExecutor(thread_count()) as threads:
            list(threads.map(self._session, closed))

    @cached_property
    def calibration(self) -> Mapping[str, Any]:
        """Means, deviations and quantiles of metrics computed with this pack, by metric; empty if it brings none."""
        return json.loads(self.read(CALIBRATION)) if CALIBRATION in self.manifest.files else {}

    def read(self, name: str) -> bytes:
        """Return the content of a file after checking its hash."""
        return read_checked(self.folder, name, self.manifest.files[name], links=self._installed)

    @cached_property
    def _installed(self) -> bool:
        """Whether the folder belongs to an installed distribution, which may link to files elsewhere."""
        return self.folder in installed_packs().values()

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        """The threads that batches run in, each batch in one: they never wait for each other as parts of one would."""
        return ThreadPoolExecutor(thread_count(), "turnwise")

    def tokens(self, role: str) -> Tokens:
        """Return the tokenizer of a role."""
        entry = self.manifest.role(role)
        if entry.tokenizer is None:
            raise TurnwiseError(f"pack '{self.name}': '{entry.file}' has no tokenizer in the manifest")
        if entry.tokenizer not in self._tokenizers:
            content = self.read(entry.tokenizer)
            self._tokenizers[entry.tokenizer] = read_tokenizer(content, self.folder / entry.tokenizer)
        return Tokens(self._tokenizers[entry.tokenizer], entry.max_length, entry.window, entry.begin)

    def session(self, role: str) -> InferenceSession:
        """Return the open file of a role; roles that are heads of one file share it."""
        return self._session(self.manifest.role(role))

    def _session(self, entry: RoleEntry) -> InferenceSession:
        from turnwise.models.onnx.session import open_session

        if entry.file not in self._sessions:
            content, path, table = self.read(entry.file), str(self.folder / entry.file), self.word_table(entry)
            if self.precision == "int8":
                from turnwise.models.onnx.int8 import in_whole_numbers

                content = in_whole_numbers(content, path, table)
            self._sessions[entry.file] = open_session(content, path, table)
        return self._sessions[entry.file]

    def word_table(self, entry: RoleEntry) -> Mapping[str, npt.NDArray[Any]]:
        """The word embeddings that several files share: all rows as whole numbers, then their scales."""
        if entry.words is None or entry.words_shape is None:
            return {}
        if entry.words not in self._tables:
            content, (rows, width) = self.read(entry.words), entry.words_shape
            if len(content) != rows * (width + 4):
                raise TurnwiseError(f"{self.folder / entry.words}: not a table of {rows} x {width}")
            numbers = np.frombuffer(content, dtype=np.int8, count=rows * width).reshape(rows, width)
            scales = np.frombuffer(content, dtype="<f4", offset=rows * width).reshape(rows, 1)
            self._tables[entry.words] = {"words": numbers, "word_scales": scales}
        return self._tables[entry.words]


def installed_packs() -> dict[str, Path]:
    """Return the folder of every installed pack by its name."""
    return dict(PACKS.items())


def load_pack(where: str | Path | None = None) -> Pack:
    """Return the pack in a folder, or the installed one of this name; the default pack without either.

    `@int8` after either has it compute in whole numbers.
    """
    if where is not None and (Path(where) / MANIFEST).is_file():
        return Pack(Path(where))
    plain, at, precision = str(where or "").rpartition(AT)
    if at:
        if precision not in PRECISIONS:
            raise TurnwiseError(f"models '{where}': after {AT} comes {' or '.join(PRECISIONS)}")
        return Pack(load_pack(plain or None).folder, precision)
    return Pack(PACKS.get(DEFAULT_PACK if where is None else str(where)))


def load_models(where: str | Path | None = None, device: str = "auto") -> ModelSource:
    """What `models` means: a pack, a folder with checkpoints, or `paper` for the models that the papers used."""
    if where == "paper":
        from turnwise.models.sources import PaperModels

        return PaperModels(device)
    if where is not None and not (Path(where) / MANIFEST).is_file():
        from turnwise.models.sources import CheckpointModels, holds_checkpoints

        if holds_checkpoints(Path(where)):
            return CheckpointModels(Path(where), device)
    pack = load_pack(where)
    if device == "cuda":
        sys.stderr.write(f"note: the pack '{pack.name}' runs on the CPU; models of transformers run on CUDA\n")
    return pack
