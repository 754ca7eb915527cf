"""Whether a rated corpus is whole: every row can be read and has the ratings that the tables are made of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from turnwise.dialogue import Row
from turnwise.io.read import read_rows

_USR = ("Understandable", "Natural", "Maintains Context", "Engaging", "Uses Knowledge", "Overall")
_ZHAO = ("content", "grammar", "relevance", "appropriateness")
# By file; those that nobody rated are not here.
RATED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("usr_topicalchat", "usr_personachat", "fbd_personam"), _USR),
    **dict.fromkeys(("zhao_dailydialog", "fbd_dailyz"), _ZHAO),
    **dict.fromkeys(("zhao_personachat", "fbd_personaz"), ("appropriateness",)),
    **dict.fromkeys((f"grade_{name}" for name in ("convai2", "dailydialog", "empatheticdialogues")), ("coherence",)),
    **dict.fromkeys((f"fbd_{name}" for name in ("dailyh", "convai2", "empathetic")), ("coherence",)),
    **dict.fromkeys((f"holistic_logic_{name}" for name in ("ws", "ctg", "baseline")), ("logical_consistency",)),
    "holistic_coherence": ("context_coherence",),
    "holistic_fluency": ("fluency",),
}


def fault(file: Path) -> str:
    """What is wrong with the first row of a corpus that cannot be used; empty if all are whole."""
    rows = list(read_rows([file]))
    name = f"{file.parent.name}/{file.name}"
    if not rows:
        return f"{name}: no rows in it"
    wrong = ((row.line, why) for row in rows if (why := _wrong(row, RATED.get(file.stem, ()))))
    return next((f"{name}:{line}: {why}" for line, why in wrong), "")


def _wrong(row: Row, rated: tuple[str, ...]) -> str:
    if row.example is None:
        return str(row.error or "it cannot be read")
    absent = [quality for quality in rated if not row.example.ratings.get(quality)]
    return f"no rating of {' and of '.join(map(repr, absent))}" if absent else ""
