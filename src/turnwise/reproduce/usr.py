"""USR (Mehri and Eskenazi 2020): Tables 1-6 and 10-21, Fig. 2, the regression, and the trick with F-1."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from turnwise.dialogue import Example, mean_rating
from turnwise.engine.score import cluster_key
from turnwise.errors import TurnwiseError
from turnwise.metrics.usr import usr_score
from turnwise.reproduce.cells import (
    STATISTICS,
    Cells,
    Ours,
    by_corpus,
    correlated,
    correlations,
    declared,
    ended,
    rater_weights,
    shipped,
    stands,
)
from turnwise.reproduce.published import Key, of_table
from turnwise.reproduce.workspace import Workspace
from turnwise.stats.bootstrap import mean_interval
from turnwise.stats.regression import regress

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


@by_corpus(FILES)
def agreement_cells(space: Workspace, corpus: str) -> Cells:
    """Return the cells of Table 1: the mean over the three pairs of slots."""
    cells = {}
    for row in space.agreed(FILES[corpus]):
        form, _, statistic = row.method.rpartition("-")
        if form != "slot-pairs":
            continue
        misprint = (corpus, row.quality, statistic) == ("PersonaChat", "Engaging", "spearman")
        notes = ("two digits of the printed number change places",) if misprint else ()
        key = Key(corpus, "human", row.quality, "Inter-annotator", statistic)
        cells[key] = Ours(row.value, row.low, row.high, row.n_items, notes=notes)
    return cells


@by_corpus(FILES)
def mean_cells(space: Workspace, corpus: str) -> Cells:
    """Return the cells of Table 2: the mean rating of every system."""
    names = {data: printed for printed, data in SYSTEMS.items()}
    cells = {}
    rated: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for example in space.examples(FILES[corpus]):
        for quality, given in example.ratings.items():
            if (mean := mean_rating(given)) is not None:
                rated.setdefault((example.system, quality), []).append((mean, cluster_key(example)))
    for (system, quality), points in rated.items():
        values, clusters = np.array([value for value, _ in points]), np.array([one for _, one in points])
        interval = mean_interval(values, clusters, seed=space.seed)
        key = Key(corpus, "human", quality, names.get(system, system), "mean")
        notes = (
            ("the printed number is not the mean of the released ratings",)
            if (corpus, key.metric, quality) in OTHER_MEANS
            else ()
        )
        cells[key] = replace(ended(float(values.mean()), interval, len(points)), notes=notes)
    return cells


def regression_cells(space: Workspace) -> Cells:
    """Return the fit of Overall on the other five, over item means: all responses, and without the references."""
    cells = {}
    examples = space.examples(FILES["Topical-Chat"])
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


def weight_rows(space: Workspace) -> list[dict[str, Any]]:
    """Return the rows of Fig. 2: what each rater weighs."""
    rows = []
    for corpus, file in FILES.items():
        examples = [one for one in space.examples(file) if one.raters]
        if not examples:
            raise TurnwiseError(f"the ratings of {file} do not say who gave them")
        rows += rater_weights(corpus, examples, QUALITIES)
    return rows


METRICS = stands("usr", "metrics")
# On PersonaChat the authors let DR(c) stand for every quality but the first.
ON_PERSONACHAT = stands("usr", "on_personachat")
OURS = shipped("usr", "usr-mlm", "usr-dr-c", "usr-dr-f", "usl-h", "length")
TRICK = ". i the , that a to it is of"
AUTHORS = "authors' own scores"
LEVELS = ("turn", "system")


def metric_cells(
    space: Workspace, corpus: str, qualities: Sequence[str], levels: Sequence[str] = LEVELS, best_of: str = ""
) -> Cells:
    """Return the cells of Tables 3-6 and 10-21: every metric against some qualities; ours beside the published ones.

    `best_of` names a table that prints the best metrics only: of the others it needs none.
    """
    stands = {**METRICS, **(ON_PERSONACHAT if corpus == "PersonaChat" else {}), **OURS}
    named = {quality: quality for quality in qualities}
    cells = correlations(space, corpus, FILES[corpus], stands, levels=LEVELS, qualities=named, exclude=[REFERENCE])
    if corpus == "Topical-Chat":
        cells |= authors_cells(space, named)
    if best_of:
        printed = {one.key for one in of_table("usr", best_of)}
        cells = {key: ours for key, ours in cells.items() if key in printed or key.metric in OURS}
    return {key: ours for key, ours in cells.items() if key.level in levels}


def authors_cells(space: Workspace, qualities: Mapping[str, str]) -> Cells:
    """Return what the authors' own 300 scores give: a check of the protocol that no model of ours has a part in."""
    names = [f"{name}, {AUTHORS}" for name in ("USR-MLM", "USR-DR (x = c)", "USR-DR (x = f)", "USR")]
    rated = [example for example in space.examples(FILES["Topical-Chat"]) if example.system != REFERENCE]
    try:
        parts = _authors_scores(space, rated)
    except TurnwiseError as problem:
        absent = Ours(why_not=str(problem))
        return {
            Key("Topical-Chat", level, quality, name, statistic): absent
            for name in names for quality in qualities for level in LEVELS for statistic in STATISTICS
        }  # fmt: skip
    mlm, dr_c, dr_f = np.array(parts).T
    cells: Cells = {}
    for name, values in zip(names, (mlm, dr_c, dr_f, usr_score(mlm, dr_c, dr_f)), strict=True):
        for quality in qualities:
            for level in LEVELS:
                left, right, clusters = _points(rated, values, quality, level)
                resampled = clusters if level == "turn" else None
                cells |= correlated(Key("Topical-Chat", level, quality, name, ""), left, right, resampled, space.seed)
    return cells


