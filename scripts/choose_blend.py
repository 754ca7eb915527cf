"""Choose RUBER's blend on training dialogues: `python scripts/choose_blend.py --data DIR --models PACK`.

Where several people answered the same, one answer is the reference, another one the response, and somebody's answer to
something else the wrong response. No rating is looked at. A blend is the better the more often it puts the response
first. Only dialogues are used that scripts/train_baselines.py holds out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import get_args

import numpy as np
from train_baselines import HELD_OUT

from turnwise.dialogue import Example
from turnwise.engine.local import judge_examples
from turnwise.engine.session import Session
from turnwise.metrics.registry import load_metric
from turnwise.metrics.ruber import Blend
from turnwise.train.dialogues import Dialogue, Turn, lines_of, split

FILES = ("dialogrpt_refs_reddit", "dialogrpt_refs_twitter", "dialogrpt_refs_personachat")


def answered_twice(data: Path) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Context, answer and another answer, of held-out dialogues."""
    for name in FILES:
        for number, line in lines_of(data / "train" / f"{name}.jsonl.xz"):
            item = json.loads(line)
            turns = tuple(Turn(str(turn["speaker"]), " ".join(turn["text"].split())) for turn in item["turns"])
            others = [text for text in item.get("alt_responses", ()) if len(text.split()) > 2]
            if others and len(turns) > 1 and split([Dialogue(f"{name}/{number}", name, turns, {})], HELD_OUT)[1]:
                yield tuple(turn.text for turn in turns[:-1]), turns[-1].text, others[0]


def two_sides(data: Path, count: int) -> tuple[list[Example], list[Example]]:
    """Somebody's answer and an answer to something else, to the same contexts and beside the same references."""
    rows = list(answered_twice(data))
    Random(0).shuffle(rows)
    rows = rows[:count]
    right = [Example(answer, context, references=(reference,)) for context, reference, answer in rows]
    wrong = [
        Example(rows[i - 1][2], context, references=(reference,)) for i, (context, reference, _) in enumerate(rows)
    ]
    return right, wrong


def print_preferences(requests: Sequence[str], data: Path, count: int, models: str | None) -> None:
    """Print how often each metric prefers the answer that belongs to the context."""
    metrics = {request: load_metric(request) for request in requests}
    sides = two_sides(data, count)
    judged = [judge_examples(side, metrics, Session(models, cache="off").answer) for side in sides]
    print(f"{len(sides[0])} contexts that were answered twice")
    for request in requests:
        first, second = (np.array([row[request].value for row in side]) for side in judged)
        wins = (first > second) + 0.5 * (first == second)
        print(f"{request:32} {wins.mean():.3f} ± {wins.std() / len(wins) ** 0.5:.3f}", flush=True)


def main() -> None:
    """Compare all blends of all metrics that blend."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models")
    parser.add_argument("--contexts", type=int, default=300)
    args = parser.parse_args()
    requests = [f"{name}[blend={blend}]" for name in ("ruber", "bert-ruber", "pone") for blend in get_args(Blend)]
    print_preferences(requests, args.data, args.contexts, args.models)


if __name__ == "__main__":
    main()
