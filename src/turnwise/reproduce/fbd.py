"""FBD and PRD (Xiang et al. 2021): Tables 2-5, Figs. 1 and 2, signed and as printed, and Empathetic as it should be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from turnwise.analyses.distances import normality
from turnwise.dialogue import Example, mean_rating
from turnwise.errors import TurnwiseError
from turnwise.models.requests import Lookup
from turnwise.reproduce.cells import (
    Cells,
    Ours,
    Stands,
    by_corpus,
    chosen,
    correlations,
    declared,
    shipped,
    stands,
)
from turnwise.reproduce.published import Key
from turnwise.reproduce.workspace import Workspace
from turnwise.stats.arrays import FloatArray
from turnwise.stats.correlation import spearman
from turnwise.stats.frechet import frechet
from turnwise.text.tokenise import plain_words

# FBD without a network that reads sentences: means of word vectors, beside the encoders of Fig. 2.
BY_WORDS = "word vectors, mean of the response alone"
VECTOR_ROLE = "vectors"


def words_spearman(space: Workspace, file: str, quality: str) -> float | None:
    """Return the correlation, over systems, of ratings with the distance of responses from references."""
    said: dict[str, list[Example]] = {}
    for one in space.examples(file):
        if one.references and mean_rating(one.ratings.get(quality, ())) is not None:
            said.setdefault(one.system, []).append(one)
    distances, rated = [], []
    for some in said.values():
        responses = _vectors(space, (one.response for one in some))
        references = _vectors(space, (text for one in some for text in one.references))
        if min(len(responses), len(references)) < 2:
            continue
        distances.append(frechet(np.stack(responses), np.stack(references)).value())
        rated.append(np.mean([mean_rating(one.ratings[quality]) or 0.0 for one in some]))
    return spearman(distances, rated).value


def _vectors(space: Workspace, texts: Iterable[str]) -> list[FloatArray]:
    """Return the mean of the word vectors of every text that has a known word."""
    asked = [Lookup(plain_words(text)) for text in texts]
    answers = space.ask(asked)
    known = (rows[~np.isnan(rows).any(axis=1)] for rows in (np.asarray(answers[one], dtype=float) for one in asked))
    return [rows.mean(axis=0) for rows in known if len(rows)]


# As the paper calls a corpus: its file, and the quality of Table 3.
CORPORA = {
    "Persona(M)": ("fbd_personam", "Overall"),
    "Daily(H)": ("fbd_dailyh", "coherence"),
    "Convai2": ("fbd_convai2", "coherence"),
    "Empathetic": ("fbd_empathetic", "coherence"),
    "Daily(Z)": ("fbd_dailyz", "appropriateness"),
    "Persona(Z)": ("fbd_personaz", "appropriateness"),
}
REBUILT = "Empathetic (rebuilt)"
GRADE = "grade_empatheticdialogues"
# How many of 150 answers the released mixtures take from the first system; the two systems themselves come first.
MIXTURES = (150, 0, 12, 35, 45, 66, 73, 89, 119, 119, 137)
METRICS = stands("fbd", "metrics")
OURS = shipped("fbd", "prd")
# Fig. 2: the same distance by several readings of several encoders.
ENCODERS: Mapping[str, str] = {
    "encoder, last layer, first token": "fbd:released",
    "encoder, middle layer, mean": "fbd:released[pooling=mean,layer=3]",
    "next-utterance trunk, last layer, first token": "fbd:released[role=nup-trunk]",
    "next-utterance trunk, as shipped": "fbd",
    "RoBERTa base": "fbd:released[role=encoder-roberta]",
    "RoBERTa large": "fbd:released[role=encoder-roberta-large]",
}


@by_corpus(CORPORA)
def counts(space: Workspace, corpus: str) -> Cells:
    """Return the cells of Table 2: contexts, and systems."""
    examples = space.examples(CORPORA[corpus][0])
    numbers = {
        "Samples": len({one.context_id for one in examples}),
        "Systems": len({one.system for one in examples}),
    }
    return {Key(corpus, "other", "", name, "count"): Ours(float(number)) for name, number in numbers.items()}


def rebuilt(space: Workspace) -> Path:
    """EmpatheticDialogues as the paper describes it: GRADE's two systems, and nine mixtures of them."""
    examples = space.examples(GRADE)
    systems = list(dict.fromkeys(one.system for one in examples))
    if len(systems) != 2:
        raise TurnwiseError(f"human/{GRADE}.jsonl has {len(systems)} systems where two belong")
    said = {(one.context_id, one.system): one for one in examples}
    contexts = [one.context_id for one in examples if one.system == systems[0]]
    rng = Random(space.seed)
    rows = []
    for place, share in enumerate(MIXTURES):
        first = set(rng.sample(contexts, round(share / MIXTURES[0] * len(contexts))))
        name = systems[place] if place < 2 else f"mix{place:02d}"
        for context in contexts:
            one = said[context, systems[0] if context in first else systems[1]]
            rows.append({
                "id": f"{place}-{context}", "context_id": context, "context": [" ".join(one.context)],
                "response": one.response, "references": list(one.references), "system": name,
                "ratings": {"coherence": [mean_rating(one.ratings["coherence"])]},
            })  # fmt: skip
    return space.derived("fbd_empathetic_rebuilt", rows)


