"""Roles that are stored as arrays: small networks, MAUDE's head, and tables of words.

Matrices are whole numbers with a scale for each row. MAUDE's head comes from a checkpoint, a folder with
`maude.safetensors` and `card.json`, and with a trunk of its own if that was trained too (`turnwise.train.maude` writes
them). Tables are unigram log-probabilities counted in dialogues, and static vectors distilled from an encoder.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from turnwise.errors import TurnwiseError
from turnwise.models.export.storage import Floats, quantise
from turnwise.models.heads import SCALES, unpack_weights
from turnwise.models.maude import LABELS, header, read_head
from turnwise.models.requests import Embed
from turnwise.models.text import Tokens
from turnwise.text.tokenise import plain_words

FINENESS = 16


def pack_weights(weights: Mapping[str, npt.NDArray[Any]], fineness: float | None = FINENESS) -> bytes:
    """Return a safetensors file of a network's weights; matrices are rounded unless `fineness` is None."""
    from safetensors.numpy import save

    stored: dict[str, npt.NDArray[Any]] = {}
    for name, values in weights.items():
        exact = np.ascontiguousarray(values, dtype=np.float32)
        # A single row has nothing to share its scale with: it is small, and the score depends on it.
        if fineness is None or exact.ndim < 2 or len(exact) == 1:
            stored[name] = exact
        else:
            stored[name], stored[name + SCALES] = quantise(exact, fineness)
    return save(stored)


def write_head(
    folder: Path,
    role: str,
    weights: Mapping[str, npt.NDArray[Any]],
    card: Mapping[str, Any],
    fineness: float | None = FINENESS,
) -> dict[str, Any]:
    """Write the file of a role into a folder; returns the role's entry for the manifest (`PackBuilder.roles`)."""
    file = f"{role}.safetensors"
    (folder / file).write_bytes(pack_weights(weights, fineness))
    return {"kind": "weights", "file": file, "card": dict(card)}


def head_roles(folder: Path) -> tuple[str, ...]:
    """Return the roles of a folder of small networks: those with both ROLE.safetensors and a card, ROLE.json."""
    cards = (path.stem for path in sorted(folder.glob("*.json")) if path.with_suffix(".safetensors").is_file())
    return tuple(role for role in cards if read_card(folder, role).get("objective") == role)


def copy_heads(folder: Path, roles: Sequence[str], out: Path) -> dict[str, dict[str, Any]]:
    """Put small networks into a pack's folder as they are; returns their entries for the manifest."""
    entries = {}
    for role in roles:
        file = f"{role}.safetensors"
        (out / file).write_bytes((folder / file).read_bytes())
        entries[role] = {"kind": "weights", "file": file, "card": read_card(folder, role)}
    return entries


