"""See et al. 2019: logs of people chatting with 28 model configurations and with each other, one dialogue a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from turnwise.io.corpora.base import Corpus, Row, lines, listed, mapped, number_or_missing, per_item, text
from turnwise.io.problem import Records

MODEL = "model"
# The log's short names, but for the one that the paper calls humanness.
QUALITIES = {
    **{name: name for name in ("enjoy", "interest", "listen", "avoid_rep", "make_sense", "fluency", "inquisitive")},
    "turing": "humanness",
    "persona_guess": "persona_guess",
}


def read(records: Records, stem: str) -> Records:
    """A chat per dialogue, rated by the one person who had it; the facts are the model's persona."""

    def rows_of(item: Any, index: int) -> Iterator[Row]:
        given = mapped(item, "evaluation_results")
        rater = item.get("evaluator_id_hashed")
        yield {
            "id": item.get("assignment_id_hashed") or f"{stem}_{index:04}",
            "system": text(item, "model_name"),
            "facts": lines(text(item, "model_persona")) if item.get("model_persona") else [],
            "messages": [_message(turn) for turn in listed(item, "dialog")],
            "ratings": {quality: [number_or_missing(given[key])] for key, quality in QUALITIES.items() if key in given},
            "raters": [rater] if rater else [],
        }

    return per_item(records, rows_of)


def _message(turn: Any) -> dict[str, str]:
    return {
        "role": "assistant" if text(turn, "speaker") == MODEL else "user",
        "content": text(turn, "text"),
    }


CORPUS = Corpus(
    name="see",
    what="3316 PersonaChat dialogues with controllable models, rated by their human partner",
    files="evaluation_logs/*.jsonl",
    cite="See et al. 2019, What makes a good conversation? How controllable attributes affect human judgments",
    read=read,
    recognises=lambda item: isinstance(item, dict) and {"dialog", "model_name", "evaluation_results"} <= item.keys(),
)