@by_corpus((*CORPORA, REBUILT))
def table_3(space: Workspace, corpus: str) -> Cells:
    """Return the cells of Table 3."""
    if corpus == REBUILT:
        return _both(space, corpus, rebuilt(space), {"coherence": "coherence"})
    file, quality = CORPORA[corpus]
    return _both(space, corpus, space.corpus(file), {quality: quality})


def by_aspect(space: Workspace) -> Cells:
    """Return the cells of Table 5."""
    aspects = ("relevance", "grammar", "content", "appropriateness")
    return _both(space, "Daily(Z)", space.corpus(CORPORA["Daily(Z)"][0]), {aspect: aspect for aspect in aspects})


def _both(space: Workspace, corpus: str, file: Path, qualities: Mapping[str, str]) -> Cells:
    """Return correlations as the paper prints them, and with their signs."""
    signed = correlations(space, corpus, file, {**METRICS, **OURS}, levels=("system",), qualities=qualities)
    cells = {}
    # Spearman comes first in the paper's tables, and so it does in what is ours alone.
    for key, ours in sorted(signed.items(), key=lambda item: item[0].statistic != "spearman"):
        size = None if ours.value is None else abs(ours.value)
        cells[key] = Ours(size, n=ours.n, how=ours.how, why_not=ours.why_not, notes=ours.notes)
        cells[key._replace(statistic=f"{key.statistic}, signed")] = ours
    return cells


@by_corpus(CORPORA)
def normality_cells(space: Workspace, corpus: str) -> Cells:
    """Return the cells of Table 4: as the authors averaged, W and p together; and each by itself."""
    encoders: Stands = {"BERT": METRICS["FBD-B"], "RoBERTa": METRICS["FBD-R"]}
    cells: Cells = {}
    file, _ = CORPORA[corpus]
    for name, ways in encoders.items():
        way, why = chosen(space, ways)
        key = Key(corpus, "other", "normality", name, "")
        if way is None:
            cells |= {key._replace(statistic=one): Ours(why_not=why) for one in ("mean", "std")}
            continue
        row = normality(space.corpus(file), way.request, **space.models_in_use).rows[0]
        mean = (row.w_mean + row.p_mean) / 2
        square = (row.w_deviation**2 + row.w_mean**2 + row.p_deviation**2 + row.p_mean**2) / 2
        found = {
            "mean": mean, "std": math.sqrt(max(square - mean**2, 0.0)),
            "mean W": row.w_mean, "mean p": row.p_mean, "share with p < .05": row.rejected,
        }  # fmt: skip
        cells |= {
            key._replace(statistic=one): Ours(value, n=row.dimensions, how=way.request, notes=way.said(space))
            for one, value in found.items()
        }
    return cells


def system_points(space: Workspace) -> list[dict[str, Any]]:
    """Return the rows of Fig. 1: distances of systems against their ratings, a panel for each corpus."""
    space.require("fbd")
    rows = []
    for corpus, (file, quality) in CORPORA.items():
        result = space.evaluated(space.corpus(file), ["fbd"], intervals=False)
        values = {one.system: one.value for one in result.system_values}
        rated: dict[str, list[float]] = {}
        for one in space.examples(file):
            if (mean := mean_rating(one.ratings.get(quality, ()))) is not None:
                rated.setdefault(one.system, []).append(mean)
        rows += [
            {"panel": corpus, "x": values[system], "y": sum(given) / len(given), "group": "fbd"}
            for system, given in rated.items()
            if values.get(system) is not None
        ]
    return rows


def encoder_bars(space: Workspace) -> list[dict[str, Any]]:
    """Return the rows of Fig. 2: how well FBD orders systems by encoder. Signs are turned, so that up is better."""
    there = {name: request for name, request in ENCODERS.items() if not space.lacking(request)}
    if not there:
        raise TurnwiseError("the models in use have no encoder")
    rows = []
    for corpus, (file, quality) in CORPORA.items():
        found = space.meta(file, list(there.values()), level="system")
        for name, request in there.items():
            row = found.get((request, "system", quality))
            if row is not None and row.spearman is not None:
                rows.append({"x": corpus, "y": -row.spearman, "group": name})
        by_words = words_spearman(space, file, quality) if VECTOR_ROLE in space.roles else None
        if by_words is not None:
            rows.append({"x": corpus, "y": -by_words, "group": BY_WORDS})
    return rows


PAPER = declared(
    "fbd",
    {
        "2": counts,
        "3": table_3,
        "4": normality_cells,
        "5": by_aspect,
        "Fig. 1": system_points,
        "Fig. 2": encoder_bars,
    },
    rebuilt=REBUILT,
)
