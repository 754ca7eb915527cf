"""What makes up `usr`: which part moves it, and what each part has to do with what people rated.

    python scripts/explain_usr.py --data DATA_DIR [--models PACK] [--cache DIR] [--metric usr] [--out FILE.json]

Analysis, not tuning: nothing is chosen from it. On USR's two rated corpora it prints, for every quality, how much its
contribution varies, its share of the variance of the sum, how heavy its tails are, its rank correlation with each
rating, and what the whole would correlate without it. --out FILE.json writes the numbers, and FILE.md the page.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from choose_scale import kurtosis
from mlm_page import number, table

from turnwise.dialogue import Example, mean_rating
from turnwise.engine.local import judge_examples
from turnwise.engine.session import Session
from turnwise.io.read import read_rows
from turnwise.metrics.base import Score
from turnwise.metrics.registry import load_metric
from turnwise.metrics.usr import QUALITIES
from turnwise.stats.arrays import FloatArray
from turnwise.stats.correlation import spearman

CORPORA = {"usr_topicalchat": "Topical-Chat", "usr_personachat": "PersonaChat"}
REFERENCE = "Original Ground Truth"
# Ratings by what they are called in the files; USR's Interesting is called Engaging there.
RATED = ("Understandable", "Natural", "Maintains Context", "Engaging", "Uses Knowledge", "Overall")
WHOLE = "the whole"
INTRODUCTION = """# What makes up usr

How the parts of bare `usr` move it on USR's corpora, original responses left out: the standard deviation of what each
quality adds, its share of the variance of the sum, its excess kurtosis (0: normal, 3: Laplace), and Spearman's rank
correlation with each rating; below, the whole without one quality at a time. Analysis alone: no default was chosen
from it. Read in [the notes on USR](../research/usr.md#what-moves-the-whole).

Made by `python scripts/explain_usr.py`.
"""


def decompose(added: Mapping[str, FloatArray], ratings: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Every quality's part in the sum, and the sum without it."""
    total = np.sum(list(added.values()), axis=0)
    parts = {
        quality: {
            "deviation": float(values.std()),
            "share": float(np.cov(values, total, ddof=0)[0, 1] / total.var()),
            "kurtosis": kurtosis(values),
            "with": _against(values, ratings),
            "whole without it": _against(total - values, ratings),
        }
        for quality, values in added.items()
    }
    whole = {"deviation": float(total.std()), "share": 1.0, "kurtosis": kurtosis(total)}
    return {"n": len(total), "parts": parts, WHOLE: {**whole, "with": _against(total, ratings)}}


def _against(values: FloatArray, ratings: Mapping[str, FloatArray]) -> dict[str, float | None]:
    return {name: spearman(values, column).value for name, column in ratings.items()}


def contributions(scores: Sequence[Score]) -> dict[str, FloatArray]:
    """What each quality added to each score; one that lacks its part added nothing."""
    return {quality: np.array([s.parts.get(f"{quality} contribution", 0.0) for s in scores]) for quality in QUALITIES}


def rated_by(examples: Sequence[Example]) -> dict[str, FloatArray]:
    """The mean ratings, by quality."""
    return {name: np.array([mean_rating(e.ratings[name]) for e in examples], dtype=np.float64) for name in RATED}


def page(found: Mapping[str, Any]) -> str:
    """The numbers as Markdown."""
    lines = [INTRODUCTION]
    for title, about in found.items():
        rows = {**about["parts"], f"**{WHOLE}**": about[WHOLE]}
        lines.append(f"## {title}, {about['n']} responses\n")
        lines.append(
            table(
                ["adds for", "deviation", "share", "kurtosis", *RATED],
                [
                    [
                        name,
                        *(number(of[key], 2) for key in ("deviation", "share", "kurtosis")),
                        *_correlations(of["with"]),
                    ]
                    for name, of in rows.items()
                ],
            )
        )
        lines.append(
            table(
                ["the whole without", *RATED],
                [[name, *_correlations(of["whole without it"])] for name, of in about["parts"].items()],
            )
        )
    return "\n".join(lines)


def _correlations(of: Mapping[str, float | None]) -> list[str]:
    return [number(of[name]) for name in RATED]


def main() -> None:
    """Score, take apart, print; write with --out."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models")
    parser.add_argument("--cache")
    parser.add_argument("--metric", default="usr", help="usr with options, to see what they change")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    args = parser.parse_args()
    ask, found = Session(args.models, cache=args.cache).answer, {}
    for corpus, title in CORPORA.items():
        rows = read_rows([str(args.data / "human" / f"{corpus}.jsonl")])
        kept = [row.example for row in rows if row.example and row.example.system != REFERENCE]
        scores = [row["usr"] for row in judge_examples(kept, {"usr": load_metric(args.metric)}, ask)]
        found[title] = decompose(contributions(scores), rated_by(kept))
    print(text := page(found))
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        args.out.with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
