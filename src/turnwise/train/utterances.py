"""Vectors of utterances that are computed once and kept in a folder, for networks that are trained over them."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from turnwise.engine.answer import batches
from turnwise.files import atomic
from turnwise.models.requests import Floats
from turnwise.models.text import Tokens
from turnwise.models.utterances import Reading, UtteranceEncoder
from turnwise.train.checkpoint import open_network

if TYPE_CHECKING:
    from transformers import BertModel


Halves = npt.NDArray[np.float16]
Encode = Callable[[Sequence[str]], Floats]
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


LONGEST = 64
# So many texts of like length are encoded together.
ENCODED = 1024
# So many are cut into tokens at a time: what a tokeniser returns takes more room than what is kept of it.
TOKENISED = 65536


class Trunk(nn.Module):
    """Texts to vectors: layers of a BERT, each averaged over the tokens."""

    def __init__(self, bert: BertModel, tokens: Tokens, reading: Reading, folder: Path) -> None:
        super().__init__()
        if reading.pooling != "mean":
            raise ValueError("an encoder that learns is pooled by its mean")
        self.bert, self._tokens, self._reading, self.folder = bert, tokens, reading, folder
        # Halves serve learning on a GPU; vectors that are kept are made in full.
        self.halves = False
        # Every text that was met, its tokens in a row of one table, and how many they are.
        self._rows: dict[str, int] = {}
        self._ids = torch.zeros((0, tokens.limit or LONGEST), dtype=torch.int32)
        self._lengths = np.zeros(0, dtype=np.int64)

    @classmethod
    def open(cls, folder: Path, reading: Reading, longest: int = LONGEST, learning: int | None = None) -> Trunk:
        """The trunk in a folder, in the hub's layout, up to the last layer that is read.

        Its words stay as they are; so do all layers below the `learning` last ones.
        """
        from transformers import BertModel

        bert = open_network(BertModel, folder, add_pooling_layer=False, dtype=torch.float32)
        bert.embeddings.word_embeddings.weight.requires_grad_(False)
        if min(reading.layers) >= 0:
            bert.encoder.layer = bert.encoder.layer[: max(reading.layers)]
            bert.config.num_hidden_layers = len(bert.encoder.layer)
        if learning is not None:
            still = bert.encoder.layer[: max(0, len(bert.encoder.layer) - learning)]
            for part in (bert.embeddings, *still):
                part.requires_grad_(False)
        file = folder / "tokenizer.json"
        return cls(bert, Tokens.from_bytes(file.read_bytes(), longest, file=file), reading, folder)

    @property
    def width(self) -> int:
        """The size of a vector."""
        size: int = self.bert.config.hidden_size
        return size * self.parts

    @property
    def parts(self) -> int:
        """How many layers a vector is made of."""
        return len(self._reading.layers)

    def prepare(self, texts: Iterable[str]) -> None:
        """Cut texts into tokens before they are needed, many at once."""
        new = list(dict.fromkeys(text for text in texts if text not in self._rows))
        if not new:
            return
        longest, encode = self._ids.shape[1], self._tokens.tokenizer.encode_batch
        table, lengths = np.zeros((len(new), longest), dtype=np.int32), np.zeros(len(new), dtype=np.int64)
        for start in range(0, len(new), TOKENISED):
            for row, encoding in enumerate(encode(new[start : start + TOKENISED]), start):
                ids = encoding.ids
                cut = ids if len(ids) <= longest else [*ids[: longest - 1], ids[-1]]
                table[row, : len(cut)], lengths[row] = cut, len(cut)
        self._rows |= {text: row for row, text in enumerate(new, len(self._rows))}
        self._lengths = np.concatenate([self._lengths, lengths])
        where = self.bert.device
        self._ids = torch.cat([self._ids.to(where), torch.from_numpy(table).to(where)])

    def forward(self, texts: Sequence[str]) -> Tensor:
        """A vector for each text."""
        self.prepare(texts)
        where = self.bert.device
        self._ids = self._ids.to(where)
        rows = np.fromiter((self._rows[text] for text in texts), dtype=np.int64, count=len(texts))
        order = np.argsort(self._lengths[rows], kind="stable")
        placed, lengths = torch.from_numpy(rows[order]).to(where), self._lengths[rows[order]]
        counts = torch.from_numpy(lengths).to(where)
        parts = []
        for start in range(0, len(order), ENCODED):
            span = slice(start, start + ENCODED)
            # Each part is as wide as its longest text, which is its last.
            parts.append(self._vectors(self._ids[placed[span], : int(lengths[span][-1])], counts[span]))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return torch.cat(parts)[torch.from_numpy(back).to(where)]

    def _vectors(self, ids: Tensor, lengths: Tensor) -> Tensor:
        mask = (torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]).long()
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=self.halves and ids.device.type == "cuda"):
            states: Any = self.bert(input_ids=ids.long(), attention_mask=mask, output_hidden_states=True).hidden_states
        share = mask[..., None] / lengths[:, None, None]
        return torch.cat([(states[layer].float() * share).sum(dim=1) for layer in self._reading.layers], dim=1)


def encode_with_trunk(folder: Path, reading: Reading, longest: int = 256, device: str = "cpu") -> Encode:
    """A function from utterances to the vectors that a folder's encoder gives them, on a GPU where there is one."""
    trunk = Trunk.open(folder, reading, longest).to(device).eval()

    @torch.no_grad()
    def encode(texts: Sequence[str]) -> Floats:
        trunk.prepare(texts)
        parts = (texts[start : start + 4 * ENCODED] for start in range(0, len(texts), 4 * ENCODED))
        return np.concatenate([trunk(part).cpu().numpy() for part in parts])

    return encode
