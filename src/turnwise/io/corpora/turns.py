"""Releases of rated responses: USR, FBD, GRADE, Holistic, and Zhao et al."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from turnwise.io.base import Records, Unreadable
from turnwise.io.corpora.items import Numbering, Row, has, lines, listed, mapped, per_item, release, text
from turnwise.io.tables import rating_cell

# --- USR: one item per context, with all the responses to it and three raters who judged them.

REFERENCE = "Original Ground Truth"
USR_QUALITIES = ("Understandable", "Natural", "Maintains Context", "Engaging", "Uses Knowledge", "Overall")
PERSONA = "your persona: "
NO_FACT = "_nofact"


def usr(records: Records, stem: str) -> Records:
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
                "ratings": {quality: response[quality] for quality in USR_QUALITIES if quality in response},
            }

    return per_item(records, rows_of)


# --- FBD: one item per context, with a column of hypotheses and of mean ratings per system.

_ZHAO_QUALITIES = ("relevance", "grammar", "content", "appropriateness")
_MIXTURES = tuple(f"mix{column:02}" for column in range(2, 11))
_TWO_AND_MIXTURES = ("transformer_generator", "transformer_ranker", *_MIXTURES)

# The release numbers its systems; who they are follows from the corpora that it draws on. A mark ~ stands for
# a model whose decoding settings vary from context to context.
FBD_SYSTEMS = {
    "personam": ("KV-MemNN", "Seq2Seq", "Language Model", "New Human Generated"),
    "convai2": ("bert_ranker", "dialogGPT", "transformer_generator", "transformer_ranker"),
    "dailyh": _TWO_AND_MIXTURES,
    "empathetic": _TWO_AND_MIXTURES,
    "dailyz": (
        *("slot0_GPT2_medium~", "slot1_GPT2~", "slot2_GPT2_small~", "slot3_HRED_attn~"),
        *("slot4_S2S~", "slot5_S2S_attn~", "slot6_VHRED_attn~", "negative-sample"),
    ),
    "personaz": ("GPT2_medium~", "GPT2_small~", "HRED_attn", "S2S_attn", "negative-sample"),
}
FBD_QUALITIES = {6: USR_QUALITIES, 4: _ZHAO_QUALITIES, 1: ("Overall",)}
ONE_QUALITY = {
    **dict.fromkeys(("convai2", "dailyh", "empathetic"), "coherence"),
    "personaz": "appropriateness",
}


def fbd(records: Records, stem: str) -> Records:
    """Yield one row per context and system; a system that the file does not reveal is called by its column."""
    corpus = stem.removesuffix("_annotation").removeprefix("fbd_")
    named = FBD_SYSTEMS.get(corpus, ())

    def rows_of(item: Any, index: int) -> Iterator[Row]:
        hypotheses, scores = listed(item, "hyps"), listed(item, "human_scores")
        if len(hypotheses) != len(scores):
            found = f"{len(scores)} lists of scores for {len(hypotheses)} hypotheses"
            raise Unreadable.of("item.shape", "human_scores", reason=found)
        shared = {"context_id": str(index), "context": [text(item, "src")], "references": _fbd_references(item)}
        for column, (hypothesis, given) in enumerate(zip(hypotheses, scores, strict=True)):
            yield {
                **shared,
                "id": f"{corpus}_{index:03}_{column:02}",
                "response": hypothesis.strip() if isinstance(hypothesis, str) else hypothesis,
                "system": named[column] if len(named) == len(hypotheses) else f"system{column:02}",
                "ratings": _fbd_ratings(given, corpus),
            }

    return per_item(records, rows_of)


def _fbd_references(item: Any) -> list[Any]:
    return [ref.strip() if isinstance(ref, str) else ref for ref in listed(item, "refs")]


def _fbd_ratings(given: Any, corpus: str) -> dict[str, Any]:
    scores = given if isinstance(given, list) else [given]
    if len(scores) not in FBD_QUALITIES:
        found = f"{len(scores)} scores where 1, 4 or 6 belong"
        raise Unreadable.of("item.shape", "human_scores", reason=found)
    qualities = FBD_QUALITIES[len(scores)]
    if len(scores) == 1:
        qualities = (ONE_QUALITY.get(corpus, qualities[0]),)
    return dict(zip(qualities, scores, strict=True))


# --- GRADE: coherence judgements, with the ratings as a list inside a string.

BETWEEN_TURNS = "|||"
SUFFIX = "_EVAL"


def grade(records: Records, stem: str) -> Records:
    """Yield one row per judged response; the release holds no references."""
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


# --- Holistic: two header-less CSV files, each row a number, the texts and ten ratings.

HOLISTIC_SYSTEM = "transformer_OpenNMT_dailydialog"
RATERS = 10
HOLISTIC = "Pang et al. 2020, Towards Holistic and Automatic Evaluation of Open-Domain Dialogue Generation"


def holistic_coherence(records: Records, stem: str) -> Records:
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
            "system": HOLISTIC_SYSTEM,
            "ratings": {"context_coherence": ratings},
        }

    return per_item(records, rows_of)


def holistic_fluency(records: Records, stem: str) -> Records:
    """Rows of number, response, ratings."""
    del stem

    def rows_of(cells: Any, index: int) -> Iterator[Row]:
        (response,), ratings = _split(cells, texts=1)
        yield {
            "id": f"holistic_flu_{index}",
            "response": response,
            "system": HOLISTIC_SYSTEM,
            "ratings": {"fluency": ratings},
        }

    return per_item(records, rows_of)


def _split(cells: Any, texts: int) -> tuple[list[str], list[Any]]:
    if not isinstance(cells, list) or len(cells) <= 1 + texts:
        found = f"{len(cells) if isinstance(cells, list) else 0} cells, not a number, {texts} text(s) and ratings"
        raise Unreadable.of("item.shape", "cells", reason=found)
    return [cell.strip() for cell in cells[1 : 1 + texts]], [rating_cell(cell) for cell in cells[1 + texts :]]


def _is_holistic(cells: Any, texts: int) -> bool:
    """Return whether a first record has a number, then texts, then exactly ten ratings from 1 to 5."""
    if not isinstance(cells, list) or len(cells) != 1 + texts + RATERS:
        return False
    return cells[0].isdigit() and all(cell.strip() in set("12345") for cell in cells[1 + texts :])


# --- Zhao et al.'s ratings as DSTC10 distributes them: one rated response per item.

GROUND_TRUTH = "ground-truth"
NO_REFERENCE = "NO REF"


def zhao(records: Records, stem: str) -> Records:
    """Yield one row per item; what the release calls a dialogue's id is the item's."""
    context_id = Numbering("c")

    def rows_of(item: Any, index: int) -> Iterator[Row]:
        context = lines(text(item, "context"))
        yield {
            "id": item.get("dialogue_id") or f"{stem}_{index:05}",
            "context": context,
            "context_id": context_id(tuple(context)),
            "response": text(item, "response"),
            "references": _zhao_references(item.get("reference")),
            "system": text(item, "model"),
            "ratings": mapped(item, "annotations"),
        }

    return per_item(records, rows_of)


def _zhao_references(given: Any) -> Any:
    found = [given] if isinstance(given, str) else given
    if not isinstance(found, list):
        return found
    stripped = [reference.strip() if isinstance(reference, str) else reference for reference in found]
    return [reference for reference in stripped if reference not in ("", NO_REFERENCE)]


def _is_zhao(item: Any) -> bool:
    named = isinstance(item, dict) and {"dialogue_id", "model", "response"} <= item.keys()
    return named and isinstance(item.get("context"), str) and isinstance(item.get("annotations"), dict)


READERS = (
    release(
        "usr",
        usr,
        has("context", "annotators", "responses"),
        excluded_systems=(REFERENCE,),
        what="Topical-Chat and PersonaChat responses, six qualities, three raters",
        files="tc_usr_data.json, pc_usr_data.json",
        cite="Mehri & Eskenazi 2020, USR: An Unsupervised and Reference Free Evaluation Metric for Dialog Generation",
    ),
    release(
        "fbd",
        fbd,
        has("src", "refs", "hyps", "human_scores"),
        what="six corpora with several systems per context, mean ratings",
        files="personam_annotation.json, dailyh_annotation.json, convai2_annotation.json, ...",
        cite="Xiang et al. 2021, Assessing Dialogue Systems with Distribution Distances",
    ),
    release(
        "grade",
        grade,
        has("DialogModel", "HumanScores"),
        what="coherence of responses on DailyDialog, ConvAI2 and EmpatheticDialogues, 8 to 11 raters",
        files="human_judgement.json",
        cite="Huang et al. 2020, GRADE: Automatic Graph-Enhanced Coherence Metric",
    ),
    release(
        "holistic-coherence",
        holistic_coherence,
        lambda cells: _is_holistic(cells, texts=2),
        suffixes=(".csv", ".tsv"),
        what="200 DailyDialog replies, context coherence, ten raters",
        files="context_data_release.csv",
        cite=HOLISTIC,
    ),
    release(
        "holistic-fluency",
        holistic_fluency,
        lambda cells: _is_holistic(cells, texts=1),
        suffixes=(".csv", ".tsv"),
        what="200 DailyDialog replies, fluency, ten raters",
        files="fluency_data_release.csv",
        cite=HOLISTIC,
    ),
    release(
        "zhao",
        zhao,
        _is_zhao,
        excluded_systems=(GROUND_TRUTH,),
        what="DailyDialog and PersonaChat responses, four raters, in DSTC10's JSON",
        files="dailydialog-zhao_eval.json, persona-zhao_eval.json",
        cite="Zhao et al. 2020, Designing Precise and Robust Dialogue Response Evaluators",
    ),
)
