"""A pack's manifest: what each role is, which files it needs, and what those files must hash to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any

from turnwise.errors import TurnwiseError
from turnwise.models.kinds import KINDS
from turnwise.models.requests import WHOLE, Window

MANIFEST = "manifest.json"
FORMAT = 1
SUFFIXES = frozenset({".onnx", ".safetensors", ".json", ".txt", ".bin"})


@dataclass(frozen=True)
class FileEntry:
    """What a file must be."""

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
        """Everything that has to be read for this role."""
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
        """The entry of a role."""
        if role not in self.roles:
            has = f"it has: {', '.join(self.roles)}"
            raise TurnwiseError(f"pack '{self.name}' has no model for '{role}'; give `models` that do ({has})")
        return self.roles[role]

    def fingerprint(self, role: str) -> str:
        """A name for everything that a role's answers depend on."""
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
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise TurnwiseError(f"{path}: not valid JSON ({problem})") from None
    try:
        return _parse(content)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise TurnwiseError(f"{path}: not a pack's manifest ({type(problem).__name__}: {problem})") from None


def _parse(content: Any) -> Manifest:
    if content["format"] != FORMAT:
        raise ValueError(f"format {content['format']!r}; this version reads format {FORMAT}")
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