def check_foundations(out: Path, roles: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a network that was trained over other word vectors than a pack's: it would judge at random."""
    for role, entry in roles.items():
        over = entry.get("card", {}).get("over")
        wanted = over.get("sha256") if isinstance(over, Mapping) and over.get("role") == "vectors" else None
        if wanted is None:
            continue
        file = out / str(roles.get("vectors", {}).get("file", "vectors.safetensors"))
        found = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "none"
        if found != wanted:
            raise TurnwiseError(f"'{role}' was trained over other word vectors than this pack's; train it again")


def read_card(folder: Path, role: str) -> dict[str, Any]:
    """Return the card of a small network in a folder; an empty one if it is not an object."""
    card = read_json(folder / f"{role}.json")
    return card if isinstance(card, dict) else {}


def read_json(path: Path) -> Any:
    """Return what a JSON file of a checkpoint holds."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise TurnwiseError(f"{path}: cannot be read as JSON ({problem})") from None


WEIGHTS, CARD = "maude.safetensors", "card.json"
RECURRENT_FINENESS = 24
# The role that a head reads if it was trained together with its encoder.
OWN = "own"


def pack_head(folder: Path, role: str, out: Path, fineness: float | None) -> dict[str, Any]:
    """Write a checkpoint's head into a pack's folder, and return its part of the role's entry."""
    from safetensors.numpy import load, save

    content = (folder / WEIGHTS).read_bytes()
    file = f"{role}.safetensors"
    # A checkpoint may hold whole numbers already: they have to be multiplied out before they are rounded again.
    exact = unpack_weights(content)
    (out / file).write_bytes(save(load(pack_weights(exact, fineness)), metadata=header(content)))
    return {"kind": "recurrent", "weights": file, "labels": list(LABELS), "card": read_json(folder / CARD)}


def role_of(folder: Path) -> str:
    """Return the role that a checkpoint fills: `maude`, or `maude-paper` and `maude-released` for the other forms."""
    form = read_json(folder / CARD).get("form", "recommended")
    return "maude" if form == "recommended" else f"maude-{form}"


def encoder_of(folder: Path) -> str:
    """Return the role whose states a checkpoint's head reads."""
    return read_head((folder / WEIGHTS).read_bytes(), str(folder / WEIGHTS))[1].role


def is_head(folder: Path) -> bool:
    """Return whether a folder holds a head of MAUDE."""
    return (folder / WEIGHTS).is_file()


COMMON = 1e-3


def count(texts: Iterable[str], tokens: Tokens) -> tuple[Counter[str], Counter[str]]:
    """Return how often each word and each token occurs."""
    words: Counter[str] = Counter()
    pieces: Counter[str] = Counter()
    for text in texts:
        words.update(plain_words(text))
        pieces.update(tokens.plain(text).tokens)
    return words, pieces


def log_probabilities(counts: Counter[str], most: int) -> tuple[list[str], Floats, float]:
    """Return names, log-probabilities with one added to every count, and what an unseen name gets.

    >>> names, values, unseen = log_probabilities(Counter({"a": 3, "b": 1}), most=10)
    >>> names, [round(float(np.exp(v)), 3) for v in values], round(float(np.exp(unseen)), 3)
    (['a', 'b'], [0.571, 0.286], 0.143)
    """
    # Ties in alphabetical order, so that the same corpus always gives the same file.
    kept = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]
    total = sum(counts.values()) + len(counts) + 1
    values = np.log(np.array([n + 1 for _, n in kept], dtype=np.float64) / total).astype(np.float32)
    return [name for name, _ in kept], values, float(np.log(1 / total))


def write_unigrams(path: Path, words: Counter[str], pieces: Counter[str], most: int = 60_000) -> None:
    """Write the file of the role `unigrams`."""
    tensors: dict[str, npt.NDArray[np.generic]] = {}
    for unit, counts in (("word", words), ("token", pieces)):
        names, values, unseen = log_probabilities(counts, most)
        tensors |= _named(unit, names, unseen) | {f"{unit}.values": values}
    _save(path, tensors)


def write_vectors(
    path: Path,
    words: Counter[str],
    embed: Callable[[Sequence[Embed]], Sequence[Floats]],
    *,
    most: int = 20_000,
    width: int = 150,
    fineness: float = 16,
) -> None:
    """Write the file of the role `vectors`: each frequent word encoded alone, cut to its main components.

    Frequent words are shortened (by a / (a + p)), or they would drown the others in a sum of vectors.
    """
    kept = [name for name, _ in sorted(words.items(), key=lambda item: (-item[1], item[0]))[:most]]
    vectors = np.stack([np.asarray(v, dtype=np.float64) for v in embed([Embed(word) for word in kept])])
    vectors = principal(vectors, width)
    share = np.array([words[word] for word in kept], dtype=np.float64) / sum(words.values())
    vectors *= (COMMON / (COMMON + share))[:, None]
    numbers, scales = quantise(vectors.astype(np.float32), fineness)
    _save(path, _named("word", kept, float("nan")) | {"word.values": numbers, "word.scales": scales})


def principal(vectors: npt.NDArray[np.float64], width: int) -> npt.NDArray[np.float64]:
    """Return centred vectors in their `width` main directions, each with a fixed sign."""
    centred = vectors - vectors.mean(axis=0)
    values, directions = np.linalg.eigh(centred.T @ centred)
    chosen = directions[:, np.argsort(-values)[:width]]
    chosen *= np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(chosen.shape[1])])
    projected: npt.NDArray[np.float64] = centred @ chosen
    return projected


def _named(unit: str, names: Sequence[str], missing: float) -> dict[str, npt.NDArray[np.generic]]:
    text = "\n".join(names).encode("utf-8")
    return {
        f"{unit}.names": np.frombuffer(text, dtype=np.uint8),
        f"{unit}.missing": np.array([missing], dtype=np.float32),
    }


def _save(path: Path, tensors: dict[str, npt.NDArray[np.generic]]) -> None:
    from safetensors.numpy import save

    path.write_bytes(save(tensors))
