"""USR (Mehri and Eskenazi 2020): Tables 1-6 and 10-21, Fig. 2, the regression, and the trick with F-1."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from turnwise.dialogue import Example, mean_rating
from turnwise.engine.local import cluster_key
from turnwise.errors import TurnwiseError
from turnwise.metrics.usr import usr_score
from turnwise.reproduce.cells import FigureSpec, Ours, Paper, TableSpec, ended
from turnwise.reproduce.published import Key, of_table
from turnwise.reproduce.room import Room
from turnwise.reproduce.stand import STATISTICS, Stand, Stands, correlations, shipped
from turnwise.reproduce.usr_people import (
    FILES,
    OVERALL,
    QUALITIES,
    REFERENCE,
    agreement_cells,
    mean_cells,
    rater_weights,
    regression_cells,
)
from turnwise.stats.bootstrap import correlation_interval
from turnwise.stats.correlation import pearson, spearman

VECTORS = "word vectors of the models in use, not GloVe"
ENCODER = "the encoder of the models in use, not RoBERTa"
MODELS = "the published definition, asked of the models in use"
STANDARDISED = "parts standardised over the corpus"
METRICS: Stands = {
    "F-1": (Stand("f1:released"),),
    **{f"BLEU-{n}": (Stand(f"bleu-{n}:released"),) for n in range(1, 5)},
    "METEOR": (Stand("meteor", "nltk's METEOR; the table has METEOR 1.5 (Java), which also knows paraphrases"),),
    "ROUGE-L": (Stand("rouge-l:released"),),
    "Greedy Matching": (Stand("greedy-matching", models=VECTORS),),
    "Embedding Average": (Stand("embedding-average", models=VECTORS),),
    "Vector Extrema": (Stand("vector-extrema", models=VECTORS),),
    "Skip-Thought": (Stand("skip-thought", models="a small network of our own in place of the authors'"),),
    "BERTScore (base)": (Stand("bertscore[encoder=encoder-roberta,layer=10]"), Stand("bertscore", models=ENCODER)),
    "BERTScore (large)": (Stand("bertscore:released"),),
    "USR-MLM": (Stand("usr-mlm:released", models=MODELS),),
    "USR-DR (x = c)": (Stand("usr-dr-c:released", models=MODELS),),
    "USR-DR (x = f)": (Stand("usr-dr-f:released", models=MODELS),),
    "USR": (Stand("usr:released[constants=batch]", STANDARDISED, MODELS),),
}
# On PersonaChat the authors let DR(c) stand for every quality but the first.
ON_PERSONACHAT: Stands = {
    "USR": (Stand("usr:released[constants=batch,feeds=mlm/dr_c/dr_c/dr_c/dr_c]", STANDARDISED, MODELS),)
}
OURS = shipped("usr", "usr-mlm", "usr-dr-c", "usr-dr-f", "usl-h", "length")
TRICK = ". i the , that a to it is of"
AUTHORS = "authors' own scores"
LEVELS = ("turn", "system")


def metric_cells(
    room: Room, corpus: str, qualities: Sequence[str], levels: Sequence[str] = LEVELS, best_of: str = ""
) -> dict[Key, Ours]:
    """Tables 3-6 and 10-21: every metric against some qualities; ours beside the published ones.

    `best_of` names a table that prints the best metrics only: of the others it needs none.
    """
    stands = {**METRICS, **(ON_PERSONACHAT if corpus == "PersonaChat" else {}), **OURS}
    named = {quality: quality for quality in qualities}
    cells = correlations(room, corpus, FILES[corpus], stands, levels=LEVELS, qualities=named, exclude=[REFERENCE])
    if corpus == "Topical-Chat":
        cells |= authors_cells(room, named)
    if best_of:
        printed = {one.key for one in of_table("usr", best_of)}
        cells = {key: ours for key, ours in cells.items() if key in printed or key.metric in OURS}
    return {key: ours for key, ours in cells.items() if key.level in levels}


def authors_cells(room: Room, qualities: Mapping[str, str]) -> dict[Key, Ours]:
    """What the authors' own 300 scores give: a check of the protocol that no model of ours has a part in."""
    names = [f"{name}, {AUTHORS}" for name in ("USR-MLM", "USR-DR (x = c)", "USR-DR (x = f)", "USR")]
    rated = [example for example in room.examples(FILES["Topical-Chat"]) if example.system != REFERENCE]
    try:
        parts = _authors_scores(room, rated)
    except TurnwiseError as problem:
        absent = Ours(why_not=str(problem))
        return {
            Key("Topical-Chat", level, quality, name, statistic): absent
            for name in names for quality in qualities for level in LEVELS for statistic in STATISTICS
        }  # fmt: skip
    mlm, dr_c, dr_f = np.array(parts).T
    cells = {}
    for name, values in zip(names, (mlm, dr_c, dr_f, usr_score(mlm, dr_c, dr_f)), strict=True):
        for quality in qualities:
            for level in LEVELS:
                left, right, clusters = _points(rated, values, quality, level)
                interval = correlation_interval(left, right, clusters, seed=room.seed) if level == "turn" else None
                key = Key("Topical-Chat", level, quality, name, "")
                cells[key._replace(statistic="pearson")] = Ours(pearson(left, right).value, n=len(left))
                cells[key._replace(statistic="spearman")] = ended(spearman(left, right).value, interval, len(left))
    return cells


