"""How far do MAUDE's heads agree with people? `python scripts/maude_human.py HEAD... --data DIR --work DIR`.

Prints Spearman's correlation, with its interval, for checkpoints that `train_maude.py` wrote. It chooses nothing: heads
are chosen on held-out dialogues of their training data.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from maude_corpora import Room
from maude_deltas import head_score
from quality_bars import rated

from turnwise.engine.local import cluster_key
from turnwise.stats.bootstrap import correlation_interval
from turnwise.stats.correlation import spearman

# Corpus, quality, and the correlation that the bundled head should reach.
BARS = (
    ("grade_convai2", "coherence", 0.30),
    ("usr_personachat", "Overall", 0.30),
    ("holistic_coherence", "context_coherence", 0.36),
    ("usr_topicalchat", "Overall", 0.20),
    ("grade_dailydialog", "coherence", 0.20),
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("heads", type=Path, nargs="+", help="folders that train_maude.py wrote")
    parser.add_argument("--data", type=Path, required=True, help="folder with human/")
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps vectors between runs")
    parser.add_argument("--models", help="a pack's folder; the bundled pack when left out")
    args = parser.parse_args()
    room = Room(args.data, args.work, args.models)
    for folder in args.heads:
        score = head_score(folder / "maude.safetensors", room)
        for corpus, quality, bar in BARS:
            kept = [(example, rating) for example, rating in rated(args.data, corpus, quality) if example.context]
            texts = [[" ".join(turn.split()) for turn in example.context] for example, _ in kept]
            found = score(texts, [" ".join(example.response.split()) for example, _ in kept]).tolist()
            ratings = [rating for _, rating in kept]
            interval = correlation_interval(found, ratings, clusters=[cluster_key(example) for example, _ in kept])
            shown = f"[{interval.low:.3f}, {interval.high:.3f}]" if interval else ""
            rho = spearman(found, ratings).value or 0.0
            print(
                f"{folder.name:16} {corpus:20} {quality:18} n {len(kept):4d} {rho:6.3f} {shown} bar {bar:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
