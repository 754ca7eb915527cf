"""USL-H (Phy et al. 2020): Tables 1-7 and Figs. 2-4, on ratings of others that can be read as its three qualities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from turnwise.analyses.select import select
from turnwise.dialogue import Example, mean_rating
from turnwise.engine.local import cluster_key
from turnwise.errors import TurnwiseError
from turnwise.metrics.uslh import compose
from turnwise.reproduce.aspects import (
    ASPECTS,
    COMPOSED,
    CORPORA,
    OVERALL,
    SENSIBLE,
    SPECIFIC,
    UNDERSTANDABLE,
    mapped,
    mapped_examples,
    means,
    weights,
)
from turnwise.reproduce.cells import FigureSpec, Ours, Paper, TableSpec, by_corpus, ended
from turnwise.reproduce.published import Key
from turnwise.reproduce.room import Room
from turnwise.reproduce.stand import Stand, Stands, chosen, correlations, shipped
from turnwise.reproduce.usl_h_figures import AVERAGE, CONTEXT_ALONE, HIERARCHY, group_bars, rater_bars, swap_bars
from turnwise.stats.bootstrap import correlation_interval
from turnwise.stats.correlation import pearson, spearman

EXAMPLES = "the texts of the paper's examples are not part of its release"
VECTORS, ENCODER = "word vectors of the models in use", "the encoder of the models in use"
BERT = "the models in use, not BERT"
HEAD = "a small network on the encoder of the models in use"
SUB_METRICS: Mapping[str, Stands] = {
    UNDERSTANDABLE: {
        "Embedding Average": (Stand("embedding-average", models=VECTORS),),
        "MLM-PPL": (Stand("mlm-ppl", models=BERT),),
        "BERTScore": (Stand("bertscore", models=ENCODER),),
        "BERT-VUP": (Stand("vup", models=BERT),),
    },
    SENSIBLE: {
        "Vector Extrema": (Stand("vector-extrema", models=VECTORS),),
        "EN-PONE": (Stand("pone", models=HEAD),),
        "BERT-RUBER": (Stand("bert-ruber", models=HEAD),),
        "BERT-NUP": (Stand("nup", models=BERT),),
    },
    SPECIFIC: {
        "Embedding Average": (Stand("embedding-average", models=VECTORS),),
        "MLM-NCE": (Stand("mlm-nce", models=BERT),),
        "MLM-SLOR": (Stand("mlm-slor", models=BERT),),
        "MLM-Likelihood": (Stand("mlm-likelihood", models=BERT),),
    },
}
WHOLE: Stands = {
    **{f"BLEU-{n}": (Stand(f"bleu-{n}"),) for n in (2, 3, 4)},
    "METEOR": (Stand("meteor"),),
    "ROUGE-L": (Stand("rouge-l"),),
    "Embedding Average": (Stand("embedding-average", models=VECTORS),),
    "Greedy Matching": (Stand("greedy-matching", models=VECTORS),),
    "Vector Extrema": (Stand("vector-extrema", models=VECTORS),),
    "BERTScore": (Stand("bertscore", models=ENCODER),),
    "BERT-RUBER": (Stand("bert-ruber", models=HEAD),),
    "EN-PONE": (Stand("pone", models=HEAD),),
    "BERT-NUP": (Stand("nup", models=BERT),),
    "USL_S-A": (Stand(AVERAGE, models=BERT),),
    "USL_S-H": (Stand(HIERARCHY, models=BERT),),
}
EMPATHIC = f"usl-h[{CONTEXT_ALONE},likability=empathy]"
RIVALS: Stands = {
    "BERTScore": WHOLE["BERTScore"],
    "BERT-RUBER": WHOLE["BERT-RUBER"],
    "BERT-NUP": WHOLE["BERT-NUP"],
    "USL_S-H": WHOLE["USL_S-H"],
}


def kappa_cells(room: Room) -> dict[Key, Ours]:
    """Table 2, and the same with distances counted."""

    def of(corpus: str) -> dict[Key, Ours]:
        return {
            Key(corpus, "human", row.quality, "Inter-annotator", row.method): Ours(
                row.value, row.low, row.high, row.n_items
            )
            for row in room.agreed(mapped(room, corpus))
            if row.method in ("kappa", "kappa-linear")
        }

    return by_corpus(CORPORA, of)


def human_cells(room: Room, corpus: str) -> dict[Key, Ours]:
    """How far one rater agrees with the others."""
    cells = {}
    note = "each rater against the mean of the others; the paper does not say how it did"
    for row in room.agreed(mapped(room, corpus)):
        form, _, statistic = row.method.rpartition("-")
        if form.startswith("leave-one-out"):
            name = {"mean": "Human (Avg)", "max": "Human (Max)"}[form.rpartition("-")[2]]
            key = Key(corpus, "human", row.quality, name, statistic)
            cells[key] = Ours(row.value, row.low, row.high, row.n_items, notes=(note,))
    return cells


def sub_metric_cells(room: Room) -> dict[Key, Ours]:
    """Table 3."""

    def of(corpus: str) -> dict[Key, Ours]:
        cells: dict[Key, Ours] = {}
        for quality, stands in SUB_METRICS.items():
            cells |= correlations(room, corpus, mapped(room, corpus), stands, qualities={quality: quality})
        return cells | {key: ours for key, ours in human_cells(room, corpus).items() if key.quality in ASPECTS}

    return by_corpus(CORPORA, of)


def whole_cells(room: Room) -> dict[Key, Ours]:
    """Table 4: the overall rating as it was given, and as the hierarchy composes it from the three."""

    def of(corpus: str) -> dict[Key, Ours]:
        stands: dict[str, Any] = {**WHOLE, **shipped("usl-h", "usr", "length")}
        if fitted := weights(mapped_examples(room, corpus)):
            alphas = "/".join(f"{share:.6f}" for share in _adding_up(fitted.shares))
            note = "weights through a softmax, as Fig. 2 has them, of this corpus"
            for name, request in (("USL_S-A", "usl-a"), ("USL_S-H", "usl-h")):
                stands[f"{name} + Weighted"] = (Stand(f"{request}[{CONTEXT_ALONE},alphas={alphas}]", note, BERT),)
        both = {OVERALL: OVERALL, COMPOSED: COMPOSED}
        cells = correlations(room, corpus, mapped(room, corpus), stands, qualities=both)
        cells |= {key: ours for key, ours in human_cells(room, corpus).items() if key.quality in both}
        return {key: ours for key, ours in cells.items() if key.statistic == "pearson" or key.quality == OVERALL}

    return by_corpus(CORPORA, of)


def _adding_up(shares: tuple[float, ...]) -> list[float]:
    rounded = [round(share, 6) for share in shares]
    return [*rounded[:-1], 1 - sum(rounded[:-1])]


def rerank_cells(room: Room) -> dict[Key, Ours]:
    """Table 5: what two metrics pick of the same candidates, judged by the ratings that the candidates have."""
    corpus = "DailyDialog"
    if why := room.lacking(EMPATHIC):
        raise TurnwiseError(why)
    cells: dict[Key, Ours] = {}
    for name, ways in RIVALS.items():
        key = Key(corpus, "human", "sensible and feeling-expressive", f"USL_E-H vs. {name}", "")
        way, why = chosen(room, ways)
        if way is None:
            statistics = ("win_rate", "count_a_win", "count_b_win", "count_tie")
            cells |= {key._replace(statistic=one): Ours(why_not=why) for one in statistics}
            continue
        found = select(
            mapped(room, corpus), EMPATHIC, against=way.request,
            seed=room.seed, models=room.models, device=room.device, cache=room.cache,
        )  # fmt: skip
        wins = [_won(pick.example, found.against.picks[context].example)
                for context, pick in found.best.picks.items()
                if found.against and context in found.against.picks]  # fmt: skip
        first, second = wins.count(1), wins.count(-1)
        counts = {"count_a_win": first, "count_b_win": second, "count_tie": wins.count(0)}
        rate = first / (first + second) if first + second else None
        cells[key._replace(statistic="win_rate")] = (
            Ours(rate, n=len(wins), how=EMPATHIC) if rate is not None else Ours(why_not="no pick was rated higher")
        )
        cells |= {key._replace(statistic=one): Ours(float(count), n=len(wins)) for one, count in counts.items()}
    return cells


def _won(first: Example, second: Example) -> int:
    left, right = (mean_rating(one.ratings.get(OVERALL, ())) or 0.0 for one in (first, second))
    return (left > right) - (left < right)


def composite_cells(room: Room) -> dict[Key, Ours]:
    """Table 6: compositions of people's own three ratings against their overall one."""
    names = {
        "Arithmetic mean (human aspects)": ("A", (1 / 3, 1 / 3, 1 / 3)),
        "Geometric mean (human aspects)": ("geometric", (1 / 3, 1 / 3, 1 / 3)),
        "Harmonic mean (human aspects)": ("harmonic", (1 / 3, 1 / 3, 1 / 3)),
        "USL_S-H (human aspects)": ("HS", (0.33, 0.33, 0.34)),
    }

    def of(corpus: str) -> dict[Key, Ours]:
        cells: dict[Key, Ours] = {}
        examples = mapped_examples(room, corpus)
        table = means(examples)
        whole = ~np.isnan(table).any(axis=1)
        clusters = np.array([cluster_key(one) for one in examples])[whole]
        u, s, l, overall = table[whole].T  # noqa: E741  (the paper's letters)
        for name, (composition, alphas) in names.items():
            composed = compose(u, s, l, composition, alphas)  # type: ignore[arg-type]
            key = Key(corpus, "human", OVERALL, name, "spearman")
            interval = correlation_interval(composed, overall, clusters, seed=room.seed)
            cells[key] = ended(spearman(composed, overall).value, interval, len(overall))
            cells[key._replace(statistic="pearson")] = Ours(pearson(composed, overall).value, n=len(overall))
        return cells

    return by_corpus(CORPORA, of)


