"""Tables of words: unigram log-probabilities counted in dialogues, and static vectors distilled from an encoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from turnwise.models.export.storage import Floats, quantise
from turnwise.models.requests import Embed
from turnwise.models.text import Tokens
from turnwise.text.tokenise import plain_words

COMMON = 1e-3


def count(texts: Iterable[str], tokens: Tokens) -> tuple[Counter[str], Counter[str]]:
    """How often each word and each token occurs."""
    words: Counter[str] = Counter()
    pieces: Counter[str] = Counter()
    for text in texts:
        words.update(plain_words(text))
        pieces.update(tokens.plain(text).tokens)
    return words, pieces


def log_probabilities(counts: Counter[str], most: int) -> tuple[list[str], Floats, float]:
    """Names, log-probabilities with one added to every count, and what an unseen name gets.

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
    """The file of the role `unigrams`."""
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
    """The file of the role `vectors`: each frequent word encoded alone, cut to its main components.

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
    """Centred vectors in their `width` main directions, each with a fixed sign."""
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
