"""The part of USR's page that no metric has a share in: how people rate, agree and weigh."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from turnwise.dialogue import mean_rating
from turnwise.engine.local import cluster_key
from turnwise.errors import TurnwiseError
from turnwise.reproduce.cells import Ours, by_corpus, ended
from turnwise.reproduce.published import Key
from turnwise.reproduce.room import Room
from turnwise.stats.bootstrap import mean_interval
from turnwise.stats.regression import regress, regress_by_rater

FILES = {"Topical-Chat": "usr_topicalchat", "PersonaChat": "usr_personachat"}
REFERENCE = "Original Ground Truth"
QUALITIES = ("Understandable", "Natural", "Maintains Context", "Engaging", "Uses Knowledge", "Overall")
OVERALL = "Overall"
# As the tables call systems, and as the rated data do.
SYSTEMS = {
    "Original Ground-Truth": REFERENCE,
    "LSTM Seq2Seq": "Seq2Seq",
    **{f"Nucleus Sampling ({p})": f"Nucleus Decoding (p = {p})" for p in ("0.3", "0.5", "0.7")},
}

# Where Table 2 prints another mean than the ratings have.
OTHER_MEANS = {
    ("Topical-Chat", "New Human Generated", OVERALL),
    *(("PersonaChat", "Language Model", quality) for quality in ("Natural", "Maintains Context", OVERALL)),
    ("PersonaChat", "KV-MemNN", "Uses Knowledge"),
}


def agreement_cells(room: Room) -> dict[Key, Ours]:
    """Table 1: the mean over the three pairs of slots."""
    return by_corpus(FILES, partial(_agreed, room))


def _agreed(room: Room, corpus: str) -> dict[Key, Ours]:
    cells = {}
    for row in room.agreed(FILES[corpus]):
        form, _, statistic = row.method.rpartition("-")
        if form != "slot-pairs":
            continue
        misprint = (corpus, row.quality, statistic) == ("PersonaChat", "Engaging", "spearman")
        notes = ("two digits of the printed number change places",) if misprint else ()
        key = Key(corpus, "human", row.quality, "Inter-annotator", statistic)
        cells[key] = Ours(row.value, row.low, row.high, row.n_items, notes=notes)
    return cells


def mean_cells(room: Room) -> dict[Key, Ours]:
    """Table 2: the mean rating of every system."""
    return by_corpus(FILES, partial(_means, room))


def _means(room: Room, corpus: str) -> dict[Key, Ours]:
    names = {data: printed for printed, data in SYSTEMS.items()}
    cells = {}
    rated: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for example in room.examples(FILES[corpus]):
        for quality, given in example.ratings.items():
            if (mean := mean_rating(given)) is not None:
                rated.setdefault((example.system, quality), []).append((mean, cluster_key(example)))
    for (system, quality), points in rated.items():
        values, clusters = np.array([value for value, _ in points]), np.array([one for _, one in points])
        interval = mean_interval(values, clusters, seed=room.seed)
        key = Key(corpus, "human", quality, names.get(system, system), "mean")
        notes = (
            ("the printed number is not the mean of the released ratings",)
            if (corpus, key.metric, quality) in OTHER_MEANS
            else ()
        )
        cells[key] = replace(ended(float(values.mean()), interval, len(points)), notes=notes)
    return cells


def regression_cells(room: Room) -> dict[Key, Ours]:
    """Least squares of Overall on the other five, over item means: all responses, and without the references."""
    cells = {}
    examples = room.examples(FILES["Topical-Chat"])
    for name, kept in (
        ("Regression on five qualities", examples),
        ("Regression, references left out", [one for one in examples if one.system != REFERENCE]),
    ):
        means = np.array([[mean_rating(one.ratings[q]) for q in QUALITIES] for one in kept], dtype=np.float64)
        found = regress(means[:, :-1], means[:, -1])
        key = Key("Topical-Chat", "human", OVERALL, name, "spearman")
        notes = ("ours is fitted to the mean ratings of each response; the authors' fit is not public",)
        cells[key] = Ours(found.spearman, n=found.n, notes=notes) if found else Ours(why_not="there are too few items")
    return cells


def rater_weights(room: Room) -> list[dict[str, Any]]:
    """Fig. 2: what each rater weighs, through a softmax."""
    rows = []
    for corpus, file in FILES.items():
        examples = [one for one in room.examples(file) if one.raters]
        if not examples:
            raise TurnwiseError(f"the ratings of {file} do not say who gave them")
        slots = max(len(one.raters) for one in examples)
        table = np.full((len(examples), slots, len(QUALITIES)), np.nan)
        names = np.full((len(examples), slots), None, dtype=object)
        for place, one in enumerate(examples):
            names[place, : len(one.raters)] = one.raters
            for column, quality in enumerate(QUALITIES):
                given = [np.nan if rating is None else rating for rating in one.ratings[quality]]
                table[place, : len(given), column] = given
        fits = regress_by_rater(table[:, :, :-1], table[:, :, -1], names)
        rows += [
            {"panel": corpus, "x": quality, "y": share, "group": rater}
            for rater, fit in fits.items() if fit
            for quality, share in zip(QUALITIES[:-1], fit.shares, strict=True)
        ]  # fmt: skip
    return rows
