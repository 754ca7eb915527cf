"""MAUDE (Sinha et al. 2020): Tables 1-6, Fig. 2's two protocols, Appendix A, and scores along a dialogue."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from turnwise.analyses.evaluate import evaluate
from turnwise.analyses.metaevaluate import metaevaluate
from turnwise.engine.score import Judged
from turnwise.errors import TurnwiseError
from turnwise.reproduce.cells import Cells, Ours, Stand, Stands, by_corpus, chosen, declared, stands
from turnwise.reproduce.maude_probe import accuracy_cells, along, scatter
from turnwise.reproduce.maude_samples import (
    DIALOGUES,
    KINDS,
    RANDOM,
    TRUE,
    ZERO_SHOT_DIALOGUES,
    Spread,
    spread,
    variants,
)
from turnwise.reproduce.published import Key
from turnwise.reproduce.workspace import Workspace
from turnwise.stats.calibrate import calibrate
from turnwise.stats.correlation import spearman

ON_ALL = stands("maude", "on_all")
OURS: Stands = {"nup (ours)": (Stand("nup"),)}
WITH_OURS = {**ON_ALL, **OURS}
# As Table 2 calls a quality, and as the logs do.
QUALITIES = {
    "Fluency": "fluency", "Engagingness": "enjoy", "Humanness": "humanness", "Making Sense": "make_sense",
    "Inquisitiveness": "inquisitive", "Interestingness": "interest", "Avoiding Repetition": "avoid_rep",
    "Listening": "listen",
}  # fmt: skip
MEAN = "Mean"
RATED = {"Topical-Chat (USR)": "usr_topicalchat", "PersonaChat (USR)": "usr_personachat"}


def logs(space: Workspace) -> Path:
    """Return See et al.'s logs of rated conversations as one file: the paper has one number for all of them."""
    found = sorted((space.data / "see").rglob("*.jsonl"))
    if not found:
        raise TurnwiseError("See et al.'s logs are not among the data; fetch them with 'turnwise data get see'")
    lines = (line for file in found for line in file.read_text(encoding="utf-8").splitlines() if line.strip())
    return space.derived("see", (json.loads(line) for line in lines))


def human_cells(space: Workspace) -> Cells:
    """Return the cells of Table 2: system means against ratings freed from raters' bias, over systems."""
    file = logs(space)
    ways = {name: chosen(space, ways) for name, ways in WITH_OURS.items()}
    requests = [way.request for way, _ in ways.values() if way]
    judged: list[Judged] = []
    if requests:
        judged = evaluate(file, requests, corpus="see", seed=space.seed, **space.models_in_use).judged
    cells: Cells = {}
    for name, (way, why) in ways.items():
        found = []
        for printed, quality in QUALITIES.items():
            key = Key("PersonaChat", "system", printed, name, "spearman")
            ours = _calibrated(judged, way.request, quality, space) if way else Ours(why_not=why)
            cells[key] = replace(ours, notes=way.said(space)) if way and ours.value is not None else ours
            found.append(cells[key].value)
        known = [value for value in found if value is not None]
        if way:
            cells |= _uncalibrated(space, file, name, way.request)
        whole = len(known) == len(QUALITIES)
        mean = Ours(float(np.mean(known))) if whole else Ours(why_not=why or "a quality is missing")
        cells[Key("PersonaChat", "system", MEAN, name, "spearman")] = mean
    return cells


def _uncalibrated(space: Workspace, file: Path, name: str, request: str) -> Cells:
    """Return the mean score of each conversation against the rating that it was given."""
    result = metaevaluate(file, [request], level="dialogue", corpus="see", seed=space.seed, **space.models_in_use)
    rows = {row.quality: row for row in result.rows}
    return {
        Key("PersonaChat", "dialogue", printed, name, "spearman"): Ours(
            row.spearman, row.spearman_low, row.spearman_high, row.n, request
        )
        for printed, quality in QUALITIES.items()
        if (row := rows.get(quality)) is not None and row.spearman is not None
    }


def _calibrated(judged: Sequence[Judged], request: str, quality: str, space: Workspace) -> Ours:
    """Return Spearman between the mean scores of systems and their calibrated ratings."""
    scores: dict[str, list[float]] = {}
    ratings: dict[tuple[str, object, str], float] = {}
    for place, item in enumerate(judged):
        example = item.row.example
        if example is None or (value := item.scores[request].value) is None:
            continue
        scores.setdefault(example.system, []).append(value)
        for rater, given in zip(example.raters, example.ratings.get(quality, ()), strict=False):
            unit = example.dialogue_id if example.rated == "dialogue" else place
            if given is not None:
                ratings[example.system, unit, rater] = given
    if not ratings:
        return Ours(how=request, why_not="the ratings do not say who gave them")
    values = list(ratings.values())
    people = calibrate(
        values, [key[0] for key in ratings], [key[2] for key in ratings],
        scale=(min(values), max(values)) if min(values) < max(values) else None, seed=space.seed,
    )  # fmt: skip
    systems = [system for system in scores if system in people.systems]
    found = spearman([np.mean(scores[name]) for name in systems], [people.systems[name].mean for name in systems])
    return Ours(found.value, n=found.n, how=request) if found.value is not None else Ours(why_not="too few systems")


