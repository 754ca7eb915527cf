"""Make a byte-level BPE vocabulary smaller: keep what dialogue needs, and the merges that build it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def count_tokens(tokenizer: Path, texts: Iterable[str], at_once: int = 10_000) -> Counter[int]:
    """How often each token is used for these texts."""
    from tokenizers import Tokenizer

    encoder = Tokenizer.from_file(str(tokenizer))
    counts: Counter[int] = Counter()
    waiting: list[str] = []
    for text in texts:
        waiting.append(text)
        if len(waiting) == at_once:
            counts.update(i for e in encoder.encode_batch_fast(waiting) for i in e.ids)
            waiting.clear()
    counts.update(i for e in encoder.encode_batch_fast(waiting) for i in e.ids)
    return counts


def prune(tokenizer: dict[str, Any], counts: Counter[int], size: int) -> tuple[dict[str, Any], list[int]]:
    """A tokenizer of about `size` tokens, and the old ids of its tokens in their new order.

    Kept are special tokens, single bytes and the most used tokens, each together with the tokens that it is
    merged from, so that everything can still be written and kept words come out as before.
    """
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in tokenizer["model"]["merges"]]
    made_of: dict[str, tuple[str, ...]] = {}
    for merge in merges:
        made_of.setdefault("".join(merge), merge)
    token_of = {index: token for token, index in vocabulary.items()}
    special = {added["content"] for added in tokenizer["added_tokens"]}
    kept = {token for token in vocabulary if token in special or len(token) == 1}
    for index, _ in counts.most_common():
        if len(kept) >= size:
            break
        kept |= _derivation(token_of[index], made_of)
    order = sorted(vocabulary[token] for token in kept)
    new = {token_of[old]: index for index, old in enumerate(order)}
    smaller = json.loads(json.dumps(tokenizer))
    smaller["model"]["vocab"] = new
    smaller["model"]["merges"] = [list(m) for m in merges if {*m, "".join(m)} <= kept]
    for added in smaller["added_tokens"]:
        added["id"] = new[added["content"]]
    return smaller, order


def _derivation(token: str, made_of: dict[str, tuple[str, ...]]) -> set[str]:
    """The token and everything that it is merged from."""
    found, open_tokens = set(), [token]
    while open_tokens:
        current = open_tokens.pop()
        if current not in found:
            found.add(current)
            open_tokens.extend(made_of.get(current, ()))
    return found


def spread(layers: int, kept: int) -> Sequence[int]:
    """Which of a model's layers to keep: the first, the last, and the rest evenly between.

    >>> spread(30, 4)
    [0, 10, 19, 29]
    """
    if kept == 1:
        return [0]
    return [round(place * (layers - 1) / (kept - 1)) for place in range(kept)]
