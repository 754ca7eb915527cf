"""How alike are unrelated responses? What the referenced part of RUBER and its kin is scaled by."""

from __future__ import annotations

from typing import Any

import numpy as np

from turnwise.engine.run import answer_requests
from turnwise.metrics.embeddings import cosines
from turnwise.metrics.ruber import pooled_words
from turnwise.models.pack import Pack
from turnwise.models.protocols import Lookup
from turnwise.text.tokenise import plain_words
from turnwise.train.texts import Texts


def bounds(responses: Any, texts: Texts, table: Any, pack: Pack) -> Any:
    """The 1st and 99th percentile of how alike two unrelated responses are: what "referenced" is scaled by."""
    rng = np.random.default_rng(3)
    first, second = (rng.permutation(responses)[:1500] for _ in range(2))
    if table is None:
        spoken = texts.listed()
        asked = {n: Lookup(tuple(plain_words(spoken[n]))) for n in {*first.tolist(), *second.tolist()}}
        found = answer_requests(asked.values(), pack)
        known = {n: (rows := found[q])[~np.isnan(rows).any(axis=1)] for n, q in asked.items()}
        couples = [(known[a], known[b]) for a, b in zip(first.tolist(), second.tolist(), strict=True) if a != b]
        likeness = [
            cosines(pooled_words(a)[None], pooled_words(b)[None])[0, 0] for a, b in couples if len(a) and len(b)
        ]
    else:
        likeness = [cosines(table[a][None], table[b][None])[0, 0] for a, b in zip(first, second, strict=True) if a != b]
    return np.quantile(likeness, [0.01, 0.99]).astype(np.float32)
