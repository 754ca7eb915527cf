"""Holistic: two header-less CSV files, each row a number, the texts and ten ratings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from turnwise.io.columns import rating_cell
from turnwise.io.corpora.base import Corpus, Numbering, Row, per_item
from turnwise.io.problem import Records, Unreadable

SYSTEM = "transformer_OpenNMT_dailydialog"
RATERS = 10
CITE = "Pang et al. 2020, Towards Holistic and Automatic Evaluation of Open-Domain Dialogue Generation"


def read_coherence(records: Records, stem: str) -> Records:
    """Rows of number, context, response, ratings."""
    del stem
    context_id = Numbering("c")

    def rows_of(cells: Any, index: int) -> Iterator[Row]:
        (context, response), ratings = _split(cells, texts=2)
        yield {
            "id": f"holistic_ctx_{index}",
            "context": [context],
            "context_id": context_id(context),
            "response": response,
            "system": SYSTEM,
            "ratings": {"context_coherence": ratings},
        }

    return per_item(records, rows_of)


def read_fluency(records: Records, stem: str) -> Records:
    """Rows of number, response, ratings."""
    del stem

    def rows_of(cells: Any, index: int) -> Iterator[Row]:
        (response,), ratings = _split(cells, texts=1)
        yield {
            "id": f"holistic_flu_{index}",
            "response": response,
            "system": SYSTEM,
            "ratings": {"fluency": ratings},
        }

    return per_item(records, rows_of)


def _split(cells: Any, texts: int) -> tuple[list[str], list[Any]]:
    if not isinstance(cells, list) or len(cells) <= 1 + texts:
        found = f"{len(cells) if isinstance(cells, list) else 0} cells, not a number, {texts} text(s) and ratings"
        raise Unreadable.of("item.shape", "cells", reason=found)
    return [cell.strip() for cell in cells[1 : 1 + texts]], [rating_cell(cell) for cell in cells[1 + texts :]]


def _is_release(cells: Any, texts: int) -> bool:
    """Whether a first record has a number, then texts, then exactly ten ratings from 1 to 5."""
    if not isinstance(cells, list) or len(cells) != 1 + texts + RATERS:
        return False
    return cells[0].isdigit() and all(cell.strip() in set("12345") for cell in cells[1 + texts :])


COHERENCE = Corpus(
    name="holistic-coherence",
    what="200 DailyDialog replies, context coherence, ten raters",
    files="context_data_release.csv",
    cite=CITE,
    read=read_coherence,
    recognises=lambda cells: _is_release(cells, texts=2),
    layout="csv",
)
FLUENCY = Corpus(
    name="holistic-fluency",
    what="200 DailyDialog replies, fluency, ten raters",
    files="fluency_data_release.csv",
    cite=CITE,
    read=read_fluency,
    recognises=lambda cells: _is_release(cells, texts=1),
    layout="csv",
)
