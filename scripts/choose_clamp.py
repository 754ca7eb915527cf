"""Between which quantiles should `usl-h` clamp what it likes, and on which scale is sense? On training dialogues alone.

    python scripts/choose_defaults.py --data DATA_DIR --contexts 400 --seed 2 --only vup nup mlm-likelihood \\
        --scores S.json
    python scripts/choose_clamp.py S.json

The paper speaks of the minimum and the maximum, its release clamps between quartiles. Quartiles make the most of
likability in the middle and tell nothing apart outside; wider bounds leave more to whether a response makes sense.
A probability that a response comes next is near 0 or 1 for most, so that among those which make sense likability alone
is left to tell apart. Log-odds between quantiles, as for any part that does not lie between 0 and 1, are the other way.

The criterion, written down before any result was seen: other bounds replace the release's quartiles, and log-odds the
probability, if `usl-h` then puts the person's reply first more often on average over the five contrasts of
`choose_defaults.py` (each counts the same), by more than 2.5 standard errors of the paired difference over places; of
several, those that gain most. Otherwise nothing is changed. No rating is looked at.
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
from turnwise.metrics.uslh import compose
from turnwise.stats.arrays import FloatArray

RELEASED = (0.25, 0.75)
BOUNDS = (RELEASED, (0.1, 0.9), (0.05, 0.95), (0.01, 0.99), (0.0, 1.0))
PARTS = ("vup", "nup", "mlm-likelihood")


def main() -> None:
    """Print, for every pair of bounds, how often the person comes first."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scores", type=Path)
    rows = json.loads(parser.parse_args().scores.read_text(encoding="utf-8"))
    keys = [(row["place"], row["kind"]) for row in rows]
    u, s, liked = (np.array([row["scores"][part] for row in rows], dtype=np.float64) for part in PARTS)
    judged = [kind in JUDGED for _, kind in keys]

    def clamped(values: FloatArray, bounds: tuple[float, float]) -> FloatArray:
        return clamp(values, *np.quantile(values[judged], bounds))

    won = {f"{low}/{high}": wins(keys, compose(u, s, clamped(liked, (low, high)))) for low, high in BOUNDS}
    show("bounds", won)
    odds, middle = log_odds(s), clamped(liked, RELEASED)
    sense = {"probability": s} | {f"log-odds {low}/{high}": clamped(odds, (low, high)) for low, high in BOUNDS}
    show("S", {name: wins(keys, compose(u, values, middle)) for name, values in sense.items()})


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
