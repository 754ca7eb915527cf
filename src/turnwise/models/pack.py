"""Packs: folders of models with a manifest of their roles, files and hashes."""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
import types
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from turnwise.errors import TurnwiseError, in_brief
from turnwise.files import SEALED, unsealed
from turnwise.models.kinds import KINDS, Model, ModelSource
from turnwise.models.onnx.session import thread_count
from turnwise.models.requests import WHOLE, Lookup, Request, TokenScores, Window
from turnwise.models.text import Tokens, read_tokenizer
from turnwise.plugins import Registry

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer


MANIFEST = "manifest.json"
FORMAT = 1
KEYS = frozenset({"format", "name", "version", "licence", "languages", "files", "roles"})
SUFFIXES = frozenset({".onnx", ".safetensors", ".json", ".txt", ".bin"})


@dataclass(frozen=True)
class FileEntry:
    """The hash and the size of a file."""

    sha256: str
    size: int


@dataclass(frozen=True)
class RoleEntry:
    """One role: its files, how to use them, and its model card."""

    kind: str
    file: str
    tokenizer: str | None = None
    words: str | None = None
    words_shape: tuple[int, int] | None = None
    head: str | None = None
    weights: str | None = None
    labels: tuple[str, ...] = ()
    pooling: str | None = None
    max_length: int | None = None
    begin: int | None = None
    window: Window = WHOLE
    card: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> list[str]:
        """Return the names of the files of this role."""
        return [name for name in (self.file, self.words, self.tokenizer, self.weights) if name]


@dataclass(frozen=True)
class Manifest:
    """The whole pack."""

    name: str
    version: str
    licence: str
    languages: tuple[str, ...]
    files: Mapping[str, FileEntry]
    roles: Mapping[str, RoleEntry]

    def role(self, role: str) -> RoleEntry:
        """Return the entry of a role."""
        if role not in self.roles:
            has = f"it has: {', '.join(self.roles)}"
            raise TurnwiseError(f"pack '{self.name}' has no model for '{role}'; give `models` that do ({has})")
        return self.roles[role]

    def fingerprint(self, role: str) -> str:
        """Return a hash of everything that a role's answers depend on."""
        entry = self.role(role)
        facts = [entry.kind, entry.head, entry.labels, entry.max_length, entry.begin, entry.window.key]
        hashes = [self.files[name].sha256 for name in entry.files]
        return hashlib.sha256(json.dumps([facts, hashes]).encode()).hexdigest()[:32]


def read_manifest(folder: Path) -> Manifest:
    """Read and check a manifest, once until it changes; files are not opened yet."""
    path = folder / MANIFEST
    try:
        facts = path.stat()
        return _read(path, facts.st_mtime_ns, facts.st_size, facts.st_ino)
    except OSError:
        raise TurnwiseError(f"{folder}: not a pack (no {MANIFEST} that can be read)") from None


@lru_cache(maxsize=8)
def _read(path: Path, *_written: int) -> Manifest:
    text = path.read_bytes()
    try:
        # Version 0.1 wrote no seal.
        content = unsealed(text) if text.startswith(SEALED) else json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise TurnwiseError(f"{path}: not valid JSON, or damaged ({in_brief(problem)})") from None
    try:
        return _parse(content)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise TurnwiseError(f"{path}: not a pack's manifest ({type(problem).__name__}: {problem})") from None


def _parse(content: Any) -> Manifest:
    if content["format"] != FORMAT:
        raise ValueError(f"format {content['format']!r}; this version reads format {FORMAT}")
    # A damaged seal would look like a key.
    if strange := sorted(set(content) - KEYS):
        raise ValueError(f"unknown key {strange[0]!r}")
    files = {name: FileEntry(str(of["sha256"]), int(of["size"])) for name, of in content["files"].items()}
    for name in files:
        check_name(name)
    roles = {role: _parse_role(of) for role, of in content["roles"].items()}
    for role, entry in roles.items():
        unlisted = [name for name in entry.files if name not in files]
        if unlisted:
            raise ValueError(f"role '{role}' names '{unlisted[0]}', which has no hash under files")
    return Manifest(
        str(content["name"]),
        str(content["version"]),
        str(content["licence"]),
        tuple(content.get("languages", ())),
        files,
        roles,
    )


