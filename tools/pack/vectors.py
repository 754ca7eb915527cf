"""Vectors of utterances that are computed once and kept in a folder, for networks that are trained over them."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from turnwise.engine.answer import batches
from turnwise.files import atomic
from turnwise.models.maude import UtteranceEncoder
from turnwise.models.requests import Floats
from turnwise.train.utterances import Encode

Halves = npt.NDArray[np.float16]
# So many are computed between two files: what a killed run loses.
AT_ONCE = 8192
BUDGET = 512
logger = logging.getLogger(__name__)


def encode_with(encoder: UtteranceEncoder, budget: int = BUDGET) -> Encode:
    """A function from utterances to their vectors, in batches of equal length."""

    def encode(texts: Sequence[str]) -> Floats:
        rows = [encoder.row(text) for text in texts]
        found: list[Floats | None] = [None] * len(rows)
        for places in batches(rows, budget):
            for place, vector in zip(places, encoder.vectors([rows[i] for i in places]), strict=True):
                found[place] = vector
        return np.stack([vector for vector in found if vector is not None])

    return encode


class VectorStore:
    """Vectors by text, in half precision; a folder keeps them between runs. `name` says what made them."""

    def __init__(self, encode: Encode, name: str, folder: Path | None = None) -> None:
        self._encode, self._name = encode, name
        self._folder = None if folder is None else folder / name
        self._known: dict[bytes, Halves] = {}
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(self._folder.glob("*.safetensors")):
                self._read(path)

    def _read(self, path: Path) -> None:
        from safetensors.numpy import load_file

        held = load_file(path)
        self._known.update(zip((key.tobytes() for key in held["keys"]), held["vectors"], strict=True))

    def add(self, texts: Iterable[str]) -> None:
        """Compute what is not there yet."""
        new = [text for text in dict.fromkeys(texts) if _key(text) not in self._known]
        # Each file holds texts of like length, which need little padding.
        new.sort(key=len)
        for start in range(0, len(new), AT_ONCE):
            part = new[start : start + AT_ONCE]
            vectors = self._encode(part).astype(np.float16)
            keys = [_key(text) for text in part]
            self._known.update(zip(keys, vectors, strict=True))
            self._write(keys, vectors)
            logger.info("encoded %d of %d utterances", start + len(part), len(new))

    def _write(self, keys: Sequence[bytes], vectors: Halves) -> None:
        from safetensors.numpy import save_file

        if self._folder is None:
            return
        together = b"".join(keys)
        # Named by what it holds, so that two runs at once do not write over each other.
        name = hashlib.blake2b(together, digest_size=16).hexdigest()
        with atomic(self._folder / f"{name}.safetensors") as partial:
            save_file({"keys": np.frombuffer(together, np.uint8).reshape(len(keys), -1), "vectors": vectors}, partial)

    def table(self, texts: Iterable[str]) -> tuple[Floats, dict[str, int]]:
        """The vectors of these texts as rows, and the row of each text."""
        listed = list(dict.fromkeys(texts))
        self.add(listed)
        rows = np.stack([self._known[_key(text)] for text in listed]).astype(np.float32)
        return rows, {text: row for row, text in enumerate(listed)}


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
