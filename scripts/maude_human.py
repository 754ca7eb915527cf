"""How far do MAUDE and the learned baselines agree with people? `python scripts/maude_human.py --data DIR`.

Prints Spearman's correlation with the mean ratings of each corpus, with its interval, as a Markdown table: of a pack's
metrics, or, where HEAD... are given, of checkpoints that `train_maude.py` wrote (these need --work). It chooses
nothing: heads are chosen on held-out dialogues of their training data.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from maude_corpora import Room
from maude_deltas import head_score
from quality_bars import rated

from turnwise.dialogue import Example
from turnwise.engine.local import cluster_key, judge_examples
from turnwise.engine.session import Session
from turnwise.metrics.registry import load_metric
from turnwise.stats.bootstrap import correlation_interval
from turnwise.stats.correlation import spearman

# Corpus, quality, and the correlation that the bundled MAUDE should reach; above .20, not at it, for the last two.
BARS = (
    ("grade_convai2", "coherence", 0.30),
    ("usr_personachat", "Overall", 0.30),
    ("holistic_coherence", "context_coherence", 0.36),
    ("usr_topicalchat", "Overall", 0.20),
    ("grade_dailydialog", "coherence", 0.20),
)
METRICS = (
    "maude", "ruber", "ruber[blend=unreferenced]", "bert-ruber", "bert-ruber[blend=unreferenced]", "pone",
    "pone[blend=unreferenced]", "infersent", "bert-nli", "skip-thought",
)  # fmt: skip
Scores = Sequence[float | None]
Score = Callable[[Sequence[Example]], dict[str, Scores]]


def of_pack(requests: Sequence[str], models: str | None) -> Score:
    """All metrics of a pack at once, so that what they share is worked out once."""
    metrics = {request: load_metric(request) for request in requests}

    def score(examples: Sequence[Example]) -> dict[str, Scores]:
        judged = judge_examples(examples, metrics, Session(models, cache="off").answer)
        return {request: [row[request].value for row in judged] for request in requests}

    return score


def of_heads(folders: Sequence[Path], room: Room) -> Score:
    """Heads that lie in folders, over vectors that are kept."""
    heads = {folder.name: head_score(folder / "maude.safetensors", room) for folder in folders}

    def score(examples: Sequence[Example]) -> dict[str, Scores]:
        texts = [[" ".join(turn.split()) for turn in example.context] for example in examples]
        said = [" ".join(example.response.split()) for example in examples]
        return {name: head(texts, said).tolist() for name, head in heads.items()}

    return score


def shown(values: Scores, examples: Sequence[Example], ratings: Sequence[float]) -> str:
    """A correlation and its interval, over the examples that have a score."""
    kept = [(v, r, cluster_key(e)) for v, r, e in zip(values, ratings, examples, strict=True) if v is not None]
    if len(kept) < len(examples) // 2:
        return "no references"
    found, rated_as, clusters = map(list, zip(*kept, strict=True))
    interval = correlation_interval(found, rated_as, clusters=clusters)
    between = f" [{interval.low:.3f}, {interval.high:.3f}]" if interval else ""
    return f"{spearman(found, rated_as).value or 0.0:.3f}{between}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "heads", type=Path, nargs="*", help="folders that train_maude.py wrote; none: the pack's metrics"
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with human/")
    parser.add_argument("--work", type=Path, help="folder that keeps vectors between runs; only heads need it")
    parser.add_argument("--models", help="a pack's folder; the bundled pack when left out")
    parser.add_argument("--metrics", nargs="+", default=list(METRICS), help="metrics of the pack")
    args = parser.parse_args()
    if args.heads and args.work is None:
        parser.error("heads need --work, a folder for the vectors of utterances")
    score = of_heads(args.heads, Room(args.data, args.work, args.models)) if args.heads else None
    score = score or of_pack(args.metrics, args.models)
    names = [folder.name for folder in args.heads] or args.metrics
    columns = []
    for corpus, quality, _ in BARS:
        kept = [(example, rating) for example, rating in rated(args.data, corpus, quality) if example.context]
        examples, ratings = [example for example, _ in kept], [rating for _, rating in kept]
        found = score(examples)
        columns.append((len(kept), {name: shown(found[name], examples, ratings) for name in names}))
    print("| | " + " | ".join(f"{corpus}, {quality}" for corpus, quality, _ in BARS) + " |")
    print("|" + "---|" * (len(BARS) + 1))
    print("| responses | " + " | ".join(str(count) for count, _ in columns) + " |")
    print("| bar (MAUDE) | " + " | ".join(f"{bar:.2f}" for *_, bar in BARS) + " |")
    for name in names:
        print(f"| {name} | " + " | ".join(column[name] for _, column in columns) + " |", flush=True)


if __name__ == "__main__":
    main()
