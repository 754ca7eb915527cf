"""DSTC9 interactive evaluation: one file per chatbot, one item per dialogue and rater."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from turnwise.io.corpora.base import OF_OTHER_SHAPE, Corpus, Row, as_problem, messages, number_or_missing, text
from turnwise.io.problem import Record, Records, Unreadable
from turnwise.problems import Problem

OVERALL = "human (overall)"


def read(records: Records, stem: str) -> Records:
    """A chat per dialogue; the items of its raters follow one another and become lists of ratings."""
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
    """What consecutive items of one dialogue share. An unreadable item stands for itself."""
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


CORPUS = Corpus(
    name="dstc9",
    what="whole dialogues of one chatbot a file, eleven qualities",
    files="chatbot1.json, chatbot2.json, ...",
    cite="Gunasekara et al. 2020, Overview of the Ninth Dialog System Technology Challenge: DSTC9",
    read=read,
    recognises=lambda item: isinstance(item, dict) and {"context", OVERALL} <= item.keys(),
)