@by_corpus(RATED)
def protocol_cells(space: Workspace, corpus: str) -> Cells:
    """Return both protocols on rated data at hand: single responses as rated, and systems with calibrated ratings."""
    cells: Cells = {}
    file = RATED[corpus]
    for name, ways in WITH_OURS.items():
        way, why = chosen(space, ways)
        key = Key(corpus, "turn", "Overall", name, "uncalibrated")
        if way is None:
            cells[key] = cells[key._replace(level="system", statistic="calibrated")] = Ours(why_not=why)
            continue
        row = space.meta(file, [way.request], level="turn")[way.request, "turn", "Overall"]
        cells[key] = Ours(row.spearman, row.spearman_low, row.spearman_high, row.n, way.request)
        judged = space.scored(file, [way.request]).judged
        calibrated = _calibrated(judged, way.request, "Overall", space)
        cells[key._replace(level="system", statistic="calibrated")] = calibrated
    return cells


def protocol_bars(space: Workspace) -> list[dict[str, Any]]:
    """Return the rows of Fig. 2 on rated data at hand."""
    cells: Mapping[Key, Ours] = protocol_cells(space)
    rows = [
        {"panel": key.corpus, "x": key.metric, "y": ours.value, "group": key.statistic}
        for key, ours in cells.items()
        if ours.value is not None
    ]
    if not rows:
        raise TurnwiseError(next(iter(cells.values())).why_not)
    return rows


PERSONACHAT = "personachat_valid"
ZERO_SHOT = {"DailyDialog": "dailydialog_test", "Frames": "frames_train", "MultiWOZ": "multiwoz_test"}
STATISTICS = ("mean", "std", "delta")
# What the heads that learnt from one set of negatives are called in a pack that has them.
ON_SEMANTICS = stands("maude", "on_semantics")
ON_SYNTAX = stands("maude", "on_syntax")


def spread_of(
    space: Workspace, corpus: str, stands: Stands, most: int = DIALOGUES, kinds: Sequence[str] = KINDS
) -> dict[str, tuple[Spread | None, str]]:
    """Return, by published name, the spread of scores of each kind of response, or the reason for none."""
    ways = {name: chosen(space, ways) for name, ways in stands.items()}
    requests = tuple(dict.fromkeys(way.request for way, _ in ways.values() if way))
    if not requests:
        return {name: (None, why) for name, (_, why) in ways.items()}
    answers = space.once(f"variants of {corpus}", lambda: variants(space, corpus, most, kinds))
    found = space.once(f"{corpus}: {requests}", lambda: spread(space, answers, requests))
    return {
        name: (_noted(found[way.request], way.said(space)) if way else None, why) for name, (way, why) in ways.items()
    }


def _noted(kinds: Spread, notes: tuple[str, ...]) -> Spread:
    return {
        kind: {
            # The true responses lie below themselves by nothing: no result, and no wonder if the paper has the same.
            statistic: replace(one, notes=("zero by definition",) if (kind, statistic) == (TRUE, "delta") else notes)
            for statistic, one in measured.items()
        }
        for kind, measured in kinds.items()
    }


def delta_cells(space: Workspace, stands: Stands, statistics: Sequence[str] = STATISTICS) -> Cells:
    """Return the cells of Tables 1 and 4-6: every kind of response to PersonaChat's contexts."""
    cells = {}
    for name, (kinds, why) in spread_of(space, PERSONACHAT, stands).items():
        printed = Key("PersonaChat", "other", "", name, "")
        for kind in (TRUE, *DELTAS):
            for statistic in statistics:
                key = printed._replace(quality=kind, statistic=statistic)
                if kinds is None:
                    cells[key] = Ours(why_not=why)
                elif kind in kinds:
                    cells[key] = kinds[kind][statistic]
                else:
                    cells[key] = Ours(why_not="the models in use cannot write such responses")
    if len(statistics) == 1:
        cells = {key: ours for key, ours in cells.items() if key.quality != TRUE}
    return cells


DELTAS = ("BackTranslation", "Seq2Seq", RANDOM, "Random Seq2Seq", "Word Drop", "Word Order", "Word Repeat")


@by_corpus(ZERO_SHOT)
def zero_shot_cells(space: Workspace, corpus: str) -> Cells:
    """Return the cells of Table 3: true responses against random ones, on corpora that the head never saw."""
    cells: Cells = {}
    found = spread_of(space, ZERO_SHOT[corpus], WITH_OURS, ZERO_SHOT_DIALOGUES, (TRUE, RANDOM))
    for name, (kinds, why) in found.items():
        for quality, kind, statistics in (
            ("Semantic Positive", TRUE, STATISTICS[:2]),
            ("Semantic Negative", RANDOM, STATISTICS),
        ):
            for statistic in statistics:
                key = Key(corpus, "other", quality, name, statistic)
                cells[key] = kinds[kind][statistic] if kinds else Ours(why_not=why)
    return cells


PAPER = declared(
    "maude",
    {
        "1": partial(delta_cells, stands=WITH_OURS, statistics=("delta",)),
        "2": human_cells,
        "3": zero_shot_cells,
        "4": partial(delta_cells, stands=ON_SEMANTICS),
        "5": partial(delta_cells, stands=ON_SYNTAX),
        "6": partial(delta_cells, stands=WITH_OURS),
        "protocols": protocol_cells,
        "Fig. 2": protocol_bars,
        "Appendix A": accuracy_cells,
        "Fig. 3": scatter,
        "Figs. 4-6": along,
    },
    dialogues=DIALOGUES,
    zero_shot=ZERO_SHOT_DIALOGUES,
)
