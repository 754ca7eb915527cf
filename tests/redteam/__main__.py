"""`python -m tests.redteam [--short] [--seed N] [--rounds N] [NAME ...]`: attack kept files and print counts."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.redteam import caches, shards

Attack = Callable[[int, random.Random, Path], Counter[str]]

# Each with its rounds, in the long form and in the short one.
ATTACKS: dict[str, tuple[Attack, int, int]] = {
    "caches": (caches.attack, 1000, 25),
    "shards": (shards.attack, 1000, 40),
}


def run(names: list[str], *, short: bool, seed: int = 0, rounds: int | None = None) -> Counter[str]:
    """Run attacks, print the counts of each, and return the counts of harm."""
    harm: Counter[str] = Counter()
    for name in names or ATTACKS:
        attack, most, least = ATTACKS[name]
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as work:
            counts = attack(rounds or (least if short else most), random.Random(f"{seed} {name}"), Path(work))
        print(f"{name}, {time.monotonic() - started:.0f} s")
        for what, count in counts.items():
            if count:
                print(f"  {count:>7,} {what}")
                harm[f"{name}: {what}"] += count * what.startswith("HARM")
    return +harm


def main() -> int:
    """Run what the command line names, and return 1 after any harm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"attacks: {', '.join(ATTACKS)}; default: all")
    parser.add_argument("--short", action="store_true", help="few rounds, as in CI")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--rounds", type=int, help="rounds of each attack")
    given = parser.parse_args()
    harm = run(given.names, short=given.short, seed=given.seed, rounds=given.rounds)
    print("no harm" if not harm else f"harm: {sum(harm.values())}")
    return bool(harm)


if __name__ == "__main__":
    sys.exit(main())
