"""FBD without a network that reads sentences: means of word vectors, beside the encoders of Fig. 2."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from turnwise.dialogue import Example, mean_rating
from turnwise.models.requests import Lookup
from turnwise.reproduce.room import Room
from turnwise.stats.arrays import FloatArray
from turnwise.stats.correlation import spearman
from turnwise.stats.frechet import frechet
from turnwise.text.tokenise import plain_words

NAME = "word vectors, mean of the response alone"
ROLE = "vectors"


def words_spearman(room: Room, file: str, quality: str) -> float | None:
    """Over systems: how the distance of responses from references goes with the ratings."""
    said: dict[str, list[Example]] = {}
    for one in room.examples(file):
        if one.references and mean_rating(one.ratings.get(quality, ())) is not None:
            said.setdefault(one.system, []).append(one)
    distances, rated = [], []
    for some in said.values():
        responses = _vectors(room, (one.response for one in some))
        references = _vectors(room, (text for one in some for text in one.references))
        if min(len(responses), len(references)) < 2:
            continue
        distances.append(frechet(np.stack(responses), np.stack(references)).value())
        rated.append(np.mean([mean_rating(one.ratings[quality]) or 0.0 for one in some]))
    return spearman(distances, rated).value


def _vectors(room: Room, texts: Iterable[str]) -> list[FloatArray]:
    """The mean of the word vectors of every text that has a known word."""
    asked = [Lookup(plain_words(text)) for text in texts]
    answers = room.ask(asked)
    known = (rows[~np.isnan(rows).any(axis=1)] for rows in (np.asarray(answers[one], dtype=float) for one in asked))
    return [rows.mean(axis=0) for rows in known if len(rows)]