def _parse_role(of: Mapping[str, Any]) -> RoleEntry:
    try:
        KINDS.get(of["kind"])
    except TurnwiseError as problem:
        raise ValueError(str(problem)) from None
    plain = dict(of)
    plain["labels"] = tuple(of.get("labels", ()))
    plain["window"] = window = Window(**of.get("window", {}))
    for length in (of.get("max_length"), window.total, window.first, window.second):
        if length is not None and (not isinstance(length, int) or length < 1):
            raise ValueError(f"{length!r} is no number of tokens")
    if of.get("words_shape"):
        plain["words_shape"] = (int(of["words_shape"][0]), int(of["words_shape"][1]))
    return RoleEntry(**plain)


def check_name(name: str) -> None:
    """Refuse a name that could lead out of the pack's folder or to a kind of file that packs do not hold."""
    if PurePath(name).name != name or name in {"", ".", ".."} or "\\" in name or ":" in name:
        raise ValueError(f"'{name}' is not a plain file name, and a pack may not name files outside its folder")
    if PurePath(name).suffix not in SUFFIXES:
        raise ValueError(f"'{name}' is not of a kind that packs hold: {', '.join(sorted(SUFFIXES))}")


def read_checked(folder: Path, name: str, expected: FileEntry, *, links: bool = False) -> bytes:
    """Return the content of a file after comparing it with the manifest; refuse a link unless `links`."""
    path = folder / name
    if not path.is_file() or (path.is_symlink() and not links):
        raise TurnwiseError(f"{path}: missing from the pack (or not a plain file); install the pack again")
    content = path.read_bytes()
    if len(content) != expected.size or hashlib.sha256(content).hexdigest() != expected.sha256:
        raise TurnwiseError(f"{path}: damaged or swapped (its SHA-256 is not the manifest's); install the pack again")
    return content


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
        """Return the roles that this pack has a model for."""
        return tuple(self.manifest.roles)

    def model(self, role: str) -> Model:
        """Return the model of a role."""
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
        """Return the fingerprint of the model of a role, with the precision if it is not fp32."""
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
        """Return means, deviations and quantiles of metrics computed with this pack, by metric; possibly empty."""
        return json.loads(self.read(CALIBRATION)) if CALIBRATION in self.manifest.files else {}

    def read(self, name: str) -> bytes:
        """Return the content of a file after checking its hash."""
        return read_checked(self.folder, name, self.manifest.files[name], links=self._installed)

    @cached_property
    def _installed(self) -> bool:
        """Return whether the folder belongs to an installed distribution, which may link to files elsewhere."""
        return self.folder in installed_packs().values()

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        """Return the threads that batches run in, one batch in each."""
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
        """Return the word embeddings that several files share: all rows as whole numbers, then their scales."""
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
    """Open a pack of models.

    Args:
        where: A folder, or the name of an installed pack; default: the bundled one. Append `@int8` for faster integer
            arithmetic.

    Returns:
        The pack, whose models are opened when they are first needed.

    >>> import turnwise as tw
    >>> tw.load_pack("turnwise-mini@int4")
    Traceback (most recent call last):
    ...
    turnwise.errors.TurnwiseError: models 'turnwise-mini@int4': after @ comes fp32 or int8
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
    """Return the models that `models` names: a pack, a folder with checkpoints, or `paper`."""
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


@dataclass(frozen=True)
class Checked:
    """A role that was opened and answered: what it is, how much is read for it, how long opening took."""

    role: str
    kind: str
    file: str
    size: int
    seconds: float


def verify_pack(where: str | Path | None = None) -> list[Checked]:
    """Check every file's hash, then probe every role; raise the first fault."""
    pack = load_pack(where)
    for name in pack.manifest.files:
        pack.read(name)
    checked = []
    for role, of in pack.manifest.roles.items():
        started = time.perf_counter()
        _ask(pack, role, of)
        size = sum(pack.manifest.files[name].size for name in of.files)
        checked.append(Checked(role, of.kind, of.file, size, time.perf_counter() - started))
    return checked


