"""USR: one item per context, with all the responses to it and three raters who judged them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from turnwise.io.corpora.base import Corpus, Numbering, Row, lines, listed, per_item, text
from turnwise.io.problem import Records

REFERENCE = "Original Ground Truth"
QUALITIES = ("Understandable", "Natural", "Maintains Context", "Engaging", "Uses Knowledge", "Overall")
PERSONA = "your persona: "
NO_FACT = "_nofact"


def read(records: Records, stem: str) -> Records:
    """Rows with ids such as tc_000_0; raters are numbered, since the release gives people's names."""
    corpus = re.search(r"(?<![a-z])(tc|pc)(?![a-z])", stem)
    prefix = corpus[1] if corpus else stem
    rater = Numbering("r", first=1)

    def rows_of(item: Any, index: int) -> Iterator[Row]:
        raters = [rater(person) for person in listed(item, "annotators")]
        responses = listed(item, "responses")
        shared = {
            "context_id": str(index),
            "context": lines(text(item, "context")),
            "facts": [fact.removeprefix(PERSONA) for fact in lines(text(item, "fact")) if fact != NO_FACT],
            "references": [text(r, "response") for r in responses if text(r, "model") == REFERENCE],
            "raters": raters,
        }
        for position, response in enumerate(responses):
            yield {
                **shared,
                "id": f"{prefix}_{index:03}_{position}",
                "response": text(response, "response"),
                "system": text(response, "model"),
                "ratings": {quality: response[quality] for quality in QUALITIES if quality in response},
            }

    return per_item(records, rows_of)


CORPUS = Corpus(
    name="usr",
    what="Topical-Chat and PersonaChat responses, six qualities, three raters",
    files="tc_usr_data.json, pc_usr_data.json",
    cite="Mehri & Eskenazi 2020, USR: An Unsupervised and Reference Free Evaluation Metric for Dialog Generation",
    read=read,
    recognises=lambda item: isinstance(item, dict) and {"context", "annotators", "responses"} <= item.keys(),
    excluded_systems=(REFERENCE,),
)
