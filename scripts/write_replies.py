"""A causal model replies to training dialogues: `python scripts/write_replies.py MODEL --data DIR --out FILE`.

A judge is asked about these replies while a classifier learns from it (`replies` among the options of training).

MODEL is a checkpoint that `train_pack.py clm` leaves, or any Llama with a tokenizer.json. Dialogues that training holds
out, or that overlap with what is evaluated on, get none. --minutes bounds the time, --count the replies.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from train_pack import WEIGHTS, training_split

from turnwise.train.config import Config
from turnwise.train.dialogues import merge_runs
from turnwise.train.replies import Replier, Reply, replies, write_replies
from turnwise.train.sampling import Places


def main() -> None:
    """Write until there are enough, or no time is left."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--batch", type=int, default=768)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    kept, _ = training_split(args.data)
    places = Places([merge_runs(d) for d in kept], power=Config.corpus_power, weights=WEIGHTS)
    began, written = time.monotonic(), list[Reply]()
    for batch in replies(Replier(args.model, args.device), places, args.seed, args.batch):
        written += batch
        if len(written) >= args.count or time.monotonic() - began > 60 * args.minutes:
            break
    write_replies(args.out, written)
    print(f"{args.out}: {len(written)} replies in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
