"""Holistic evaluation (Pang et al. 2020): Tables 2-9, Figs. 1 and 2, and how far its metrics depend on each other."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from turnwise.dialogue import Example, mean_rating
from turnwise.engine.score import cluster_key
from turnwise.errors import TurnwiseError
from turnwise.io.write import example_to_dict
from turnwise.metrics.holistic import aggregated, own_turns
from turnwise.reproduce.cells import (
    STATISTICS,
    Cells,
    Ours,
    Stand,
    Stands,
    by_corpus,
    correlated,
    correlations,
    declared,
    ended,
    raters_cells,
    shipped,
)
from turnwise.reproduce.published import Key
from turnwise.reproduce.workspace import Workspace
from turnwise.stats.bootstrap import correlation_interval
from turnwise.stats.correlation import pearson

CORPUS = "DailyDialog"
LOGIC = {f"{CORPUS} ({name})": f"holistic_logic_{name.lower()}" for name in ("baseline", "WS", "CTG")}
# The authors' predictions are there for one of the three.
STORED = f"{CORPUS} (WS)"
GROUPS = {f"{CORPUS} ({name})": f"holistic_diversity_{name.lower()}" for name in ("WS", "CTG")}
SOME_GROUPS = 20
TUNED = "a causal language model tuned on several dialogue corpora, smaller than GPT-2"
UNTUNED = ("coherence:released[role=causal-lm-base]", "fluency:released[role=causal-lm-base]")


def rows_of(space: Workspace, metric: str, base: str) -> Stands:
    """Return what stands for the rows of Tables 3 and 4: the hub's GPT-2 is untuned, a pack's model is tuned."""
    asked = Stand(f"{metric}:released", models=TUNED)
    untuned = Stand(asked.request) if space.papers_models else Stand(base)
    tuned = Stand(f"{metric}:released[role=causal-lm-tuned]") if space.papers_models else asked
    return {"GPT-2 w/o Fine-tune": (untuned,), "GPT-2 w/ Fine-tune": (tuned,)}


def likelihood_cells(space: Workspace, metric: str, quality: str, file: str, base: str) -> Cells:
    """Return the cells of Tables 3 and 4: the metric, what else we have for it, and how far raters agree."""
    stands: dict[str, Any] = dict(rows_of(space, metric, base))
    if metric == "coherence":
        ruber = Stand("bert-ruber", "its unreferenced part alone: the release has no references")
        stands = {"RUBER+BERT": (ruber,), **stands}
    stands |= shipped(metric, f"{metric}:paper", *(("nup",) if metric == "coherence" else ("vup", "mlm-nce")), "length")
    cells = correlations(space, CORPUS, file, stands, qualities={quality: quality})
    return cells | rater_cells(space, CORPUS, file, quality)


def rater_cells(space: Workspace, corpus: str, file: str, quality: str) -> Cells:
    """Return each rater against the mean of the others."""
    cells = raters_cells(space, corpus, file, {form: f"Inter-Rater ({form})" for form in ("mean", "max")})
    return {key: ours for key, ours in cells.items() if key.quality == quality}


@by_corpus(GROUPS)
def entropy_cells(space: Workspace, corpus: str) -> Cells:
    """Return the cells of Table 5's metric without its ratings: the mean entropy of the released groups."""
    requests = {f"diversity:released[n={n}]": f"{n}-Gram Entropy" for n in (1, 2, 3)}
    return {
        Key(corpus, "other", "diversity", requests[value.metric], "mean entropy"): Ours(
            value.value, value.low, value.high, value.n, value.metric
        )
        for value in space.scored(GROUPS[corpus], list(requests)).system_values
    }


@by_corpus(LOGIC)
def logic_cells(space: Workspace, corpus: str) -> Cells:
    """Return the cells of Table 8: our classifier by the released rule; for WS also the authors' stored predictions."""
    quality, name = "logical_consistency", "Logical self-consistency"
    differs = "a small classifier of our own in place of RoBERTa-large"
    stands = {name: (Stand("consistency:released", models=differs),), **shipped("consistency", "consistency:paper")}
    cells = correlations(space, corpus, LOGIC[corpus], stands, qualities={quality: quality})
    return cells | (_stored_predictions(space, quality) if corpus == STORED else {})


def _stored_predictions(space: Workspace, quality: str) -> Cells:
    corpus, name = STORED, "Logical self-consistency, authors' stored predictions"
    key = Key(corpus, "turn", quality, name, "pearson")
    # The predictions are of all 100 dialogues in order, whatever sample is looked at.
    whole = Workspace(space.data, space.work).examples(LOGIC[corpus])
    try:
        stored = iter(_contradictions(space, sum(len(own_turns(example)) for example in whole)))
    except TurnwiseError as problem:
        return {key._replace(statistic=statistic): Ours(why_not=str(problem)) for statistic in STATISTICS}
    scores = [[next(stored) for _ in own_turns(example)] for example in whole]
    kept = {example.id for example in space.examples(LOGIC[corpus])}
    points = [(one, pairs) for one, pairs in zip(whole, scores, strict=True) if pairs and one.id in kept]
    left = np.array([5 * (1 - aggregated(pairs, "last")) for _, pairs in points])
    right = np.array([mean_rating(one.ratings[quality]) for one, _ in points], dtype=np.float64)
    return correlated(key, left, right, [cluster_key(one) for one, _ in points], space.seed)


