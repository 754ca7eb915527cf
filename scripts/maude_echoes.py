"""Is MAUDE taken in by echoes? `python scripts/maude_echoes.py HEAD... --data DIR --work DIR`.

For each head that `train_maude.py` wrote: how often the true response of a held-out training dialogue scores above the
turn before it said again, above that turn with its words in another order, above an earlier turn of the same speaker,
and above a random utterance. Heads that agree on random utterances are told apart by this; nothing rated is read.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
from maude_corpora import Room
from maude_deltas import head_score
from train_maude import MIXES

from turnwise.train.maude_data import Sampled

KINDS = ("last turn again", "last turn, shuffled", "own turn again", "random utterance")


def responses(held: Sequence[Sampled], rng: Random) -> list[tuple[tuple[str, ...], str, dict[str, str]]]:
    """A context, its true response, and one wrong response of each kind, from the second exchange on."""
    found = []
    for dialogue in held:
        place = rng.randrange(2, len(dialogue.turns)) if len(dialogue.turns) > 2 else 0
        if not place:
            continue
        context, last = dialogue.turns[:place], dialogue.turns[place - 1]
        words = last.split()
        rng.shuffle(words)
        other = rng.choice(held)
        others = (last, " ".join(words), dialogue.turns[place - 2], rng.choice(other.turns))
        found.append((context, dialogue.turns[place], dict(zip(KINDS, others, strict=True))))
    return found


def main() -> None:
    """Print a table of the heads."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("heads", nargs="+", type=Path, help="folders with maude.safetensors")
    parser.add_argument("--data", type=Path, required=True, help="folder with train/, human/ and test/")
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps vectors between runs")
    parser.add_argument("--dialogues", type=int, default=150, help="held-out dialogues of each mix of corpora")
    args = parser.parse_args()
    room = Room(args.data, args.work)
    print(f"| head | {' | '.join(f'{mix}: {kind}' for mix in MIXES['both'] for kind in KINDS)} |")
    print(f"|{'---|' * (1 + len(MIXES['both']) * len(KINDS))}")
    asked = [responses(room.training(mix)[1][: args.dialogues], Random(f"0:{mix}")) for mix in MIXES["both"]]
    for folder in args.heads:
        score = head_score(folder / "maude.safetensors", room)
        cells = []
        for rows in asked:
            contexts = [context for context, _, _ in rows]
            true = score(contexts, [response for _, response, _ in rows])
            wrong = [score(contexts, [others[kind] for *_, others in rows]) for kind in KINDS]
            cells += [f"{float(np.mean(true > other)):.3f}" for other in wrong]
        print(f"| {folder.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