def _authors_scores(space: Workspace, rated: Sequence[Example]) -> list[list[float]]:
    """USR's three parts for each response."""
    file = space.published("usr_topicalchat_scores.csv")
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        parts = {row["id"]: [float(row[name]) for name in ("usr_mlm", "usr_dr_c", "usr_dr_f")] for row in rows}
        return [parts[example.id] for example in rated]
    except (KeyError, TypeError, ValueError) as problem:
        raise TurnwiseError(f"published/{file.name} is damaged or not of these responses ({problem})") from None


def _points(kept: Sequence[Example], values: Any, quality: str, level: str) -> tuple[Any, Any, Any]:
    ratings = np.array([mean_rating(example.ratings[quality]) for example in kept], dtype=np.float64)
    if level == "turn":
        return values, ratings, np.array([cluster_key(example) for example in kept])
    systems = np.array([example.system for example in kept])
    names = sorted(set(systems.tolist()))
    means = [(values[systems == name].mean(), ratings[systems == name].mean()) for name in names]
    left, right = np.array(means).T
    return left, right, np.arange(len(names))


def trick_cells(space: Workspace) -> Cells:
    """Return the word F-1 of one constant answer against what people said in Topical-Chat."""
    dialogues = space.dialogues("topicalchat_test_freq")[: space.limit]
    rows = [
        {"response": TRICK, "references": [" ".join(turn.text.lower().split())], "dialogue_id": dialogue.id}
        for dialogue in dialogues
        for turn in dialogue.turns
    ]
    (value,) = [one for one in space.evaluated(rows, ["f1"]).system_values if one.metric == "f1"]
    key = Key("Topical-Chat", "other", "word F-1", "always the ten commonest words", "percent")
    percent, low, high = (None if end is None else 100 * end for end in (value.value, value.low, value.high))
    return {key: Ours(percent, low, high, value.n, "f1", notes=("turns of the frequent test set, in lower case",))}


FIVE = QUALITIES[:-1]
PAPER = declared(
    "usr",
    {
        "1": agreement_cells,
        "2": mean_cells,
        **{
            str(3 + place): partial(
                metric_cells, corpus=corpus, qualities=FIVE, levels=("turn",), best_of=str(3 + place)
            )
            for place, corpus in enumerate(FILES)
        },
        **{
            str(5 + place): partial(metric_cells, corpus=corpus, qualities=(OVERALL,), levels=("turn",))
            for place, corpus in enumerate(FILES)
        },
        **{
            str(10 + 2 * place + column): partial(metric_cells, corpus=corpus, qualities=(quality,))
            for place, quality in enumerate((OVERALL, *FIVE))
            for column, corpus in enumerate(FILES)
        },
        "Fig. 2": weight_rows,
        "regression": regression_cells,
        "f1-trick": trick_cells,
    },
    authors=AUTHORS,
)
