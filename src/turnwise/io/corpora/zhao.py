"""Zhao et al.'s ratings as DSTC10 distributes them: one rated response per item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from turnwise.io.corpora.base import Corpus, Numbering, Row, lines, mapped, per_item, text
from turnwise.io.problem import Records

REFERENCE = "ground-truth"
NO_REFERENCE = "NO REF"


def read(records: Records, stem: str) -> Records:
    """One row per item; what the release calls a dialogue's id is the item's."""
    context_id = Numbering("c")

    def rows_of(item: Any, index: int) -> Iterator[Row]:
        context = lines(text(item, "context"))
        yield {
            "id": item.get("dialogue_id") or f"{stem}_{index:05}",
            "context": context,
            "context_id": context_id(tuple(context)),
            "response": text(item, "response"),
            "references": _references(item.get("reference")),
            "system": text(item, "model"),
            "ratings": mapped(item, "annotations"),
        }

    return per_item(records, rows_of)


def _references(given: Any) -> Any:
    found = [given] if isinstance(given, str) else given
    if not isinstance(found, list):
        return found
    stripped = [reference.strip() if isinstance(reference, str) else reference for reference in found]
    return [reference for reference in stripped if reference not in ("", NO_REFERENCE)]


def _recognises(item: Any) -> bool:
    named = isinstance(item, dict) and {"dialogue_id", "model", "response"} <= item.keys()
    return named and isinstance(item.get("context"), str) and isinstance(item.get("annotations"), dict)


CORPUS = Corpus(
    name="zhao",
    what="DailyDialog and PersonaChat responses, four raters, in DSTC10's JSON",
    files="dailydialog-zhao_eval.json, persona-zhao_eval.json",
    cite="Zhao et al. 2020, Designing Precise and Robust Dialogue Response Evaluators",
    read=read,
    recognises=_recognises,
    excluded_systems=(REFERENCE,),
)
