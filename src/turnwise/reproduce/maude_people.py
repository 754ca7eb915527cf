"""MAUDE against people, by both protocols: Table 2 on See et al.'s logs, and Fig. 2 on rated data at hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from turnwise.analyses.evaluate import evaluate
from turnwise.analyses.metaevaluate import metaevaluate
from turnwise.engine.local import Judged
from turnwise.errors import TurnwiseError
from turnwise.reproduce.cells import Ours, by_corpus
from turnwise.reproduce.published import Key
from turnwise.reproduce.room import Room
from turnwise.reproduce.stand import Stand, Stands, chosen
from turnwise.stats.calibrate import calibrate
from turnwise.stats.correlation import spearman

HEADS = "a network of the models in use, trained on other dialogues than the paper's"
ON_ALL: Stands = {
    "RUBER": (Stand("ruber[blend=unreferenced]", models=HEADS),),
    "InferSent": (Stand("infersent", models=HEADS),),
    "DistilBERT-NLI": (Stand("bert-nli", models=HEADS),),
    "MAUDE": (Stand("maude", models=HEADS),),
}
OURS: Stands = {"nup (ours)": (Stand("nup"),)}
# As Table 2 calls a quality, and as the logs do.
QUALITIES = {
    "Fluency": "fluency", "Engagingness": "enjoy", "Humanness": "humanness", "Making Sense": "make_sense",
    "Inquisitiveness": "inquisitive", "Interestingness": "interest", "Avoiding Repetition": "avoid_rep",
    "Listening": "listen",
}  # fmt: skip
MEAN = "Mean"
RATED = {"Topical-Chat (USR)": "usr_topicalchat", "PersonaChat (USR)": "usr_personachat"}


def logs(room: Room) -> Path:
    """See et al.'s logs of rated conversations, as one file: the paper has one number for all of them."""
    found = sorted((room.data / "see").rglob("*.jsonl"))
    if not found:
        raise TurnwiseError("See et al.'s logs are not among the data; fetch them with 'turnwise data get see'")
    lines = (line for file in found for line in file.read_text(encoding="utf-8").splitlines() if line.strip())
    return room.derived("see", (json.loads(line) for line in lines))


def human_cells(room: Room) -> dict[Key, Ours]:
    """Table 2: system means against ratings freed from raters' bias, over systems."""
    file = logs(room)
    ways = {name: chosen(room, ways) for name, ways in {**ON_ALL, **OURS}.items()}
    requests = [way.request for way, _ in ways.values() if way]
    judged: list[Judged] = []
    if requests:
        judged = evaluate(
            file, requests, corpus="see", seed=room.seed, models=room.models, device=room.device, cache=room.cache
        ).judged
    cells: dict[Key, Ours] = {}
    for name, (way, why) in ways.items():
        found = []
        for printed, quality in QUALITIES.items():
            key = Key("PersonaChat", "system", printed, name, "spearman")
            ours = _calibrated(judged, way.request, quality, room) if way else Ours(why_not=why)
            cells[key] = replace(ours, notes=way.said(room)) if way and ours.value is not None else ours
            found.append(cells[key].value)
        known = [value for value in found if value is not None]
        if way:
            cells |= _uncalibrated(room, file, name, way.request)
        whole = len(known) == len(QUALITIES)
        mean = Ours(float(np.mean(known))) if whole else Ours(why_not=why or "a quality is missing")
        cells[Key("PersonaChat", "system", MEAN, name, "spearman")] = mean
    return cells


def _uncalibrated(room: Room, file: Path, name: str, request: str) -> dict[Key, Ours]:
    """The mean score of each conversation against the rating that it was given."""
    result = metaevaluate(
        file, [request], level="dialogue", corpus="see",
        seed=room.seed, models=room.models, device=room.device, cache=room.cache,
    )  # fmt: skip
    rows = {row.quality: row for row in result.rows}
    return {
        Key("PersonaChat", "dialogue", printed, name, "spearman"): Ours(
            row.spearman, row.spearman_low, row.spearman_high, row.n, request
        )
        for printed, quality in QUALITIES.items()
        if (row := rows.get(quality)) is not None and row.spearman is not None
    }


def _calibrated(judged: Sequence[Judged], request: str, quality: str, room: Room) -> Ours:
    """Spearman between the mean scores of systems and their calibrated ratings."""
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
        scale=(min(values), max(values)) if min(values) < max(values) else None, seed=room.seed,
    )  # fmt: skip
    systems = [system for system in scores if system in people.systems]
    found = spearman([np.mean(scores[name]) for name in systems], [people.systems[name].mean for name in systems])
    return Ours(found.value, n=found.n, how=request) if found.value is not None else Ours(why_not="too few systems")


def protocol_cells(room: Room) -> dict[Key, Ours]:
    """Both protocols on rated data at hand: single responses as rated, and systems with calibrated ratings."""

    def of(corpus: str) -> dict[Key, Ours]:
        cells: dict[Key, Ours] = {}
        file = RATED[corpus]
        for name, ways in {**ON_ALL, **OURS}.items():
            way, why = chosen(room, ways)
            key = Key(corpus, "turn", "Overall", name, "uncalibrated")
            if way is None:
                cells[key] = cells[key._replace(level="system", statistic="calibrated")] = Ours(why_not=why)
                continue
            row = room.meta(file, [way.request], level="turn")[way.request, "turn", "Overall"]
            cells[key] = Ours(row.spearman, row.spearman_low, row.spearman_high, row.n, way.request)
            judged = room.scored(file, [way.request]).judged
            calibrated = _calibrated(judged, way.request, "Overall", room)
            cells[key._replace(level="system", statistic="calibrated")] = calibrated
        return cells

    return by_corpus(RATED, of)


def protocol_bars(room: Room) -> list[dict[str, Any]]:
    """Fig. 2 on rated data at hand."""
    cells: Mapping[Key, Ours] = protocol_cells(room)
    rows = [
        {"panel": key.corpus, "x": key.metric, "y": ours.value, "group": key.statistic}
        for key, ours in cells.items()
        if ours.value is not None
    ]
    if not rows:
        raise TurnwiseError(next(iter(cells.values())).why_not)
    return rows
