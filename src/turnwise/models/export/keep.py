"""Roles of one pack carried over into another, so that a role can be replaced alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnwise.errors import TurnwiseError
from turnwise.models.manifest import MANIFEST
from turnwise.models.pack import Pack

# The keys of a role's entry that name files.
FILES = ("file", "tokenizer", "words", "weights")


def keep_roles(pack: Path, out: Path, filled: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Copy what the roles of a pack need that are not filled yet; returns their entries for the manifest."""
    opened = Pack(pack)
    roles: dict[str, dict[str, Any]] = json.loads((pack / MANIFEST).read_text(encoding="utf-8"))["roles"]
    kept = {name: dict(entry) for name, entry in roles.items() if name not in filled}
    for entry in kept.values():
        for key in FILES:
            if entry.get(key):
                content = opened.read(entry[key])
                entry[key] = _written(content, entry[key], out, renamed=key == "tokenizer")
    return kept


def _written(content: bytes, file: str, out: Path, renamed: bool) -> str:
    """The name under which a file now lies in `out`; one that several roles share may be there already."""
    target, number = out / file, 1
    while target.exists() and target.read_bytes() != content:
        if not renamed:
            raise TurnwiseError(f"{file} of the pack to keep differs from the new one; build all roles that share it")
        number += 1
        target = out / f"{Path(file).stem.split('-')[0]}-{number}{Path(file).suffix}"
    target.write_bytes(content)
    return target.name
