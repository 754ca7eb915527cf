"""The leaderboard: every metric on every rated corpus, and the best that anybody published beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from turnwise.analyses.metaevaluate import MetaRow
from turnwise.errors import TurnwiseError
from turnwise.metrics.registry import entries, load_metric
from turnwise.reproduce.cells import Cells, Ours, declared
from turnwise.reproduce.pages import ABOVE
from turnwise.reproduce.published import COLLECTION, Key, Printed, everything
from turnwise.reproduce.workspace import Workspace

NAME = "leaderboard"
# The metric by which the whole is judged, named beforehand.
NAMED = "usl-h"
BEST_OURS = "best of ours"
GROUPS = (NAMED, BEST_OURS, "best published")
LENGTH = "length"
MARKED = f"{ABOVE} the whole interval lies above the best published number"


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
    **{
        f"Holistic consistency {name}": Board(
            f"holistic_logic_{name.lower()}", "logical_consistency", (), "", (("holistic", f"DailyDialog ({name})"),)
        )
        for name in ("WS", "CTG", "baseline")
    },
    "Zhao DailyDialog": Board("zhao_dailydialog", "appropriateness", ("ground-truth",)),
    "Zhao PersonaChat": Board("zhao_personachat", "appropriateness", ("ground-truth",)),
}
# The six that the collection covers: there the named metric has to stand.
COVERED = tuple(name for name, board in BOARDS.items() if board.collection)
PEOPLE = ("Inter-Rater", "Human")


def metrics() -> list[str]:
    """Return every metric of turns, in its recommended form."""
    known = {name: load_metric(name) for name in entries()}
    # Length points nowhere; it is there because a metric that it outdoes is no metric.
    turned = [name for name, one in known.items() if one.per_turn and one.higher_is_better is not None]
    return [LENGTH, *turned]


def found(space: Workspace, corpus: str) -> dict[tuple[str, str], MetaRow]:
    """Return correlations by metric and quality."""
    board = BOARDS[corpus]
    able = [name for name in metrics() if not space.lacking(name)]
    rows = space.meta(space.corpus(board.file), able, board.exclude, "turn")
    return {(metric, quality): row for (metric, _, quality), row in rows.items()}


def why_absent(space: Workspace, corpus: str, metric: str) -> str:
    """Return why a metric has no score of any row of a corpus."""
    if why := space.lacking(metric):
        return why
    needs = {load_metric(metric).unmet_need(example) for example in space.examples(BOARDS[corpus].file)}
    unmet = sorted(str(need) for need in needs if need)
    return f"the rows of {BOARDS[corpus].file} have {unmet[0]}" if unmet else "it has no score for any of these rows"


def best_published(corpus: str, quality: str) -> Printed | None:
    """Return the highest published Spearman: the collection has the main quality, the papers have each."""
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
    """Return whether all of our interval lies above the published number."""
    return row is not None and best is not None and row.spearman_low is not None and row.spearman_low > best.value


def board_cells(space: Workspace, corpus: str) -> Cells:
    """Return one corpus: every metric by every quality, beside the best published number of that quality."""
    rows = found(space, corpus)
    best = {quality: best_published(corpus, quality) for quality in dict.fromkeys(quality for _, quality in rows)}
    absent = {name: why_absent(space, corpus, name) for name in metrics() if name not in {metric for metric, _ in rows}}
    return {
        Key(corpus, "turn", quality, metric, "spearman"): _ours(rows[metric, quality], printed)
        if (metric, quality) in rows
        else Ours(why_not=absent.get(metric, "no row has both this rating and a score"), beside=_text(printed))
        for metric in metrics()
        for quality, printed in best.items()
    }


def _text(best: Printed | None) -> str:
    return best.text if best else ""


def _ours(row: MetaRow, best: Printed | None, *notes: str) -> Ours:
    beside = _text(best)
    if row.spearman is None:
        return Ours(n=row.n, how=row.metric, why_not="scores do not vary", beside=beside)
    said = [*notes, *([MARKED] if better(row, best) else [])]
    ends = (row.spearman_low, row.spearman_high)
    return Ours(row.spearman, *ends, row.n, row.metric, notes=tuple(said), beside=beside)


def summary_cells(space: Workspace) -> Cells:
    """Return the named metric and our best one on each corpus, and on how many the former reaches the best."""
    cells: Cells = {}
    reached: list[bool] = []
    for corpus, board in BOARDS.items():
        key = Key(corpus, "turn", board.main, NAMED, "spearman")
        best = best_published(corpus, board.main)
        try:
            rows = {metric: row for (metric, quality), row in found(space, corpus).items() if quality == board.main}
        except TurnwiseError as problem:
            cells[key] = cells[key._replace(metric=BEST_OURS)] = Ours(why_not=str(problem), beside=_text(best))
            continue
        by_whom = f"published by {best.key.metric} ({_source(best)})" if best else "nobody printed one that we know of"
        named, top = rows.get(NAMED), _best(rows)
        absent = Ours(why_not=why_absent(space, corpus, NAMED), notes=(by_whom,), beside=_text(best))
        cells[key] = _ours(named, best, by_whom) if named else absent
        cells[key._replace(metric=BEST_OURS)] = (
            _ours(top, best, f"ours by {top.metric}")
            if top
            else Ours(why_not="no metric has a score", beside=_text(best))
        )
        if corpus in COVERED and best and named and named.spearman is not None:
            reached.append(named.spearman >= best.value)
    key = Key(
        f"of {len(reached)} corpora that DialEvalMetrics covers: at or above the best published",
        "turn",
        "",
        NAMED,
        "count",
    )
    return cells | {key: Ours(float(sum(reached)), n=len(reached))}


def _best(rows: Mapping[str, MetaRow]) -> MetaRow | None:
    """Return the best metric, apart from those that would have to be read the wrong way round."""
    known = [row for metric, row in rows.items() if load_metric(metric).higher_is_better and row.spearman is not None]
    return max(known, key=lambda row: row.spearman or 0.0, default=None)


def summary_bars(space: Workspace) -> list[dict[str, Any]]:
    """Return the summary as a picture."""
    rows: list[dict[str, Any]] = []
    for key, ours in summary_cells(space).items():
        if key.statistic != "spearman":
            continue
        values = {key.metric: ours.value} | ({GROUPS[-1]: float(ours.beside)} if ours.beside else {})
        drawn = [{"x": key.corpus, "y": value, "group": name} for name, value in values.items() if value is not None]
        rows += [row for row in drawn if row not in rows]
    if not rows:
        raise TurnwiseError("none of the rated corpora is among the data; see 'turnwise data list'")
    return sorted(rows, key=lambda row: (list(BOARDS).index(row["x"]), GROUPS.index(row["group"])))


def _source(best: Printed) -> str:
    return "DialEvalMetrics" if best.paper == COLLECTION else f"{best.paper}, Table {best.table}"


PAPER = declared(
    NAME,
    {
        "summary": summary_cells,
        "chart": summary_bars,
        **{corpus: partial(board_cells, corpus=corpus) for corpus in BOARDS},
    },
    named=NAMED,
)
