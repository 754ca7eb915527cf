"""Are the parts of `usr` added on the right scale, and is the whole as good as its parts? On training dialogues alone.

    python scripts/choose_defaults.py --data DATA_DIR --contexts 400 --seed 2 --only vup nup usr-dr-f usr-mlm \\
        --scores S.json
    python scripts/choose_scale.py S.json

The published weights are those of standardised parts. A part that is standardised but has long tails, as a
probability near 1 has, hardly speaks in most replies and shouts everything else down in a few. And a part may suit its
own quality best and yet drown the others, which `choose_defaults.py`, looking at one quality at a time, cannot see.
Five forms of the sum are held against each other, each with its constants measured on the judged replies:

  plain             z-scores of the scores as they are: `usr` as it is
  heavy             log-odds for a probability whose z-scores have an excess kurtosis above 3, that of Laplace
  log-odds          log-odds for every probability
  dr_c interesting  plain, but the published `dr_c` stands for Interesting, with the published sign
  dr_f interesting  plain, but `dr_f` does, the runner-up of that contrast

The criterion, written down before any result was seen: a form replaces `plain` if it puts the person's reply first
more often on average over the five contrasts of `choose_defaults.py` (each counts the same), by more than 2.5 standard
errors of the paired difference over places (four are tried, so 2 would be too easily passed); of several, the one
that gains most. Otherwise nothing is changed. No rating is looked at.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from choose_defaults import CONTRASTS, JUDGED

from turnwise.metrics.usr import FEEDS, PARTS, QUALITIES, WEIGHTS, Usr
from turnwise.stats.arrays import FloatArray

HEAVY = 3.0
Scale = Callable[[FloatArray], FloatArray]
PERSON = "person"


def log_odds(chances: FloatArray) -> FloatArray:
    """The scale on which a classifier decides.

    >>> log_odds(np.array([0.5])).item()
    0.0
    """
    kept = np.clip(chances, 1e-6, 1 - 1e-6)
    odds: FloatArray = np.log(kept / (1 - kept))
    return odds


def as_it_is(values: FloatArray) -> FloatArray:
    """No change."""
    return values


def kurtosis(values: FloatArray) -> float:
    """Excess kurtosis: 0 for a normal distribution.

    >>> kurtosis(np.array([-1.0, 1.0]))
    -2.0
    """
    deviations = values - values.mean()
    return float((deviations**4).mean() / (deviations**2).mean() ** 2 - 3)


@dataclass(frozen=True)
class Form:
    """A form of the sum: the scale of each part, and the part that stands for Interesting in place of `mlm`."""

    scales: Mapping[str, Scale] = field(default_factory=dict)
    interesting: str | None = None


class Scores:
    """The scores of all replies, by place and kind; a part that lacks a score counts as average."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.keys = [(row["place"], row["kind"]) for row in rows]
        self.judged = np.array([kind in JUDGED for _, kind in self.keys])
        names = {part: getattr(Usr, part) if part in PARTS else part for part in FEEDS.split("/")}
        self.columns = {
            part: np.array([np.nan if (v := row["scores"][name]) is None else v for row in rows], dtype=np.float64)
            for part, name in names.items()
        }
        # Bare `usr-dr-c` is the mean of these two answers.
        self.columns["dr_c"] = (self.columns["nup"] + self.columns["dr_f"]) / 2

    def z(self, part: str, scale: Scale) -> FloatArray:
        """A part on a scale, standardised over the judged replies."""
        values = scale(self.columns[part])
        judged = values[self.judged]
        return np.nan_to_num((values - np.nanmean(judged)) / np.nanstd(judged))

    def contributions(self, form: Form) -> dict[str, FloatArray]:
        """What each quality adds."""
        fed = dict(zip(QUALITIES, FEEDS.split("/"), strict=True))
        weights = dict(zip(QUALITIES, map(float, WEIGHTS.split("/")), strict=True))
        if form.interesting is not None:
            fed["Interesting"], weights["Interesting"] = form.interesting, abs(weights["Interesting"])
        return {
            quality: weight * self.z(fed[quality], form.scales.get(fed[quality], as_it_is))
            for quality, weight in weights.items()
        }


def wins(keys: Sequence[tuple[int, str]], total: FloatArray) -> dict[str, dict[int, float]]:
    """For every contrast, at each place, whether the person's reply has the higher score; a tie is half a win."""
    found = dict(zip(keys, total.tolist(), strict=True))
    return {
        kind: {
            place: (found[place, PERSON] > value) + 0.5 * (found[place, PERSON] == value)
            for (place, of), value in found.items()
            if of == kind
        }
        for kind in CONTRASTS
    }


def main() -> None:
    """Print the shape of every part, its share of the sum, and which form puts the person first."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scores", type=Path)
    scores = Scores(json.loads(parser.parse_args().scores.read_text(encoding="utf-8")))
    chances = [part for part in FEEDS.split("/") if part != "mlm"]
    tails = {part: kurtosis(scores.z(part, as_it_is)[scores.judged]) for part in scores.columns}
    forms = {
        "plain": Form(),
        "heavy": Form({part: log_odds for part in chances if tails[part] > HEAVY}),
        "log-odds": Form(dict.fromkeys(chances, log_odds)),
        "dr_c interesting": Form(interesting="dr_c"),
        "dr_f interesting": Form(interesting="dr_f"),
    }
    print("| part | kurtosis | of its log-odds |\n|---|---|---|")
    for part in scores.columns:
        other = f"{kurtosis(scores.z(part, log_odds)[scores.judged]):.1f}" if part in chances else ""
        print(f"| {part} | {tails[part]:.1f} | {other} |")
    print("\n| share of the variance of the sum | " + " | ".join(QUALITIES) + " |\n|" + "---|" * 6)
    won_by = {}
    for name, form in forms.items():
        added = scores.contributions(form)
        total = np.sum(list(added.values()), axis=0)
        won_by[name] = wins(scores.keys, total)
        judged = total[scores.judged]
        shares = [float(np.cov(v[scores.judged], judged, ddof=0)[0, 1] / judged.var()) for v in added.values()]
        print(f"| {name} | " + " | ".join(f"{share:.2f}" for share in shares) + " |")
    print(
        "\n| the person first | " + " | ".join(CONTRASTS) + " | mean | against plain, with its error |\n|" + "---|" * 8
    )
    for name, won in won_by.items():
        means = [float(np.mean(list(of.values()))) for of in won.values()]
        difference, error = paired(won, won_by["plain"])
        cells = " | ".join(f"{mean:.3f}" for mean in (*means, float(np.mean(means))))
        print(f"| {name} | {cells} | {difference:+.3f} ± {error:.3f} |")


def paired(won: Mapping[str, Mapping[int, float]], other: Mapping[str, Mapping[int, float]]) -> tuple[float, float]:
    """The mean difference over contrasts and its standard error over places, which are drawn independently."""
    places = sorted({place for of in won.values() for place in of})
    each = [
        float(np.mean([won[kind][place] - other[kind][place] for kind in won if place in won[kind]]))
        for place in places
    ]
    return float(np.mean(each)), float(np.std(each, ddof=1) / np.sqrt(len(each)))


if __name__ == "__main__":
    main()
