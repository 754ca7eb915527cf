"""GRADE: coherence judgements, with the ratings as a list inside a string."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from turnwise.io.corpora.base import Corpus, Numbering, Row, per_item, text
from turnwise.io.problem import Records, Unreadable

BETWEEN_TURNS = "|||"
SUFFIX = "_EVAL"


def read(records: Records, stem: str) -> Records:
    """One row per judged response; the release holds no references."""
    del stem
    context_ids: defaultdict[str, Numbering] = defaultdict(lambda: Numbering("c"))

    def rows_of(item: Any, index: int) -> Iterator[Row]:
        dataset = text(item, "Dataset").removesuffix(SUFFIX).lower()
        context = text(item, "Context")
        yield {
            "id": f"grade_{dataset}_{item.get('ID', index)}",
            "context": [turn.strip() for turn in context.split(BETWEEN_TURNS) if turn.strip()],
            "response": text(item, "Response"),
            "system": text(item, "DialogModel"),
            "context_id": context_ids[dataset](context),
            "ratings": {"coherence": _scores(item.get("HumanScores"))},
        }

    return per_item(records, rows_of)


def _scores(given: object) -> list[Any]:
    try:
        scores = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        scores = None
    if not isinstance(scores, list):
        raise Unreadable.of("item.shape", "HumanScores", reason='expected a list of numbers, such as "[3, 5, 2]"')
    return scores


CORPUS = Corpus(
    name="grade",
    what="coherence of responses on DailyDialog, ConvAI2 and EmpatheticDialogues, 8 to 11 raters",
    files="human_judgement.json",
    cite="Huang et al. 2020, GRADE: Automatic Graph-Enhanced Coherence Metric",
    read=read,
    recognises=lambda item: isinstance(item, dict) and {"DialogModel", "HumanScores"} <= item.keys(),
)
