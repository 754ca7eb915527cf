"""What should make sense for `usl-h`, on which scale, and between which quantiles does it clamp what it likes?

    python scripts/choose_defaults.py --data DATA_DIR --contexts 400 --seed 2 --scores S.json \\
        --only vup nup usr-dr-c mlm-likelihood
    python scripts/choose_clamp.py S.json

The paper speaks of the minimum and the maximum, its release clamps between quartiles. Quartiles make the most of
likability in the middle and tell nothing apart outside; wider bounds leave more to whether a response makes sense.
A probability that a response comes next is near 0 or 1 for most, so that among those which make sense likability alone
is left to tell apart. Log-odds between quantiles, as for any part that does not lie between 0 and 1, are the other way.
And the authors' dialogues have no facts: where a speaker was given some, `usr-dr-c` asks about them too.

The criterion, written down before any result was seen: another form replaces the release's (the context alone, its
probability, quartiles) if `usl-h` then puts the person's reply first more often on average over the five contrasts of
`choose_defaults.py` (each counts the same), by more than 2.5 standard errors of the paired difference over places; of
several, those that gain most. Otherwise nothing is changed. Training dialogues alone; no rating is looked at.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from choose_defaults import CONTRASTS, JUDGED
from choose_scale import log_odds, paired, wins

from turnwise.metrics.normalise import clamp
from turnwise.metrics.uslh import UslH, compose
from turnwise.stats.arrays import FloatArray

RELEASED = (0.25, 0.75)
BOUNDS = (RELEASED, (0.1, 0.9), (0.05, 0.95), (0.01, 0.99), (0.0, 1.0))
SENSIBLE = ("nup", "usr-dr-c")


def main() -> None:
    """Print, for every form, how often the person comes first."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scores", type=Path)
    rows = json.loads(parser.parse_args().scores.read_text(encoding="utf-8"))
    keys = [(row["place"], row["kind"]) for row in rows]
    judged = [kind in JUDGED for _, kind in keys]

    def column(part: str) -> FloatArray:
        return np.array([row["scores"][part] for row in rows], dtype=np.float64)

    def clamped(values: FloatArray, bounds: tuple[float, float]) -> FloatArray:
        return clamp(values, *np.quantile(values[judged], bounds))

    u, liked = column("vup"), column("mlm-likelihood")
    middle = clamped(liked, RELEASED)
    show("S", {part: wins(keys, compose(u, column(part), middle)) for part in SENSIBLE})
    s = column(UslH.sensible)
    show("bounds", {f"{low}/{high}": wins(keys, compose(u, s, clamped(liked, (low, high)))) for low, high in BOUNDS})
    odds = log_odds(s)
    sense = {"probability": s} | {f"log-odds {low}/{high}": clamped(odds, (low, high)) for low, high in BOUNDS}
    show("its scale", {name: wins(keys, compose(u, values, middle)) for name, values in sense.items()})


def show(title: str, won: Mapping[str, Mapping[str, Mapping[int, float]]]) -> None:
    """A table of forms, the first of which is in use."""
    used = next(iter(won))
    print(f"| {title} | " + " | ".join(CONTRASTS) + f" | mean | against {used}, with its error |\n|" + "---|" * 8)
    for name, of in won.items():
        means = [float(np.mean(list(places.values()))) for places in of.values()]
        difference, error = paired(of, won[used])
        cells = " | ".join(f"{mean:.3f}" for mean in (*means, float(np.mean(means))))
        print(f"| {name} | {cells} | {difference:+.3f} ± {error:.3f} |")


if __name__ == "__main__":
    main()
