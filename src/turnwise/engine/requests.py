"""Requests and answers as bytes: what a request is called in the cache, and how an answer is kept there."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from turnwise.models.protocols import Answer, Pieces, Request, TokenScores

# Part of every key: raise it when answers change their meaning, and old cache entries are simply not found.
FORM = 1
DTYPES: dict[str, np.dtype[Any]] = {"f4": np.dtype("<f4"), "f8": np.dtype("<f8")}


def request_key(fingerprint: str, request: Request) -> bytes:
    """Sixteen bytes that name a request to a model by content alone."""
    fields = dataclasses.asdict(request)
    fields.pop("role")  # the fingerprint says which model answers; what the metric calls it is of no matter
    text = json.dumps([FORM, fingerprint, request.key, fields], sort_keys=True)
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).digest()


def pack_answer(answer: Answer) -> bytes:
    """An answer as bytes: checksum, header, numbers. Numbers come back exactly as they were."""
    head: dict[str, Any]
    if isinstance(answer, TokenScores):
        numbers = np.array(answer.log_probs, dtype="<f8")
        head = {"kind": "tokens", "names": answer.tokens}
    elif isinstance(answer, Pieces):
        numbers = np.ascontiguousarray(answer.vectors)
        head = {"kind": "pieces", "names": answer.tokens, "added": answer.added}
    elif isinstance(answer, Mapping):
        numbers = np.array(list(answer.values()), dtype="<f8")
        head = {"kind": "labels", "names": list(answer)}
    else:
        numbers = np.ascontiguousarray(answer)
        head = {"kind": "array"}
    head |= {"dtype": numbers.dtype.str[1:], "shape": numbers.shape}
    if head["dtype"] not in DTYPES:
        raise TypeError(f"answers of {numbers.dtype} cannot be cached")
    header = json.dumps(head, separators=(",", ":")).encode("ascii")
    body = struct.pack("<I", len(header)) + header + numbers.astype(DTYPES[head["dtype"]], copy=False).tobytes()
    return struct.pack("<I", zlib.crc32(body)) + body


def unpack_answer(content: bytes) -> Answer | None:
    """The answer that `pack_answer` wrote, or None where the bytes are damaged."""
    if len(content) < 8 or struct.unpack_from("<I", content)[0] != zlib.crc32(content[4:]):
        return None
    size = struct.unpack_from("<I", content, 4)[0]
    head = json.loads(content[8 : 8 + size])
    numbers = np.frombuffer(content, dtype=DTYPES[head["dtype"]], offset=8 + size).reshape(head["shape"])
    if head["kind"] == "tokens":
        return TokenScores(tuple(head["names"]), tuple(numbers.tolist()))
    if head["kind"] == "pieces":
        return Pieces(tuple(head["names"]), tuple(head["added"]), numbers.copy())
    if head["kind"] == "labels":
        return dict(zip(head["names"], numbers.tolist(), strict=True))
    return numbers.copy()
