"""USL-H (Phy et al. 2020): Tables 1-7 and Figs. 2-4, on other ratings that can be read as its three qualities.

Its own annotations are not public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.analyses.select import select
from turnwise.dialogue import Example, mean_rating
from turnwise.engine.score import Judged, cluster_key
from turnwise.io.read import read_rows
from turnwise.io.write import example_to_dict
from turnwise.metrics.uslh import compose, compose_ratings
from turnwise.reproduce.cells import (
    Cells,
    Ours,
    Stand,
    by_corpus,
    chosen,
    correlated,
    correlations,
    declared,
    rater_weights,
    raters_cells,
    shipped,
    stands,
)
from turnwise.reproduce.published import Key
from turnwise.reproduce.workspace import Workspace
from turnwise.stats.correlation import pearson
from turnwise.stats.regression import QualityFit, regress

UNDERSTANDABLE, SENSIBLE, SPECIFIC, OVERALL = "Understandable", "Sensible", "Specific", "Overall"
ASPECTS = (UNDERSTANDABLE, SENSIBLE, SPECIFIC)
COMPOSED = "Overall (USL_S-HH)"
Given = list[float | None]


@dataclass(frozen=True, slots=True)
class Mapped:
    """A rated corpus, and which of its ratings stands for which quality, with the ends of its scale."""

    file: str
    exclude: str
    ratings: Mapping[str, tuple[str, float, float]]

    def said(self) -> str:
        """Return the mapping in words."""
        return ", ".join(f"{own} for {name}" for name, (own, _, _) in self.ratings.items())


def _five(name: str) -> tuple[str, float, float]:
    return name, 1.0, 5.0


_USR = {
    UNDERSTANDABLE: ("Understandable", 0.0, 1.0),
    SENSIBLE: ("Maintains Context", 1.0, 3.0),
    SPECIFIC: ("Engaging", 1.0, 3.0),
    OVERALL: _five("Overall"),
}
# The first stands where the paper has its own DailyDialog annotations.
CORPORA: Mapping[str, Mapped] = {
    "DailyDialog": Mapped(
        "zhao_dailydialog",
        "ground-truth",
        {
            UNDERSTANDABLE: _five("grammar"),
            SENSIBLE: _five("relevance"),
            SPECIFIC: _five("content"),
            OVERALL: _five("appropriateness"),
        },
    ),
    "Topical-Chat (USR)": Mapped("usr_topicalchat", "Original Ground Truth", _USR),
    "PersonaChat (USR)": Mapped("usr_personachat", "Original Ground Truth", _USR),
}


def mapped(space: Workspace, corpus: str) -> Path:
    """Return the corpus with the paper's names of ratings, each on 0 to 1, and each rater's composition."""
    of = CORPORA[corpus]
    rows = [
        {**example_to_dict(one), "ratings": renamed(one, of)}
        for one in space.examples(of.file)
        if one.system != of.exclude
    ]
    return space.derived(f"usl-h_{of.file}", rows)


def mapped_examples(space: Workspace, corpus: str) -> list[Example]:
    """Return the examples of `mapped`."""
    return [row.example for row in read_rows([mapped(space, corpus)]) if row.example]


def renamed(example: Example, of: Mapped) -> dict[str, Given]:
    """Return the ratings of one example by the paper's names."""
    scaled: dict[str, Given] = {
        name: [None if given is None else (given - low) / (high - low) for given in example.ratings.get(own, ())]
        for name, (own, low, high) in of.ratings.items()
    }
    triples = zip(*(scaled[name] for name in ASPECTS), strict=False)
    return scaled | {COMPOSED: [compose_ratings([triple]) for triple in triples]}


def means(examples: Sequence[Example]) -> NDArray[np.float64]:
    """Return mean ratings, one row per example: the three qualities and the overall one; NaN where there is none."""
    rows: list[list[Any]] = [
        [mean_rating(one.ratings.get(name, ())) for name in (*ASPECTS, OVERALL)] for one in examples
    ]
    return np.array(rows, dtype=np.float64)


def weights(examples: Sequence[Example]) -> QualityFit | None:
    """Return how much each quality counts in the overall rating."""
    table = means(examples)
    return regress(table[:, :3], table[:, 3])


