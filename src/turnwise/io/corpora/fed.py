"""FED: rated system turns, and rated dialogues, in one list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from turnwise.io.corpora.base import Corpus, Numbering, Row, mapped, messages, number_or_missing, per_item, text
from turnwise.io.problem import Records, Unreadable


def read(records: Records, stem: str) -> Records:
    """A row per rated turn; a rated dialogue goes on as a chat, which makes a row of each of its system turns."""
    del stem
    context_id = Numbering("c")

    def rows_of(item: Any, index: int) -> Iterator[Row]:
        transcript = text(item, "context")
        row: Row = {
            "id": f"fed_{index:03}",
            "system": text(item, "system"),
            "ratings": {
                quality: [number_or_missing(score) for score in scores]
                for quality, scores in mapped(item, "annotations").items()
                if isinstance(scores, list)
            },
        }
        if "response" not in item:
            yield {**row, "messages": messages(transcript)}
            return
        turns = messages(f"{transcript}\n{text(item, 'response')}")
        if not turns:
            raise Unreadable.of("item.shape", "response", reason="blank, as is the context")
        if turns[-1]["role"] != "assistant":
            raise Unreadable.of("item.speaker", "response", reason="spoken by the user")
        yield {
            **row,
            "context": [turn["content"] for turn in turns[:-1]],
            "context_id": context_id(transcript),
            "response": turns[-1]["content"],
            "speakers": [turn["role"] for turn in turns],
        }

    return per_item(records, rows_of)


def _recognises(item: Any) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("annotations"), dict) or "system" not in item:
        return False
    context = item.get("context")
    return isinstance(context, str) and context.lstrip().startswith(("User:", "System:"))


CORPUS = Corpus(
    name="fed",
    what="turns and dialogues of Meena, Mitsuku and people, up to eleven qualities, five raters",
    files="fed_data.json",
    cite="Mehri & Eskenazi 2020, Unsupervised Evaluation of Interactive Dialog with DialoGPT",
    read=read,
    recognises=_recognises,
)
