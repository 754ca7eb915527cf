"""FBD: one item per context, with a column of hypotheses and of mean ratings per system."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from turnwise.io.corpora.base import Corpus, Row, listed, per_item, text
from turnwise.io.corpora.usr import QUALITIES as USR_QUALITIES
from turnwise.io.problem import Records, Unreadable

_ZHAO_QUALITIES = ("relevance", "grammar", "content", "appropriateness")
_MIXTURES = tuple(f"mix{column:02}" for column in range(2, 11))
_TWO_AND_MIXTURES = ("transformer_generator", "transformer_ranker", *_MIXTURES)

# The release numbers its systems; who they are follows from the corpora that it draws on. A mark ~ stands for
# a model whose decoding settings vary from context to context.
SYSTEMS = {
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
QUALITIES = {6: USR_QUALITIES, 4: _ZHAO_QUALITIES, 1: ("Overall",)}
ONE_QUALITY = {
    **dict.fromkeys(("convai2", "dailyh", "empathetic"), "coherence"),
    "personaz": "appropriateness",
}


def read(records: Records, stem: str) -> Records:
    """One row per context and system; a system that the file does not reveal is called by its column."""
    corpus = stem.removesuffix("_annotation").removeprefix("fbd_")
    named = SYSTEMS.get(corpus, ())

    def rows_of(item: Any, index: int) -> Iterator[Row]:
        hypotheses, scores = listed(item, "hyps"), listed(item, "human_scores")
        if len(hypotheses) != len(scores):
            found = f"{len(scores)} lists of scores for {len(hypotheses)} hypotheses"
            raise Unreadable.of("item.shape", "human_scores", reason=found)
        shared = {"context_id": str(index), "context": [text(item, "src")], "references": _references(item)}
        for column, (hypothesis, given) in enumerate(zip(hypotheses, scores, strict=True)):
            yield {
                **shared,
                "id": f"{corpus}_{index:03}_{column:02}",
                "response": hypothesis.strip() if isinstance(hypothesis, str) else hypothesis,
                "system": named[column] if len(named) == len(hypotheses) else f"system{column:02}",
                "ratings": _ratings(given, corpus),
            }

    return per_item(records, rows_of)


def _references(item: Any) -> list[Any]:
    return [ref.strip() if isinstance(ref, str) else ref for ref in listed(item, "refs")]


def _ratings(given: Any, corpus: str) -> dict[str, Any]:
    scores = given if isinstance(given, list) else [given]
    if len(scores) not in QUALITIES:
        found = f"{len(scores)} scores where 1, 4 or 6 belong"
        raise Unreadable.of("item.shape", "human_scores", reason=found)
    qualities = QUALITIES[len(scores)]
    if len(scores) == 1:
        qualities = (ONE_QUALITY.get(corpus, qualities[0]),)
    return dict(zip(qualities, scores, strict=True))


CORPUS = Corpus(
    name="fbd",
    what="six corpora with several systems per context, mean ratings",
    files="personam_annotation.json, dailyh_annotation.json, convai2_annotation.json, ...",
    cite="Xiang et al. 2021, Assessing Dialogue Systems with Distribution Distances",
    read=read,
    recognises=lambda item: isinstance(item, dict) and {"src", "refs", "hyps", "human_scores"} <= item.keys(),
)
