"""The leaderboard: every metric on every rated corpus, and the best that anybody published beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from turnwise.errors import TurnwiseError
from turnwise.metrics.registry import entries, load_metric
from turnwise.reproduce.cells import Ours, Paper, TableSpec
from turnwise.reproduce.published import COLLECTION, Key, Printed, everything
from turnwise.reproduce.room import Room
from turnwise.verbs.metaevaluate import MetaRow

NAME = "leaderboard"
# The metric by which the whole is judged, named beforehand.
NAMED = "usl-h"
BEST_OURS = "best of ours"
LENGTH = "length"
ABOVE = "▲ the whole interval lies above the best published number"


@dataclass(frozen=True, slots=True)
class Board:
    """A rated corpus: what is left out, and what others call it (the collection, and the papers by corpus)."""

    file: str
    main: str
    exclude: tuple[str, ...] = ()
    collection: str = ""
    papers: tuple[tuple[str, str], ...] = ()


BOARDS: Mapping[str, Board] = {
    "USR Topical-Chat": Board(
        "usr_topicalchat", "Overall", ("Original Ground Truth",), "USR-TopicalChat", (("usr", "Topical-Chat"),)
    ),
    "USR PersonaChat": Board(
        "usr_personachat", "Overall", ("Original Ground Truth",), "USR-Pearsonachat", (("usr", "PersonaChat"),)
    ),
    "GRADE ConvAI2": Board("grade_convai2", "coherence", (), "GRADE-ConvAI2"),
    "GRADE DailyDialog": Board("grade_dailydialog", "coherence", (), "GRADE-DailyDialog"),
    "GRADE EmpatheticDialogues": Board("grade_empatheticdialogues", "coherence", (), "GRADE-EmpatheticDialogue"),
    "Holistic coherence": Board(
        "holistic_coherence", "context_coherence", (), "HolisticEval-DailyDialog", (("holistic", "DailyDialog"),)
    ),
    "Holistic fluency": Board("holistic_fluency", "fluency", (), "", (("holistic", "DailyDialog"),)),
    "Holistic consistency": Board(
        "holistic_logic_ws", "logical_consistency", (), "", (("holistic", "DailyDialog (WS)"),)
    ),
    "Zhao DailyDialog": Board("zhao_dailydialog", "appropriateness", ("ground-truth",)),
    "Zhao PersonaChat": Board("zhao_personachat", "appropriateness", ("ground-truth",)),
}
# The six that the collection covers: there the named metric has to stand.
COVERED = tuple(name for name, board in BOARDS.items() if board.collection)
PEOPLE = ("Inter-Rater", "Human")


def metrics(room: Room) -> list[str]:
    """Every metric of turns that the models in use can compute, in its recommended form."""
    known = {name: load_metric(name) for name in entries()}
    # Length points nowhere; it is there because a metric that it outdoes is no metric.
    turned = [name for name, one in known.items() if one.level == "turn" and one.higher_is_better is not None]
    turned = [LENGTH, *turned]
    return [name for name in turned if not room.lacking(name)]


def found(room: Room, corpus: str) -> dict[tuple[str, str], MetaRow]:
    """Correlations by metric and quality."""
    board = BOARDS[corpus]
    rows = room.meta(room.corpus(board.file), metrics(room), board.exclude, "turn")
    return {(metric, quality): row for (metric, _, quality), row in rows.items()}


def best_published(corpus: str, quality: str) -> Printed | None:
    """The highest Spearman that anybody printed: the collection's is of the main quality, the papers' of each."""
    board = BOARDS[corpus]
    known = [
        one
        for one in everything()
        if one.key.statistic == "spearman"
        and one.key.level == "turn"
        and not one.key.metric.startswith(PEOPLE)
        and (
            ((one.paper, one.key.corpus) in board.papers and one.key.quality == quality)
            or (one.paper == COLLECTION and one.key.corpus == board.collection and quality == board.main)
        )
    ]
    return max(known, key=lambda one: one.value, default=None)


def better(row: MetaRow | None, best: Printed | None) -> bool:
    """Whether all of our interval lies above the published number."""
    return row is not None and best is not None and row.spearman_low is not None and row.spearman_low > best.value


def board_cells(room: Room, corpus: str) -> dict[Key, Ours]:
    """One corpus: every metric by every quality, beside the best published number of that quality."""
    return {
        Key(corpus, "turn", quality, metric, "spearman"): _ours(row, best_published(corpus, quality))
        for (metric, quality), row in found(room, corpus).items()
    }


def _ours(row: MetaRow, best: Printed | None, *notes: str) -> Ours:
    beside = best.text if best else ""
    if row.spearman is None:
        return Ours(n=row.n, how=row.metric, why_not="scores do not vary", beside=beside)
    said = [*notes, *([ABOVE] if better(row, best) else [])]
    ends = (row.spearman_low, row.spearman_high)
    return Ours(row.spearman, *ends, row.n, row.metric, notes=tuple(said), beside=beside)


def summary_cells(room: Room) -> dict[Key, Ours]:
    """The named metric and the best of ours on each corpus's main quality, and on how many it reaches the best."""
    cells: dict[Key, Ours] = {}
    reached: list[bool] = []
    for corpus, board in BOARDS.items():
        key = Key(corpus, "turn", board.main, NAMED, "spearman")
        best = best_published(corpus, board.main)
        try:
            rows = {metric: row for (metric, quality), row in found(room, corpus).items() if quality == board.main}
        except TurnwiseError as problem:
            cells[key] = cells[key._replace(metric=BEST_OURS)] = Ours(why_not=str(problem))
            continue
        by_whom = f"published by {best.key.metric} ({_source(best)})" if best else "nobody printed one that we know of"
        named, top = rows.get(NAMED), _best(rows)
        cells[key] = _ours(named, best, by_whom) if named else Ours(why_not=room.lacking(NAMED) or "it has no score")
        if top is not None:
            cells[key._replace(metric=BEST_OURS)] = _ours(top, best, f"ours by {top.metric}")
        if corpus in COVERED and best and named and named.spearman is not None:
            reached.append(named.spearman >= best.value)
    key = Key(f"of {len(reached)} corpora: at or above the best published", "turn", "", NAMED, "count")
    return cells | {key: Ours(float(sum(reached)), n=len(reached))}


def _best(rows: Mapping[str, MetaRow]) -> MetaRow | None:
    known = [row for metric, row in rows.items() if metric != LENGTH and row.spearman is not None]
    return max(known, key=lambda row: row.spearman or 0.0, default=None)


def _source(best: Printed) -> str:
    return "DialEvalMetrics" if best.paper == COLLECTION else f"{best.paper}, Table {best.table}"


_SPECS: list[Any] = [
    TableSpec(
        NAME, "summary", f"{NAMED} as shipped, and the best of ours apart", summary_cells,
        down=("corpus", "quality"), across=("metric",),
        notes=(f"{NAMED} was named beforehand; the best of ours is chosen after the fact, corpus by corpus, as the "
               "best published is.",),
    ),
    *(
        TableSpec(NAME, corpus, f"every metric, {board.file}", partial(board_cells, corpus=corpus), across=("quality",))
        for corpus, board in BOARDS.items()
    ),
]  # fmt: skip
PAPER = Paper(
    NAME,
    "Leaderboard",
    tuple(_SPECS),
    notes=(
        "Spearman's rank correlation of single turns with people, references left out. “Best published” is the highest "
        "of the papers' own tables, sub-metrics included, and of the DialEvalMetrics collection's rerun.",
    ),
)