# The paper's dialogues have no facts that a response could be about.
CONTEXT_ALONE = "sensible=nup"
HIERARCHY, AVERAGE = f"usl-h[{CONTEXT_ALONE}]", f"usl-a[{CONTEXT_ALONE}]"


def rater_bars(space: Workspace) -> list[dict[str, Any]]:
    """Return the rows of Fig. 2: what each rater weighs."""
    qualities = (*ASPECTS, OVERALL)
    return [row for corpus in CORPORA for row in rater_weights(corpus, mapped_examples(space, corpus), qualities)]


def group_bars(space: Workspace) -> list[dict[str, Any]]:
    """Return the rows of Fig. 3: scores of responses that people find understandable, sensible and specific, or not."""
    rows = []
    names = {HIERARCHY: "USL-H", AVERAGE: "USL-A", "nup": "nup"}
    there = {request: name for request, name in names.items() if not space.lacking(request)}
    if not there:
        space.require(HIERARCHY)
    for corpus in CORPORA:
        groups: dict[str, list[Judged]] = {}
        for item in space.scored(mapped(space, corpus), list(there)).judged:
            if item.row.example:
                given = [mean_rating(item.row.example.ratings.get(name, ())) for name in ASPECTS]
                if None not in given:
                    group = ",".join("1" if value >= 0.5 else "0" for value in given if value is not None)
                    groups.setdefault(f"({group})", []).append(item)
        for group, items in sorted(groups.items()):
            for request, name in there.items():
                scores = [value for item in items if (value := item.scores[request].value) is not None]
                if scores:
                    rows.append({"panel": corpus, "x": group, "y": float(np.mean(scores)), "group": name})
    return rows


def swap_bars(space: Workspace) -> list[dict[str, Any]]:
    """Return the rows of Fig. 4: what would be won if one sub-metric were as good as people."""
    space.require(HIERARCHY)
    rows = []
    for corpus in CORPORA:
        triples, people, overall = [], [], []
        for item in space.scored(mapped(space, corpus), [HIERARCHY]).judged:
            example, parts = item.row.example, item.scores[HIERARCHY].parts if item.row.example else {}
            given = [mean_rating(example.ratings.get(name, ())) for name in (*ASPECTS, OVERALL)] if example else [None]
            if None not in given and "likability" in parts:
                triples.append([parts["vup"], parts["nup"], parts["likability"]])
                people.append(given[:3])
                overall.append(given[3])
        scores, ideal = np.array(triples, dtype=np.float64), np.array(people, dtype=np.float64)
        kinds: dict[str, tuple[int, ...]] = {one: (i,) for i, one in enumerate(ASPECTS)}
        for name, swapped in {"none": (), **kinds, "all": (0, 1, 2)}.items():
            table = scores.copy()
            table[:, list(swapped)] = ideal[:, list(swapped)]
            found = pearson(compose(*table.T), np.array(overall, dtype=np.float64)).value
            rows.append({"x": name, "y": found, "group": corpus})
    return rows


BERT = "the models in use, not BERT"
SUB_METRICS = {quality: stands("usl-h", quality.lower()) for quality in ASPECTS}
WHOLE = stands("usl-h", "whole")
EMPATHIC = f"usl-h[{CONTEXT_ALONE},likability=empathy]"
RIVALS = {name: WHOLE[name] for name in ("BERTScore", "BERT-RUBER", "BERT-NUP", "USL_S-H")}


@by_corpus(CORPORA)
def kappa_cells(space: Workspace, corpus: str) -> Cells:
    """Return the cells of Table 2, and the same with distances counted."""
    return {
        Key(corpus, "human", row.quality, "Inter-annotator", row.method): Ours(
            row.value, row.low, row.high, row.n_items
        )
        for row in space.agreed(mapped(space, corpus))
        if row.method in ("kappa", "kappa-linear")
    }


def human_cells(space: Workspace, corpus: str) -> Cells:
    """Return how far one rater agrees with the others."""
    note = "each rater against the mean of the others; the paper does not say how it did"
    names = {"mean": "Human (Avg)", "max": "Human (Max)"}
    return raters_cells(space, corpus, mapped(space, corpus), names, note)


