"""`python -m tests.redteam [OPTIONS] [NAME ...]`: attack kept files and whole commands, and print counts."""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.redteam import caches, packs, runs, shards

Attack = Callable[[int, random.Random, Path], Counter[str]]

# Each with its rounds, in the long form and in the short one.
ATTACKS: dict[str, tuple[Attack, int, int]] = {
    "caches": (caches.attack, 1000, 25),
    "crowds on caches": (caches.attack_crowds, 60, 2),
    "shards": (shards.attack, 1000, 40),
    "packs": (packs.attack, 1000, 40),
    "signals": (runs.attack_signals, 200, 2),
    "single files": (runs.attack_others, 100, 1),
    "crowds": (runs.attack_crowds, 70, 1),
    "full disks": (runs.attack_full_disks, 20, 1),
}


def run(
    names: list[str], *, short: bool, seed: int = 0, rounds: int | None = None, minutes: float | None = None
) -> dict[str, Counter[str]]:
    """Run attacks, print the counts of each, and return them.

    With `minutes` every attack gets the same share of the time, in batches of a few rounds.
    """
    found: dict[str, Counter[str]] = {}
    for name in names or ATTACKS:
        attack, most, least = ATTACKS[name]
        started = time.monotonic()
        share = 0.0 if minutes is None else 60 * minutes / len(names or ATTACKS)
        counts: Counter[str] = Counter()
        for batch in itertools.count():
            with tempfile.TemporaryDirectory() as work:
                size = rounds or (most if not short and minutes is None else max(least, most // 20))
                counts += attack(least if short else size, random.Random(f"{seed} {name} {batch}"), Path(work))
            if time.monotonic() - started >= share:
                break
        print(f"{name}, {time.monotonic() - started:.0f} s")
        for what, count in counts.items():
            print(f"  {count:>7,} {what}", flush=True)
        found[name] = counts
    return found


def harm(found: dict[str, Counter[str]]) -> Counter[str]:
    """Return the counts of harm."""
    every = ((name, what, count) for name, counts in found.items() for what, count in counts.items())
    return Counter({f"{name}: {what}": count for name, what, count in every if what.startswith("HARM")})


def page(found: dict[str, Counter[str]], seed: int) -> str:
    """Return the counts as Markdown."""
    lines = [
        "# Attacks on files",
        "",
        f"Written by `python -m tests.redteam --seed {seed} --save docs/results/redteam.md`.",
        "Each line counts what was run. A line that begins with HARM counts a torn, mixed or lost result,",
        "accepted damage, or a wrong exit status.",
        "",
    ]
    for name, counts in found.items():
        lines += [f"## {name.capitalize()}", "", "| what | count |", "| --- | ---: |"]
        lines += [f"| {what} | {count:,} |" for what, count in counts.items()]
        lines += [""]
    return "\n".join([*lines, f"Harm in total: {sum(harm(found).values())}.", ""])


def main() -> int:
    """Run what the command line names, and return 1 after any harm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"attacks: {', '.join(ATTACKS)}; default: all")
    parser.add_argument("--short", action="store_true", help="few rounds, as in CI")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--rounds", type=int, help="rounds of each attack")
    parser.add_argument("--minutes", type=float, help="share this time among the attacks")
    parser.add_argument("--save", type=Path, metavar="FILE.md", help="write the counts as Markdown")
    given = parser.parse_args()
    found = run(given.names, short=given.short, seed=given.seed, rounds=given.rounds, minutes=given.minutes)
    if given.save is not None:
        given.save.write_text(page(found, given.seed), encoding="utf-8")
    harmed = sum(harm(found).values())
    print(f"harm: {harmed}" if harmed else "no harm")
    return bool(harmed)


if __name__ == "__main__":
    sys.exit(main())
