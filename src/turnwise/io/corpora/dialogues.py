"""Releases of rated dialogues: FED, DSTC9's interactive evaluation, and See et al."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from turnwise.io.base import Record, Records, Unreadable
from turnwise.io.corpora.items import (
    OF_OTHER_SHAPE,
    Numbering,
    Row,
    as_problem,
    has,
    lines,
    listed,
    mapped,
    messages,
    number_or_missing,
    per_item,
    release,
    text,
)
from turnwise.problems import Problem

# --- FED: rated system turns, and rated dialogues, in one list.


def fed(records: Records, stem: str) -> Records:
    """Yield a row per rated turn; a rated dialogue goes on as a chat, which makes a row of each of its system turns."""
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


def _is_fed(item: Any) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("annotations"), dict) or "system" not in item:
        return False
    context = item.get("context")
    return isinstance(context, str) and context.lstrip().startswith(("User:", "System:"))


# --- DSTC9 interactive evaluation: one file per chatbot, one item per dialogue and rater.

OVERALL = "human (overall)"


def dstc9(records: Records, stem: str) -> Records:
    """Yield a chat per dialogue; the items of its raters follow one another and become lists of ratings."""
    for index, (_, group) in enumerate(groupby(records, key=_dialogue)):
        items = list(group)
        line, first = items[0]
        if isinstance(first, Problem):
            yield from items
            continue
        try:
            yield line, _chat([item for _, item in items], f"{stem}_{index:03}", stem)
        except (Unreadable, *OF_OTHER_SHAPE) as problem:
            yield line, as_problem(problem)


def _dialogue(record: Record) -> object:
    """Return what consecutive items of one dialogue share. An unreadable item stands for itself."""
    _, item = record
    return item if isinstance(item, Problem) else (item.get("context") if isinstance(item, dict) else id(item))


def _chat(items: list[Any], dialogue_id: str, system: str) -> Row:
    turns = messages(text(items[0], "context"))
    qualities = dict.fromkeys(key for item in items for key, value in item.items() if not isinstance(value, str))
    ratings = {
        "Overall" if quality == OVERALL else quality: [number_or_missing(item.get(quality)) for item in items]
        for quality in qualities
    }
    return {"id": dialogue_id, "system": system, "messages": turns, "ratings": ratings}


# --- See et al. 2019: logs of people chatting with 28 model configurations and with each other, one dialogue a line.

MODEL = "model"
# The log's short names, but for the one that the paper calls humanness.
SEE_QUALITIES = {
    **{name: name for name in ("enjoy", "interest", "listen", "avoid_rep", "make_sense", "fluency", "inquisitive")},
    "turing": "humanness",
    "persona_guess": "persona_guess",
}


def see(records: Records, stem: str) -> Records:
    """Yield a chat per dialogue, rated by the one person who had it; the facts are the model's persona."""

    def rows_of(item: Any, index: int) -> Iterator[Row]:
        given = mapped(item, "evaluation_results")
        rater = item.get("evaluator_id_hashed")
        yield {
            "id": item.get("assignment_id_hashed") or f"{stem}_{index:04}",
            "system": text(item, "model_name"),
            "facts": lines(text(item, "model_persona")) if item.get("model_persona") else [],
            "messages": [_see_message(turn) for turn in listed(item, "dialog")],
            "ratings": {
                quality: [number_or_missing(given[key])] for key, quality in SEE_QUALITIES.items() if key in given
            },
            "raters": [rater] if rater else [],
        }

    return per_item(records, rows_of)


def _see_message(turn: Any) -> dict[str, str]:
    return {
        "role": "assistant" if text(turn, "speaker") == MODEL else "user",
        "content": text(turn, "text"),
    }


READERS = (
    release(
        "fed",
        fed,
        _is_fed,
        what="turns and dialogues of Meena, Mitsuku and people, up to eleven qualities, five raters",
        files="fed_data.json",
        cite="Mehri & Eskenazi 2020, Unsupervised Evaluation of Interactive Dialog with DialoGPT",
    ),
    release(
        "dstc9",
        dstc9,
        has("context", OVERALL),
        what="whole dialogues of one chatbot a file, eleven qualities",
        files="chatbot1.json, chatbot2.json, ...",
        cite="Gunasekara et al. 2020, Overview of the Ninth Dialog System Technology Challenge: DSTC9",
    ),
    release(
        "see",
        see,
        has("dialog", "model_name", "evaluation_results"),
        what="3316 PersonaChat dialogues with controllable models, rated by their human partner",
        files="evaluation_logs/*.jsonl",
        cite="See et al. 2019, What makes a good conversation? How controllable attributes affect human judgments",
    ),
)
