"""Which input a part of a run was scored from, so that parts of different inputs are not put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from turnwise.dialogue import Row
from turnwise.io.source import resolve


class InputIdentity:
    """Names and sizes of the files, and a digest of all rows that were read, whosever they are."""

    def __init__(self, source: object) -> None:
        self._files = _files(source)
        self._rows, self._digest, self._ended = 0, blake2b(digest_size=16), False

    def noted(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The same rows, each counted in as it passes."""
        for row in rows:
            # Folders may be called otherwise on another machine. `ascii` writes the same under every Python.
            facts = (row.id, row.line, row.example, row.error and row.error.code, row.system)
            self._digest.update(ascii(facts).encode("ascii"))
            self._rows += 1
            yield row
        self._ended = True

    def facts(self) -> dict[str, Any]:
        """As JSON has it; what was not read to its end has no digest."""
        digest = self._digest.hexdigest() if self._ended else None
        return {"files": self._files, "rows": self._rows, "digest": digest}


def same_input(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether two parts were scored from the same input, as far as both know what they were scored from."""
    if first["files"] != second["files"]:
        return False
    read_whole = first["digest"] is not None and second["digest"] is not None
    return not read_whole or (first["rows"], first["digest"]) == (second["rows"], second["digest"])


def _files(source: object) -> list[list[Any]]:
    if isinstance(source, str | Path):
        source = [source]
    if not (isinstance(source, Sequence) and source and all(isinstance(item, str | Path) for item in source)):
        return []
    found = [(known.file if known.path is None else known.path.name, known.path) for known in resolve(source)]
    return [[name, None if path is None else path.stat().st_size] for name, path in found]