def _ask(pack: Pack, role: str, entry: RoleEntry) -> None:
    kind = KINDS.get(entry.kind)
    pack.model(role)
    if kind.probe is None:
        return
    request = kind.probe(role)
    try:
        answer = _answer(pack, request)
        _, numbers = kind.encode_answer(answer)
    except TurnwiseError:
        raise
    except Exception as problem:
        raise TurnwiseError(f"pack '{pack.name}', role '{role}': does not answer ({problem})") from None
    if not _is_sound(request, answer, numbers, entry):
        raise TurnwiseError(f"pack '{pack.name}', role '{role}': answers with numbers that make no sense")


def _answer(pack: Pack, request: Request) -> Any:
    model = pack.model(request.role)
    rows = model.rows(request)
    results = model.run(rows) if rows else [_answer(pack, one) for one in model.asks(request)]
    return model.answer(request, rows, results)


def _is_sound(request: Request, answer: Any, numbers: NDArray[Any], entry: RoleEntry) -> bool:
    finite = np.isfinite(numbers)
    if entry.labels:
        return tuple(answer) == entry.labels and math.isclose(numbers.sum(), 1.0, abs_tol=1e-6)
    if isinstance(answer, TokenScores) and not all(p <= 1e-5 for p in answer.log_probs):
        return False
    # A table may have none of the words that it is asked for.
    return bool(numbers.size) and (isinstance(request, Lookup) or bool(finite.all()))


def pack_card(where: str | Path | None = None, *, brief: bool = False) -> str:
    """Return the pack's model cards as Markdown; the brief form is one table of roles and one of training corpora."""
    manifest = load_pack(where).manifest
    total = sum(entry.size for entry in manifest.files.values())
    lines = [
        f"# {manifest.name} {manifest.version}",
        "",
        f"Licence of the pack (the code has its own): {manifest.licence}",
        f"Languages: {', '.join(manifest.languages) or 'not stated'}. "
        f"Size: {total / 1e6:.1f} MB in {len(manifest.files)} files.",
    ]
    if brief:
        return "\n".join(lines + _tables(manifest)) + "\n"
    for role, entry in manifest.roles.items():
        facts: dict[str, Any] = {"kind": entry.kind, "file": entry.file, "sha256": manifest.files[entry.file].sha256}
        if entry.labels:
            facts["labels"] = ", ".join(entry.labels)
        lines += ["", f"## {role}", ""]
        lines += [f"- {key}: {value}" for key, value in facts.items()]
        lines += [f"- {key}: {_shown(value)}" for key, value in entry.card.items()]
    return "\n".join(lines) + "\n"


def _tables(manifest: Manifest) -> list[str]:
    """Return the lines of the tables of roles and of training corpora."""
    roles, licences = [], dict[str, str]()
    for role, entry in manifest.roles.items():
        roles.append(f"| `{role}` | {entry.kind} | {entry.file} | {entry.card.get('origin') or 'trained'} |")
        # A table of words lists the names of its corpora alone.
        listed = [{"corpus": one} if isinstance(one, str) else one for one in entry.card.get("data", ())]
        licences = {one["corpus"]: "" for one in listed} | licences
        licences |= {one["corpus"]: one["licence"] for one in listed if "licence" in one}
    corpora = [f"| {corpus} | {licence or 'not stated'} |" for corpus, licence in sorted(licences.items())]
    head = ["", "| role | kind | file | origin |", "| --- | --- | --- | --- |"]
    return [*head, *roles, "", "| training corpus | licence |", "| --- | --- |", *corpora]


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key} {_shown(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