def _contradictions(space: Workspace, pairs: int) -> list[float]:
    """Return how far the authors' classifier found each pair of utterances at odds."""
    file = space.published("holistic_logic_ws_mnli.pred")
    try:
        found = [float(line.split("\t")[1]) for line in file.read_text(encoding="utf-8").splitlines() if line]
    except (IndexError, ValueError) as problem:
        raise TurnwiseError(f"published/{file.name} is damaged ({problem})") from None
    if len(found) < pairs:
        raise TurnwiseError(f"published/{file.name} has {len(found)} predictions, {pairs} are needed")
    return found


@by_corpus(LOGIC)
def logic_agreement(space: Workspace, corpus: str) -> Cells:
    """Return the cells of Table 9."""
    return rater_cells(space, corpus, LOGIC[corpus], "logical_consistency")


def independence_cells(space: Workspace) -> Cells:
    """Return how far our own scores depend on each other, turn by turn and, for diversity, group by group."""
    names = {"coherence": "context_coherence", "fluency": "Fluency", "consistency": "Consistency"}
    space.require(*names)
    turns: list[dict[str, float | None]] = []
    clusters: list[int] = []
    for file in LOGIC.values():
        for item in space.scored(file, list(names)).judged:
            if item.row.example:
                turns.append({name: item.scores[name].value for name in names})
                clusters.append(cluster_key(item.row.example))
    pairs = [("coherence", "fluency"), ("coherence", "consistency"), ("fluency", "consistency")]
    cells = {}
    for first, second in pairs:
        key = Key(CORPUS, "turn", names[first], names[second], "pearson")
        cells[key] = _pair([turn[first] for turn in turns], [turn[second] for turn in turns], clusters, space)
    for name in ("coherence", "fluency"):
        groups = [
            of
            for file in GROUPS.values()
            for of in space.scored(_first_groups(space, file), ["diversity:released", name]).to_dict()["groups"]
        ]
        left, right = ([of["scores"].get(metric) for of in groups] for metric in ("diversity:released", name))
        key = Key(CORPUS, "group", "diversity", names[name], "pearson")
        cells[key] = _pair(left, right, list(range(len(groups))), space)
    return cells


def _first_groups(space: Workspace, file: str) -> Path:
    """Return a file with some groups: their contexts are whole conversations and slow to score."""
    examples = space.examples(file)
    kept = set(list(dict.fromkeys(one.group for one in examples))[:SOME_GROUPS])
    return space.derived(f"{file}_some", (example_to_dict(one) for one in examples if one.group in kept))


def _pair(left: list[Any], right: list[Any], clusters: list[int], space: Workspace) -> Ours:
    whole = [place for place in range(len(left)) if left[place] is not None and right[place] is not None]
    first, second = (np.array([side[place] for place in whole], dtype=np.float64) for side in (left, right))
    interval = correlation_interval(
        first, second, [clusters[place] for place in whole], method="pearson", seed=space.seed
    )
    return ended(pearson(first, second).value, interval, len(whole))


def scatter(space: Workspace, metric: str, file: str, quality: str) -> list[dict[str, Any]]:
    """Return the rows of Figs. 1 and 2: scores against mean ratings."""
    space.require(metric)
    rows = []
    for item in space.scored(file, [metric]).judged:
        example: Example | None = item.row.example
        value = item.scores[metric].value if example else None
        if example and value is not None:
            rows.append({"x": value, "y": mean_rating(example.ratings[quality]), "group": metric})
    return rows


COHERENCE: dict[str, Any] = {"quality": "context_coherence", "file": "holistic_coherence"}
FLUENCY: dict[str, Any] = {"quality": "fluency", "file": "holistic_fluency"}
PAPER = declared(
    "holistic",
    {
        "3": partial(likelihood_cells, metric="coherence", base=UNTUNED[0], **COHERENCE),
        "4": partial(likelihood_cells, metric="fluency", base=UNTUNED[1], **FLUENCY),
        "5": entropy_cells,
        "8": logic_cells,
        "9": logic_agreement,
        "independence": independence_cells,
        "Fig. 1": partial(scatter, metric="coherence:released", **COHERENCE),
        "Fig. 2": partial(scatter, metric="fluency:released", **FLUENCY),
    },
    groups=2 * SOME_GROUPS,
)
