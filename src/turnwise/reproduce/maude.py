"""MAUDE (Sinha et al. 2020): Tables 1-6, Fig. 2's two protocols, Appendix A, and scores along a dialogue."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from turnwise.engine.local import Judged
from turnwise.errors import TurnwiseError
from turnwise.reproduce.cells import FigureSpec, Ours, Paper, TableSpec
from turnwise.reproduce.maude_probe import accuracy_cells, along, scatter
from turnwise.reproduce.maude_variants import RANDOM, TRUE, Spread, spread, variants
from turnwise.reproduce.published import Key
from turnwise.reproduce.room import Room
from turnwise.reproduce.stand import Stand, Stands, chosen
from turnwise.stats.calibrate import calibrate
from turnwise.stats.correlation import spearman
from turnwise.verbs.evaluate import evaluate
from turnwise.verbs.metaevaluate import metaevaluate

PERSONACHAT = "personachat_valid"
ZERO_SHOT = {"DailyDialog": "dailydialog_test", "Frames": "frames_train", "MultiWOZ": "multiwoz_test"}
STATISTICS = ("mean", "std", "delta")
ON_ALL: Stands = {
    "RUBER": (Stand("ruber[blend=unreferenced]"),),
    "InferSent": (Stand("infersent"),),
    "DistilBERT-NLI": (Stand("bert-nli"),),
    "MAUDE": (Stand("maude"),),
}
OURS: Stands = {"nup (ours)": (Stand("nup"),)}
ONE_SET = "the models in use hold this baseline with all negatives only"
# What the heads that learnt from one set of negatives are called in a pack that has them.
ON_SEMANTICS: Stands = {"MAUDE": (Stand("maude[role=maude-semantics]"),)}
ON_SYNTAX: Stands = {"MAUDE": (Stand("maude[role=maude-syntax]"),)}
# As Table 2 calls a quality, and as the logs do.
QUALITIES = {
    "Fluency": "fluency", "Engagingness": "enjoy", "Humanness": "humanness", "Making Sense": "make_sense",
    "Inquisitiveness": "inquisitive", "Interestingness": "interest", "Avoiding Repetition": "avoid_rep",
    "Listening": "listen",
}  # fmt: skip
MEAN = "Mean"
RATED = {"Topical-Chat (USR)": "usr_topicalchat", "PersonaChat (USR)": "usr_personachat"}
STANDING_IN = (
    "Where the paper translates to German and back, ours exchanges words for WordNet synonyms; where it has a "
    "sequence-to-sequence model, ours has the causal language model in use, which answers some contexts greedily. Each "
    "kind is held against the true responses to the same contexts."
)


def spread_of(
    room: Room, corpus: str, stands: Stands, *, written: bool = False
) -> dict[str, tuple[Spread | None, str]]:
    """By published name: what its metric says of each kind of response, or why it says nothing."""
    ways = {name: chosen(room, ways) for name, ways in stands.items()}
    requests = tuple(dict.fromkeys(way.request for way, _ in ways.values() if way))
    if not requests:
        return {name: (None, why) for name, (_, why) in ways.items()}
    pairs = room.once(f"variants of {corpus}", lambda: variants(room, corpus, written=written))
    found = room.once(f"{corpus}: {requests}", lambda: spread(room, pairs, requests))
    return {name: (found[way.request] if way else None, why) for name, (way, why) in ways.items()}


def delta_cells(room: Room, stands: Stands, statistics: Sequence[str] = STATISTICS) -> dict[Key, Ours]:
    """Tables 1 and 4-6: every kind of response to PersonaChat's contexts."""
    cells = {}
    for name, (kinds, why) in spread_of(room, PERSONACHAT, stands, written=True).items():
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


def zero_shot_cells(room: Room) -> dict[Key, Ours]:
    """Table 3: true responses against random ones, on corpora that the head never saw."""
    cells: dict[Key, Ours] = {}
    for corpus, file in ZERO_SHOT.items():
        for name, (kinds, why) in spread_of(room, file, {**ON_ALL, **OURS}).items():
            for quality, kind, statistics in (
                ("Semantic Positive", TRUE, STATISTICS[:2]),
                ("Semantic Negative", RANDOM, STATISTICS),
            ):
                for statistic in statistics:
                    key = Key(corpus, "other", quality, name, statistic)
                    cells[key] = kinds[kind][statistic] if kinds else Ours(why_not=why)
    return cells


# --- agreement with people, by both protocols ----------------------------------------------------------------


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
            cells[key] = _calibrated(judged, way.request, quality, room) if way else Ours(why_not=why)
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
    cells: dict[Key, Ours] = {}
    for corpus, file in RATED.items():
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


_DELTA: dict[str, Any] = {"down": ("quality",), "across": ("metric", "statistic"), "notes": (STANDING_IN,)}
PAPER = Paper(
    "maude",
    "Learning an Unreferenced Metric for Online Dialogue Evaluation",
    (
        TableSpec("maude", "1", "how far responses score below the true ones, trained on all negatives",
                  partial(delta_cells, stands={**ON_ALL, **OURS}, statistics=("delta",)), **_DELTA),
        TableSpec("maude", "2", "system means against calibrated ratings", human_cells, down=("quality",),
                  across=("metric", "level"),
                  notes=("Beside the paper's protocol, single conversations against the rating that each was given.",)),
        TableSpec("maude", "3", "corpora never seen", zero_shot_cells, down=("corpus", "quality"),
                  across=("metric", "statistic")),
        TableSpec("maude", "4", "trained on semantic negatives only", partial(delta_cells, stands=ON_SEMANTICS),
                  otherwise=ONE_SET, **_DELTA),
        TableSpec("maude", "5", "trained on syntactic negatives only", partial(delta_cells, stands=ON_SYNTAX),
                  otherwise=ONE_SET, **_DELTA),
        TableSpec("maude", "6", "trained on all negatives", partial(delta_cells, stands={**ON_ALL, **OURS}), **_DELTA),
        TableSpec("maude", "protocols", "both protocols on rated data at hand: Spearman", protocol_cells,
                  down=("corpus", "metric"), across=("statistic",)),
        FigureSpec("maude", "Fig. 2", "both protocols on rated data at hand", "bars", "metric", "Spearman",
                   protocol_bars),
        TableSpec("maude", "Appendix A", "in which fifth of a dialogue are two utterances?", accuracy_cells,
                  across=("corpus",),
                  notes=("The paper shows a picture only. Half of the dialogues teach, half test.",)),
        FigureSpec("maude", "Fig. 3", "pairs of utterances along two discriminants", "points", "first", "second",
                   scatter, notes=("Directions learnt from one half of the dialogues; points of the other half.",)),
        FigureSpec("maude", "Figs. 4-6", "scores along a dialogue", "lines", "turn", "score", along),
    ),
)  # fmt: skip
