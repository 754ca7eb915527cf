"""The authors' own release formats: one file each, found by name or recognised by their first item."""

from __future__ import annotations

from turnwise.errors import TurnwiseError
from turnwise.io.corpora import dstc9, fbd, fed, grade, holistic, see, usr, zhao
from turnwise.io.corpora.base import Corpus

CORPORA: dict[str, Corpus] = {
    corpus.name: corpus
    for corpus in (
        *(usr.CORPUS, fbd.CORPUS, grade.CORPUS, holistic.COHERENCE, holistic.FLUENCY),
        *(zhao.CORPUS, fed.CORPUS, dstc9.CORPUS, see.CORPUS),
    )
}


def find(name: str) -> Corpus:
    """The corpus of that name."""
    if name not in CORPORA:
        raise TurnwiseError(f"corpus '{name}' is not known; known are {', '.join(CORPORA)}")
    return CORPORA[name]


def recognise(item: object) -> Corpus | None:
    """The corpus whose release has items such as this one, if any."""
    return next((corpus for corpus in CORPORA.values() if corpus.recognises(item)), None)
