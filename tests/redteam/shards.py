"""Damage shards: every one is refused with one line, or merges into the same document."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from tests.redteam.damage import damage
from turnwise.analyses.evaluate import score_part
from turnwise.analyses.part import Shard
from turnwise.analyses.shards import merge, save_part
from turnwise.errors import TurnwiseError
from turnwise.options import Run

METRICS = "length,distinct-2,f1,bleu-2[corpus=true]"
SHARDS = 3


def _rows(rng: random.Random) -> list[dict[str, Any]]:
    words = "tea rain yes no why not i you like the a piano cats dogs very much".split()

    def say() -> str:
        return " ".join(rng.choices(words, k=rng.randint(1, 9)))

    facts = [{"system": rng.choice("ab"), "dialogue_id": str(rng.randrange(20))} for _ in range(60)]
    return [{"response": say(), "context": [say()], "references": [say()], **row} for row in facts]


def _scored(rows: list[dict[str, Any]], out: Path) -> list[Path]:
    folders = []
    for index in range(1, SHARDS + 1):
        shard, folder = Shard(index, SHARDS), out / str(index)
        save_part(score_part(rows, METRICS, Run.of(cache="off"), shard=shard, spool=folder), shard, folder)
        folders.append(folder)
    return folders


def attack(rounds: int, rng: random.Random, work: Path) -> Counter[str]:
    """Return how many sets of shards were tried, how many of them were refused, and how many did harm."""
    whole, donor = work / "whole", work / "donor"
    truth = merge(_scored(_rows(rng), whole)).to_dict()
    _scored(_rows(rng), donor)
    counts: Counter[str] = Counter()
    for number in range(rounds):
        folder = work / str(number)
        shutil.copytree(whole, folder)
        done = damage(rng, folder, donor)
        counts["shards damaged"] += 1
        try:
            same = merge(sorted(folder.iterdir())).to_dict() == truth
        except TurnwiseError as problem:
            counts["refused"] += 1
            counts["HARM more than a line"] += "\n" in str(problem)
        except Exception as problem:
            counts[f"HARM {type(problem).__name__} after {done}: {problem}"] += 1
        else:
            counts["merged to the same numbers" if same else f"HARM other numbers after {done}"] += 1
        shutil.rmtree(folder)
    return counts
