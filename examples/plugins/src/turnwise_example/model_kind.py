"""Add a kind of model, the lexicon: a table of word weights in a pack."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from turnwise.models.kinds import Model, ModelKind, TokenRow
from turnwise.models.pack import Pack
from turnwise.models.requests import Request


@dataclass(frozen=True, slots=True)
class Weigh(Request):
    """Request the mean weight of the words of a text."""

    key: ClassVar[str] = "turnwise-example-Weigh"
    runs: ClassVar[bool] = False
    text: str
    role: str = "warmth"


@dataclass
class Lexicon(Model):
    """Answer `Weigh` from a table; a word that is not in it weighs 0."""

    weights: Mapping[str, float]
    fingerprint: str

    def answer(self, request: Weigh, rows: Sequence[TokenRow], results: Sequence[Any]) -> np.ndarray:
        """Return the mean weight as an array of one number."""
        return np.array([np.mean([self.weights.get(word, 0.0) for word in request.text.casefold().split()])])


def open_lexicon(pack: Pack, role: str) -> Lexicon:
    """Open a role of a pack; `pack.read` checks the hash of the file."""
    return Lexicon(json.loads(pack.read(pack.manifest.role(role).file)), pack.fingerprint(role))


LEXICON = ModelKind("lexicon", Weigh, open_lexicon, probe=lambda role: Weigh("thank you", role=role))
