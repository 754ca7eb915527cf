"""MAUDE (Sinha et al. 2020): Tables 1-6, Fig. 2's two protocols, Appendix A, and scores along a dialogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from turnwise.reproduce.cells import FigureSpec, Ours, Paper, TableSpec, by_corpus
from turnwise.reproduce.maude_people import ON_ALL, OURS, human_cells, protocol_bars, protocol_cells
from turnwise.reproduce.maude_probe import accuracy_cells, along, scatter
from turnwise.reproduce.maude_variants import (
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
from turnwise.reproduce.room import Room
from turnwise.reproduce.stand import Stand, Stands, chosen

PERSONACHAT = "personachat_valid"
ZERO_SHOT = {"DailyDialog": "dailydialog_test", "Frames": "frames_train", "MultiWOZ": "multiwoz_test"}
STATISTICS = ("mean", "std", "delta")
ONE_SET = "the models in use hold this baseline with all negatives only"
# What the heads that learnt from one set of negatives are called in a pack that has them.
ON_SEMANTICS: Stands = {"MAUDE": (Stand("maude[role=maude-semantics]"),)}
ON_SYNTAX: Stands = {"MAUDE": (Stand("maude[role=maude-syntax]"),)}
STANDING_IN = (
    "Where the paper translates to German and back, ours exchanges words for WordNet synonyms; where it has a "
    "sequence-to-sequence model, ours has the causal language model in use, which answers some contexts greedily. Each "
    "kind is held against the true responses to the same contexts."
)
SAMPLED = (
    f"Ours stands on every context of {DIALOGUES} dialogues, drawn by the seed from PersonaChat's validation set; the "
    "paper's on all. Brackets: bootstrap over dialogues."
)
TRAINED_APART = (
    "The bundled models have no network that learnt from one set of negatives: `tools/pack/maude.py` trains such "
    "networks, and docs/results/maude.md shows their tables. Of models that have them, what is said at Table 6 holds."
)
ZERO_SHOT_SAMPLED = (
    f"Ours stands on every context of {ZERO_SHOT_DIALOGUES} dialogues of each corpus, drawn by the seed: DailyDialog's "
    "and MultiWOZ's test sets, and Frames. As in the paper, contexts of Frames and MultiWOZ are read sentence by "
    "sentence. Brackets: bootstrap over dialogues."
)


def spread_of(
    room: Room, corpus: str, stands: Stands, most: int = DIALOGUES, kinds: Sequence[str] = KINDS
) -> dict[str, tuple[Spread | None, str]]:
    """By published name: what its metric says of each kind of response, or why it says nothing."""
    ways = {name: chosen(room, ways) for name, ways in stands.items()}
    requests = tuple(dict.fromkeys(way.request for way, _ in ways.values() if way))
    if not requests:
        return {name: (None, why) for name, (_, why) in ways.items()}
    answers = room.once(f"variants of {corpus}", lambda: variants(room, corpus, most, kinds))
    found = room.once(f"{corpus}: {requests}", lambda: spread(room, answers, requests))
    return {
        name: (_noted(found[way.request], way.said(room)) if way else None, why) for name, (way, why) in ways.items()
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


def delta_cells(room: Room, stands: Stands, statistics: Sequence[str] = STATISTICS) -> dict[Key, Ours]:
    """Tables 1 and 4-6: every kind of response to PersonaChat's contexts."""
    cells = {}
    for name, (kinds, why) in spread_of(room, PERSONACHAT, stands).items():
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

    def of(corpus: str) -> dict[Key, Ours]:
        cells: dict[Key, Ours] = {}
        found = spread_of(room, ZERO_SHOT[corpus], {**ON_ALL, **OURS}, ZERO_SHOT_DIALOGUES, (TRUE, RANDOM))
        for name, (kinds, why) in found.items():
            for quality, kind, statistics in (
                ("Semantic Positive", TRUE, STATISTICS[:2]),
                ("Semantic Negative", RANDOM, STATISTICS),
            ):
                for statistic in statistics:
                    key = Key(corpus, "other", quality, name, statistic)
                    cells[key] = kinds[kind][statistic] if kinds else Ours(why_not=why)
        return cells

    return by_corpus(ZERO_SHOT, of)


_DELTA: dict[str, Any] = {"down": ("quality",), "across": ("metric", "statistic"), "notes": (SAMPLED, STANDING_IN)}
_ONE_SET: dict[str, Any] = {**_DELTA, "notes": (TRAINED_APART,)}
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
                  across=("metric", "statistic"), notes=(ZERO_SHOT_SAMPLED,)),
        TableSpec("maude", "4", "trained on semantic negatives only", partial(delta_cells, stands=ON_SEMANTICS),
                  otherwise=ONE_SET, **_ONE_SET),
        TableSpec("maude", "5", "trained on syntactic negatives only", partial(delta_cells, stands=ON_SYNTAX),
                  otherwise=ONE_SET, **_ONE_SET),
        TableSpec("maude", "6", "trained on all negatives", partial(delta_cells, stands={**ON_ALL, **OURS}), **_DELTA),
        TableSpec("maude", "protocols", "both protocols on rated data at hand: Spearman", protocol_cells,
                  down=("corpus", "metric"), across=("statistic",),
                  notes=("Uncalibrated: over single responses. Calibrated: over systems, six on Topical-Chat and five "
                         "on PersonaChat, people among them as in the paper.",)),
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