@by_corpus(CORPORA)
def sub_metric_cells(space: Workspace, corpus: str) -> Cells:
    """Return the cells of Table 3."""
    cells: Cells = {}
    for quality, ways in SUB_METRICS.items():
        cells |= correlations(space, corpus, mapped(space, corpus), ways, qualities={quality: quality})
    return cells | {key: ours for key, ours in human_cells(space, corpus).items() if key.quality in ASPECTS}


@by_corpus(CORPORA)
def whole_cells(space: Workspace, corpus: str) -> Cells:
    """Return the cells of Table 4: the overall rating as given, and as composed by the hierarchy."""
    stands: dict[str, Any] = {**WHOLE, **shipped("usl-h", "usr", "length")}
    if fitted := weights(mapped_examples(space, corpus)):
        alphas = "/".join(f"{share:.6f}" for share in _adding_up(fitted.shares))
        note = "weights through a softmax, as Fig. 2 has them, of this corpus"
        for name, request in (("USL_S-A", "usl-a"), ("USL_S-H", "usl-h")):
            stands[f"{name} + Weighted"] = (Stand(f"{request}[{CONTEXT_ALONE},alphas={alphas}]", note, BERT),)
    both = {OVERALL: OVERALL, COMPOSED: COMPOSED}
    cells = correlations(space, corpus, mapped(space, corpus), stands, qualities=both)
    cells |= {key: ours for key, ours in human_cells(space, corpus).items() if key.quality in both}
    return {key: ours for key, ours in cells.items() if key.statistic == "pearson" or key.quality == OVERALL}


def _adding_up(shares: tuple[float, ...]) -> list[float]:
    rounded = [round(share, 6) for share in shares]
    return [*rounded[:-1], 1 - sum(rounded[:-1])]


def rerank_cells(space: Workspace) -> Cells:
    """Return the cells of Table 5: the picks of two metrics among the same candidates, judged by their ratings."""
    corpus = "DailyDialog"
    space.require(EMPATHIC)
    cells: Cells = {}
    for name, ways in RIVALS.items():
        key = Key(corpus, "human", "sensible and feeling-expressive", f"USL_E-H vs. {name}", "")
        way, why = chosen(space, ways)
        if way is None:
            statistics = ("win_rate", "count_a_win", "count_b_win", "count_tie")
            cells |= {key._replace(statistic=one): Ours(why_not=why) for one in statistics}
            continue
        source = mapped(space, corpus)
        found = select(source, EMPATHIC, against=way.request, seed=space.seed, **space.models_in_use)
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


@by_corpus(CORPORA)
def composite_cells(space: Workspace, corpus: str) -> Cells:
    """Return the cells of Table 6: compositions of people's own three ratings against their overall one."""
    names = {
        "Arithmetic mean (human aspects)": ("A", (1 / 3, 1 / 3, 1 / 3)),
        "Geometric mean (human aspects)": ("geometric", (1 / 3, 1 / 3, 1 / 3)),
        "Harmonic mean (human aspects)": ("harmonic", (1 / 3, 1 / 3, 1 / 3)),
        "USL_S-H (human aspects)": ("HS", (0.33, 0.33, 0.34)),
    }
    cells: Cells = {}
    examples = mapped_examples(space, corpus)
    table = means(examples)
    whole = ~np.isnan(table).any(axis=1)
    clusters = np.array([cluster_key(one) for one in examples])[whole]
    u, s, l, overall = table[whole].T  # noqa: E741  (the paper's letters)
    for name, (composition, alphas) in names.items():
        composed = compose(u, s, l, composition, alphas)  # type: ignore[arg-type]
        key = Key(corpus, "human", OVERALL, name, "spearman")
        # Spearman comes first in the paper's table.
        cells |= dict(reversed(correlated(key, composed, overall, clusters, space.seed).items()))
    return cells


PAPER = declared(
    "usl-h",
    {
        "2": kappa_cells,
        "3": sub_metric_cells,
        "4": whole_cells,
        "5": rerank_cells,
        "6": composite_cells,
        "Fig. 2": rater_bars,
        "Fig. 3": group_bars,
        "Fig. 4": swap_bars,
    },
    mapping="; ".join(f"{corpus}: {of.file}, {of.said()}" for corpus, of in CORPORA.items()),
    alone=CONTEXT_ALONE,
)