def _authors_scores(room: Room, rated: Sequence[Example]) -> list[list[float]]:
    """USR's three parts for each response."""
    file = room.published("usr_topicalchat_scores.csv")
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


def trick_cells(room: Room) -> dict[Key, Ours]:
    """Word F-1 of one answer that is always the same, against what people said in Topical-Chat."""
    dialogues = room.dialogues("topicalchat_test_freq")[: room.limit]
    rows = [
        {"response": TRICK, "references": [" ".join(turn.text.lower().split())], "dialogue_id": dialogue.id}
        for dialogue in dialogues
        for turn in dialogue.turns
    ]
    (value,) = [one for one in room.evaluated(rows, ["f1"]).system_values if one.metric == "f1"]
    key = Key("Topical-Chat", "other", "word F-1", "always the ten commonest words", "percent")
    percent, low, high = (None if end is None else 100 * end for end in (value.value, value.low, value.high))
    return {key: Ours(percent, low, high, value.n, "f1", notes=("turns of the frequent test set, in lower case",))}


def _table(number: int, title: str, fill: Callable[[Room], Mapping[Key, Ours]], **more: Any) -> TableSpec:
    return TableSpec("usr", str(number), title, fill, **more)


def _by_quality() -> list[TableSpec]:
    order = (OVERALL, *QUALITIES[:-1])
    return [
        _table(
            10 + 2 * place + column,
            f"all metrics on {corpus}, {quality}",
            partial(metric_cells, corpus=corpus, qualities=(quality,)),
            across=("level", "statistic"),
            notes=SAME_COLUMNS if column and place else (),
        )
        for place, quality in enumerate(order)
        for column, corpus in enumerate(FILES)
    ]


SAME_COLUMNS = (
    "The paper's system-level columns of this table repeat those of Overall (Table 11) word for word; ours are of this "
    "quality.",
)
SWAPPED = ("The paper prints Pearson under Spearman and the other way round; here both stand under their own names.",)
FIVE = QUALITIES[:-1]

PAPER = Paper(
    "usr",
    "USR: An Unsupervised and Reference Free Evaluation Metric for Dialog Generation",
    (
        _table(1, "how far raters agree", agreement_cells, down=("corpus", "quality"), across=("statistic",)),
        _table(2, "mean ratings of the systems", mean_cells, down=("corpus", "metric"), across=("quality",)),
        *(
            _table(
                3 + place, f"best metrics by quality, {corpus}",
                partial(metric_cells, corpus=corpus, qualities=FIVE, levels=("turn",), best_of=str(3 + place)),
                down=("quality", "metric"), across=("statistic",),
            )
            for place, corpus in enumerate(FILES)
        ),
        *(
            _table(
                5 + place, f"turn-level correlation with Overall, {corpus}",
                partial(metric_cells, corpus=corpus, qualities=(OVERALL,), levels=("turn",)),
                across=("statistic",), notes=SWAPPED,
            )
            for place, corpus in enumerate(FILES)
        ),
        *_by_quality(),
        FigureSpec(
            "usr", "Fig. 2", "what each rater weighs", "bars", "quality", "share of weight", rater_weights,
            notes=("Least squares on z-scored qualities, by rater (the paper drew five of them), through a softmax.",),
        ),
        TableSpec("usr", "regression", "Overall from the five qualities", regression_cells, across=("statistic",)),
        TableSpec("usr", "f1-trick", "one answer to everything", trick_cells, across=("statistic",)),
    ),
    notes=(
        "F-1 in the published tables counts characters; so does ours here (`f1:released`). Correlations leave out "
        f"“{REFERENCE}”, which is the reference: at system level five systems are left on Topical-Chat, four on "
        f"PersonaChat. Rows named “{AUTHORS}” use the 300 scores that the authors published.",
    ),
)  # fmt: skip