MAPPING = "; ".join(f"{corpus}: {of.file}, {of.said()}" for corpus, of in CORPORA.items())
PAPER = Paper(
    "usl-h",
    "Deconstruct to Reconstruct a Configurable Evaluation Metric for Open-Domain Dialogue Systems",
    (
        TableSpec("usl-h", "1", "two candidates", lambda _: {}, otherwise=EXAMPLES, across=("corpus",)),
        TableSpec("usl-h", "2", "how far raters agree", kappa_cells, down=("corpus", "quality"), across=("statistic",)),
        TableSpec("usl-h", "3", "sub-metrics against the quality each stands for", sub_metric_cells,
                  down=("quality", "metric"), across=("corpus", "statistic")),
        TableSpec("usl-h", "4", "metrics against the overall rating", whole_cells,
                  across=("corpus", "quality", "statistic")),
        TableSpec(
            "usl-h", "5", "picking the best of several responses", rerank_cells, across=("statistic",),
            notes=("The paper had people vote between two picks of 100 generated candidates for feeling. Ours are "
                   "picks of the rated responses of several systems to a context, and a pick wins by its overall "
                   "rating: another question, answered without a new vote.",),
        ),
        TableSpec("usl-h", "6", "compositions of people's own ratings", composite_cells,
                  across=("corpus", "statistic")),
        TableSpec("usl-h", "7", "four examples", lambda _: {}, otherwise=EXAMPLES, across=("corpus",)),
        FigureSpec("usl-h", "Fig. 2", "what each rater weighs", "bars", "quality", "share of weight", rater_bars),
        FigureSpec("usl-h", "Fig. 3", "mean score by what people say: (understandable, sensible, specific)", "bars",
                   "group", "mean score", group_bars),
        FigureSpec("usl-h", "Fig. 4", "what if one sub-metric were as good as people?", "bars",
                   "taken from people", "Pearson with the overall rating", swap_bars),
    ),
    notes=("The paper's annotations are not public. Its tables are computed on ratings of others, each on 0 to 1. "
           f"{MAPPING}. Where the paper prints DailyDialog, ours is the first of these.",
           "The paper's dialogues come without facts, so USL-H and its rivals ask here about the context alone "
           f"(`{CONTEXT_ALONE}`); `usl-h` as shipped, which also reads what a speaker knows, is a row apart.",),
)  # fmt: skip
