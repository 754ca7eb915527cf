"""How often verdicts and intervals are wrong, by simulation: `python -m benchmarks.decisions`.

    python -m benchmarks.decisions [--draws 10000] [--out docs/results] [--only TEXT] [--corpora DIR] [--page]

Every cell draws data whose truth is known and counts what the decisions of turnwise.stats say of them. Finished cells
are kept in decisions.json, so a run that was stopped goes on. --corpora takes a folder of rated corpora in which each
row has a score named usl-h (made by `turnwise score --metrics usl-h`); --page only writes the page anew.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from turnwise.stats.anchored import anchored_difference, anchored_mean, cross_fitted, sample_rows
from turnwise.stats.decisions import (
    Evidence,
    decide,
    mean_evidence,
    paired_evidence,
    unpaired_evidence,
)
from turnwise.stats.tails import rate, tail

Array = NDArray[np.float64]
Rng = np.random.Generator
Cell = Callable[[Rng, int], dict[str, float]]

DRAWS, CORPUS_DRAWS = 10_000, 2_000
# Arrangements and draws of a family where there are 45 pairs in each of 10,000 draws.
FEWER = 999
LABELLED = 50


# --- what systems do ---------------------------------------------------------------------------------------


def normal(rng: Rng, shape: tuple[int, ...]) -> Array:
    return rng.normal(size=shape)


def skewed(rng: Rng, shape: tuple[int, ...]) -> Array:
    """Most are alike and a few much lower; mean 0."""
    return 1 - rng.exponential(size=shape)


def tied(rng: Rng, shape: tuple[int, ...]) -> Array:
    """Three values, nine of ten times the same; mean 0."""
    return rng.choice([-1.0, 0.0, 1.0], p=[0.05, 0.9, 0.05], size=shape)


def two_modes(rng: Rng, shape: tuple[int, ...]) -> Array:
    """Scores near 0 or near 1, as of a classifier; mean 0 about one half."""
    return rng.integers(0, 2, size=shape) - 0.5 + 0.02 * rng.normal(size=shape)


def heavy(rng: Rng, shape: tuple[int, ...]) -> Array:
    return rng.standard_t(3, size=shape)


def flat(rng: Rng, shape: tuple[int, ...]) -> Array:
    return rng.random(shape) - 0.5


Make = Callable[[Rng, tuple[int, ...]], Array]


def dialogues(rng: Rng, count: int, systems: int, effect: float = 1.0) -> tuple[Array, NDArray[np.int64]]:
    """Turns of dialogues of one to twelve turns, with an effect of each dialogue on each system."""
    lengths = rng.integers(1, 13, size=count)
    clusters = np.repeat(np.arange(count), lengths)
    shared = effect * rng.normal(size=(systems, count))[:, clusters]
    return shared + rng.normal(size=(systems, len(clusters))), clusters


# --- verdicts where nothing differs ------------------------------------------------------------------------


class Count:
    """What decisions got wrong, over draws."""

    def __init__(self) -> None:
        self.draws = self.false = self.covered = self.contradictions = self.equivalent = 0

    def add(
        self, family: Sequence[Evidence | None], truth: float | list[float] = 0.0, margin: float | None = None
    ) -> None:
        truths = truth if isinstance(truth, list) else [truth] * len(family)
        known = [(one, true) for one, true in zip(decide(family, True, margin), truths, strict=True) if one is not None]
        self.draws += 1
        self.false += any(one.verdict in ("better", "worse") and true == 0 for one, true in known)
        self.equivalent += any(one.verdict == "equivalent" and abs(true) == margin for one, true in known)
        covered = True
        for one, true in known:
            if one.low is not None and one.high is not None:
                covered &= one.low <= true <= one.high
                self.contradictions += (one.p < 0.05) != (one.low > 0 or one.high < 0)
        self.covered += covered

    def shares(self) -> dict[str, float]:
        return {
            "verdicts": self.false / self.draws,
            "equivalent": self.equivalent / self.draws,
            "coverage": self.covered / self.draws,
            "contradictions": self.contradictions,
        }


def paired(make: Make, n: int, systems: int = 2, shift: float = 0.0, margin: float | None = None) -> Cell:
    """Systems on the same contexts, which are harder or easier for all; each later one against each earlier."""

    def cell(rng: Rng, draws: int) -> dict[str, float]:
        count = Count()
        arrangements = FEWER if systems > 4 else 10_000
        for _ in range(draws):
            scores = make(rng, (systems, n)) + make(rng, (1, n))
            scores[1:] += shift
            pairs = list(combinations(range(systems), 2))
            family = [paired_evidence(scores[b], scores[a], np.arange(n), arrangements=arrangements) for a, b in pairs]
            # The first system differs from all others, which are alike.
            count.add(family, [shift if a == 0 else 0.0 for a, _ in pairs], margin)
        return count.shares()

    return cell


def differing(make: Make, n: int, shift: float = 0.0, margin: float | None = None) -> Cell:
    """Differences of a pair that are themselves such, which need not be symmetric."""

    def cell(rng: Rng, draws: int) -> dict[str, float]:
        count = Count()
        for differences in make(rng, (draws, n)) + shift:
            count.add([paired_evidence(differences, np.zeros(n))], shift, margin)
        return count.shares()

    return cell


def in_dialogues(dialogue_count: int, shift: float = 0.0, margin: float | None = None) -> Cell:
    def cell(rng: Rng, draws: int) -> dict[str, float]:
        count = Count()
        for _ in range(draws):
            scores, clusters = dialogues(rng, dialogue_count, 2)
            count.add([paired_evidence(scores[0] + shift, scores[1], clusters)], shift, margin)
        return count.shares()

    return cell


def apart(
    make: Make, first: int, second: int, spread: float = 1.0, shift: float = 0.0, margin: float | None = None
) -> Cell:
    """Two systems on contexts of their own; `spread` widens the first."""

    def cell(rng: Rng, draws: int) -> dict[str, float]:
        count = Count()
        for _ in range(draws):
            a, b = spread * make(rng, (first,)) + shift, make(rng, (second,))
            count.add([unpaired_evidence(a, b)], shift, margin)
        return count.shares()

    return cell


def null_cells() -> dict[str, Cell]:
    sizes = {f"2 systems, {n} contexts": paired(normal, n) for n in (3, 8, 30, 200)}
    return {
        **sizes,
        "ties, 30 contexts": paired(tied, 30),
        "ties, 1,000 contexts": paired(tied, 1000),
        "two modes, 8 contexts": paired(two_modes, 8),
        "heavy tails, 30 contexts": paired(heavy, 30),
        "skew, 30 contexts": differing(skewed, 30),
        "skew, 200 contexts": differing(skewed, 200),
        "20 dialogues of 1 to 12 turns": in_dialogues(20),
        "60 dialogues of 1 to 12 turns": in_dialogues(60),
        "2 against 2,000 contexts": apart(normal, 2, 2000),
        "2 against 2,000, two modes": apart(two_modes, 2, 2000),
        "6 against 40, skew": apart(skewed, 6, 40),
        "10 against 40, three times as spread": apart(normal, 10, 40, 3.0),
        "4 systems, 30 contexts": paired(normal, 30, 4),
        "4 systems, 12 contexts, ties": paired(tied, 12, 4),
        "10 systems, 30 contexts": paired(normal, 30, 10),
        "10 systems, 12 contexts": paired(normal, 12, 10),
    }


def margin_cells() -> dict[str, Cell]:
    """The true difference is the margin, where the interval is about as wide as the room within it."""
    return {
        **{f"2 systems, {n} contexts": paired(normal, n, shift=4 / n**0.5, margin=4 / n**0.5) for n in (3, 8, 30, 200)},
        "ties, 30 contexts": paired(tied, 30, shift=0.25, margin=0.25),
        "rare drops, 30 contexts": rare_drops(30),
        "skew, 30 contexts": differing(skewed, 30, shift=0.5, margin=0.5),
        "skew the other way, 30 contexts": differing(lambda rng, shape: -skewed(rng, shape), 30, shift=0.5, margin=0.5),
        "60 dialogues of 1 to 12 turns": in_dialogues(60, shift=0.5, margin=0.5),
        "2 against 2,000 contexts": apart(normal, 2, 2000, shift=3.0, margin=3.0),
        "30 against 30 contexts": apart(normal, 30, 30, shift=0.8, margin=0.8),
        "4 systems, 30 contexts": paired(normal, 30, 4, shift=0.8, margin=0.8),
    }


def rare_drops(n: int) -> Cell:
    """One of twelve replies drops to 0 on a scale from 0 to 1; that is the margin, and often none is seen."""

    def cell(rng: Rng, draws: int) -> dict[str, float]:
        count = Count()
        for _ in range(draws):
            theirs = 0.5 + rng.random(n) / 2
            ours = theirs * (rng.random(n) >= 1 / 12)
            count.add([paired_evidence(ours, theirs, bounds=(0.0, 1.0))], -1 / 16, 1 / 16)
        return count.shares()

    return cell


# --- power -------------------------------------------------------------------------------------------------


def power_cell(n: int, shift: float, *, unpaired: bool = False) -> Cell:
    """Share of differences found, beside Student's (or Welch's) t test on the same normal data."""

    def cell(rng: Rng, draws: int) -> dict[str, float]:
        ours = theirs = found_at_detectable = 0
        for _ in range(draws):
            a, b = rng.normal(size=n) + shift, rng.normal(size=n) if unpaired else np.zeros(n)
            evidence = unpaired_evidence(a, b) if unpaired else paired_evidence(a, b)
            assert evidence is not None
            ours += evidence.p() < 0.05
            theirs += abs(evidence.value) > evidence.error * float(stdtrit(evidence.freedom, 0.975))
            found_at_detectable += evidence.detectable() or 0.0
        return {
            "power": ours / draws,
            "t": theirs / draws,
            "share": ours / theirs,
            "detectable": found_at_detectable / draws,
        }

    return cell


def power_cells() -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for n in (30, 200):
        for name, sizes in {"half": 2.0, "four fifths": 2.85, "nearly all": 3.7}.items():
            cells[f"{n} contexts, {name}"] = power_cell(n, sizes / n**0.5)
            cells[f"{n} against {n}, {name}"] = power_cell(n, sizes * (2 / n) ** 0.5, unpaired=True)
    return cells


# --- intervals of single means and shares ------------------------------------------------------------------


def mean_cell(make: Make, n: int, truth: float = 0.0, bounds: tuple[float, float] | None = None) -> Cell:
    def cell(rng: Rng, draws: int) -> dict[str, float]:
        covered = printed = 0
        width = 0.0
        for values in make(rng, (draws, n)):
            evidence = mean_evidence(values, None, bounds)
            interval = evidence.interval() if evidence else None
            if interval is not None:
                printed += 1
                covered += interval.low <= truth <= interval.high
                width += interval.high - interval.low
        return {"coverage": covered / printed, "width": width / printed, "printed": printed / draws}

    return cell


def clustered_mean(count: int) -> Cell:
    def cell(rng: Rng, draws: int) -> dict[str, float]:
        covered = 0
        for _ in range(draws):
            scores, clusters = dialogues(rng, count, 1)
            evidence = mean_evidence(scores[0], clusters)
            interval = evidence.interval() if evidence else None
            covered += interval is not None and interval.low <= 0 <= interval.high
        return {"coverage": covered / draws}

    return cell


def share_cell(share: float, n: int, per_dialogue: int = 1) -> Cell:
    """Failure rates; in dialogues a third of the failures come together."""

    def cell(rng: Rng, draws: int) -> dict[str, float]:
        covered = 0
        clusters = np.repeat(np.arange(n), per_dialogue)
        for _ in range(draws):
            each = rng.beta(share * 2, (1 - share) * 2, size=n)[clusters] if per_dialogue > 1 else share
            found = rate(rng.random(n * per_dialogue) < each, clusters)
            covered += found is not None and found.low <= share <= found.high
        return {"coverage": covered / draws}

    return cell


def mean_cells() -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for n in (2, 3, 5, 8, 30, 200):
        cells[f"normal, {n} contexts"] = mean_cell(normal, n)
        cells[f"difference of a pair, {n} contexts"] = _difference_coverage(n)
    for n in (2, 5, 30):
        cells[f"nine of ten are 1, else 0, {n} contexts"] = mean_cell(
            lambda rng, shape: (rng.random(shape) < 0.9).astype(np.float64), n, 0.9, (0.0, 1.0)
        )
    for n in (8, 30, 200):
        cells[f"skew, {n} contexts"] = mean_cell(skewed, n)
    for n in (3, 30):
        cells[f"flat, {n} contexts"] = mean_cell(flat, n)
    cells["20 dialogues of 1 to 12 turns"] = clustered_mean(20)
    cells["60 dialogues of 1 to 12 turns"] = clustered_mean(60)
    for share, n in ((0.03, 36), (0.2, 12), (0.1, 200)):
        cells[f"share {share:g} of {n} rows"] = share_cell(share, n)
    cells["share 0.1 of 40 dialogues of 6 turns"] = share_cell(0.1, 40, 6)
    return cells


def _difference_coverage(n: int) -> Cell:
    inner = paired(normal, n)
    return lambda rng, draws: {"coverage": inner(rng, draws)["coverage"]}


# --- tails -------------------------------------------------------------------------------------------------


def tail_cell(clear: float, n: int, share: float, per_dialogue: int = 1, broken: float = 0.0) -> Cell:
    """Two samples of one system, of which so many differ clearly; `broken` replies of the first are lost."""

    def cell(rng: Rng, draws: int) -> dict[str, float]:
        failed = 0
        clusters = np.repeat(np.arange(n), per_dialogue)
        for _ in range(draws):
            moved = (rng.random(len(clusters)) < clear) * rng.choice([-1.0, 1.0], size=len(clusters))
            if per_dialogue > 1:
                moved = np.abs(moved) * rng.choice([-1.0, 1.0], size=n)[clusters]
            moved[rng.random(len(clusters)) < broken] = -1.0
            found = tail(moved, np.zeros(len(clusters)), 0.5, clusters)
            failed += found is not None and found.fails(share)
        return {"fails": failed / draws}

    return cell


def tail_cells() -> dict[str, Cell]:
    cells = {
        f"{clear:.0%} differ clearly, {n} contexts, at {share:.0%}": tail_cell(clear, n, share)
        for clear in (0.02, 0.1, 0.3)
        for n in (36, 200)
        for share in (0.0, 0.02)
    }
    cells["30% differ clearly, 30 dialogues of 5 turns, at 2%"] = tail_cell(0.3, 30, 0.02, 5)
    cells["found: one of nine broken, 36 contexts, at 5%"] = tail_cell(0.02, 36, 0.05, broken=1 / 9)
    return cells


# --- anchored to people ------------------------------------------------------------------------------------


def anchored_cell(
    labelled: int,
    quality: float,
    rows: int = 400,
    *,
    shape: str = "normal",
    target: str = "population",
    per_context: int = 1,
    strata: bool = False,
    fitted: bool = False,
    difference: bool = False,
) -> Cell:
    """Ratings of some contexts and scores of all; `quality` is the correlation of the two."""

    def one(rng: Rng) -> tuple[Array, Array, NDArray[np.intp]]:
        clusters = np.repeat(np.arange(rows), per_context)
        size = len(clusters)
        hidden = rng.normal(size=size)
        if per_context > 1:
            hidden = (hidden + rng.normal(size=rows)[clusters]) / 2**0.5
        noise = rng.normal(size=size)
        scores = quality * hidden + (1 - quality**2) ** 0.5 * noise
        if shape == "skew":
            scores = np.exp(scores)
        if shape == "bent":
            scores = np.abs(hidden) * quality + noise * (1 - quality)
        ratings = hidden
        if shape == "ratings":
            ratings = np.clip(np.round(3 + 1.2 * hidden), 1, 5)
        return scores, ratings, clusters

    def cell(rng: Rng, draws: int) -> dict[str, float]:
        covered = alone = 0
        width = plain = worth = 0.0
        for _ in range(draws):
            scores, ratings, clusters = one(rng)
            goal = (3.0 if shape == "ratings" else 0.0) if target == "population" else float(ratings.mean())
            weights = None
            if strata:
                sampled = sample_rows(scores, labelled, seed=int(rng.integers(2**31)))
                weights = np.ones(len(scores))
                weights[sampled.rows] = sampled.weights
                rated = np.zeros(len(scores), dtype=np.bool_)
                rated[sampled.rows] = True
            else:
                rated = np.isin(clusters, rng.permutation(rows)[:labelled])
            seen = np.where(rated, ratings, np.nan)
            if fitted:
                # Ten columns of which one is of use, fitted to the very labels.
                table = np.column_stack([scores, rng.normal(size=(len(scores), 9)), np.ones(len(scores))])
                scores = cross_fitted(lambda on, t=table, s=seen: t @ np.linalg.lstsq(t[on], s[on])[0], seen, clusters)
            if difference:
                other_scores, other, _ = one(rng)
                goal = 0.0 if target == "population" else goal - float(other.mean())
                sides = (scores, seen), (other_scores, np.where(rated, other, np.nan))
                found = anchored_difference(*sides, (clusters, clusters), target=target)  # type: ignore[arg-type]
            else:
                found = anchored_mean(scores, seen, clusters, weights, target)  # type: ignore[arg-type]
            assert found is not None
            covered += found.low <= goal <= found.high
            alone += found.labels_only.low <= goal <= found.labels_only.high
            width += found.high - found.low
            plain += found.labels_only.high - found.labels_only.low
            worth += found.worth
        return {
            "coverage": covered / draws,
            "width": width / plain,
            "worth": worth / draws,
            "labels alone": alone / draws,
        }

    return cell


def anchored_cells() -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for labelled in (50, 200):
        for name, quality in {"useless": 0.0, "weak": 0.3, "good": 0.7, "perfect": 1.0}.items():
            cells[f"{labelled} of 400 rated, {name}"] = anchored_cell(labelled, quality)
    cells["100 of 4,000 rated, good"] = anchored_cell(100, 0.7, 4000)
    cells["50 of 400 rated on 1 to 5, good"] = anchored_cell(50, 0.7, shape="ratings")
    cells["50 of 400 rated, skewed scores"] = anchored_cell(50, 0.7, shape="skew")
    cells["50 of 400 rated, bent scores"] = anchored_cell(50, 0.9, shape="bent")
    cells["50 of 400 contexts rated, 3 rows each"] = anchored_cell(50, 0.7, per_context=3)
    cells["50 of 400 rated, picked by strata"] = anchored_cell(50, 0.7, strata=True)
    cells["50 of 400 rated, fitted to the same labels"] = anchored_cell(50, 0.7, fitted=True)
    cells["50 of 400 rated, difference of two"] = anchored_cell(50, 0.7, difference=True)
    for name, quality in {"useless": 0.0, "good": 0.7}.items():
        cells[f"these rows: 50 of 400 rated, {name}"] = anchored_cell(50, quality, target="rows")
    cells["these rows: 50 of 400, picked by strata"] = anchored_cell(50, 0.7, target="rows", strata=True)
    return cells


def corpus_cells(folder: Path) -> dict[str, Cell]:
    """Ratings of a corpus, of which 50 rows are kept, with the scores of a metric for all."""
    cells: dict[str, Cell] = {}
    for path in sorted(folder.glob("*.json")):
        rows = json.loads(path.read_text())
        table = np.array([row[:2] for row in rows["rows"]], dtype=np.float64)
        contexts = np.array([row[2] for row in rows["rows"]])
        cells[path.stem] = _corpus_cell(table, contexts)
    return cells


def _corpus_cell(table: Array, contexts: NDArray[Any]) -> Cell:
    _, codes = np.unique(contexts, return_inverse=True)
    count = int(codes.max()) + 1
    members = [np.flatnonzero(codes == one) for one in range(count)]

    def cell(rng: Rng, draws: int) -> dict[str, float]:
        goal = float(table[:, 1].mean())
        result: dict[str, float] = {"rows": len(table), "correlation": float(np.corrcoef(table.T)[0, 1])}
        for target in ("rows", "population"):
            covered, width, plain, worth, used = 0, 0.0, 0.0, 0.0, 0
            for _ in range(draws):
                here, clusters = np.arange(len(table)), codes
                if target == "population":
                    # Contexts are drawn anew, so this corpus is the population.
                    drawn = rng.integers(0, count, size=count)
                    here = np.concatenate([members[one] for one in drawn])
                    clusters = np.repeat(np.arange(count), [len(members[one]) for one in drawn])
                rated = rng.choice(len(here), size=LABELLED, replace=False)
                seen = np.full(len(here), np.nan)
                seen[rated] = table[here[rated], 1]
                found = anchored_mean(table[here, 0], seen, clusters, None, target)  # type: ignore[arg-type]
                if found is None:
                    continue
                used += 1
                covered += found.low <= goal <= found.high
                width += found.high - found.low
                plain += found.labels_only.high - found.labels_only.low
                worth += found.worth
            result |= {f"{target}: coverage": covered / used, f"{target}: width": width / plain}
            result |= {f"{target}: worth": worth / used, f"{target}: used": used / draws}
        return result

    return cell


# --- the run -----------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[], dict[str, Cell]]] = {
    "null": null_cells,
    "margin": margin_cells,
    "power": power_cells,
    "intervals": mean_cells,
    "tails": tail_cells,
    "anchored": anchored_cells,
}
WORDS = {
    "null": "Nothing differs. *verdicts*: draws in which any pair is called better or worse (bar 5.5 %). *coverage*: "
    "draws in which all printed intervals hold the truth (bar 94 %). *contradictions*: intervals that exclude zero "
    "where p is not below .05, or the reverse (bar 0).",
    "margin": "The true difference is as large as the margin, so `equivalent` is false (bar 5.5 %).",
    "power": "Normal data with a true difference. *share*: found by this test over found by the t test (bar 95 %).",
    "intervals": "Printed 95 % intervals of single means, differences and shares (bar 94 %). *printed*: where "
    "nothing varies and no bounds are known, no interval is printed.",
    "tails": "Two samples of one system; *fails*: the gate on clearly worse replies fails (bar 5 %), but for the last "
    "line, where failing is right.",
    "anchored": "Intervals of the mean rating of all rows from ratings of some (bar 93 to 97 %). *width*: mean width "
    "over that of the ratings alone (bar 105 %). *worth*: ratings that would give the same error without the metric.",
    "corpora": f"Rated corpora of which {LABELLED} rows keep their rating, with `usl-h` as the metric (bar 93 %). "
    "*rows*: the target is the mean rating of the corpus itself. *population*: contexts are drawn from it anew.",
}
BARS: dict[str, Callable[[dict[str, float]], bool]] = {
    "null": lambda x: x["verdicts"] <= 0.055 and x["coverage"] >= 0.94 and not x["contradictions"],
    "margin": lambda x: x["equivalent"] <= 0.055,
    "power": lambda x: x["share"] >= 0.95,
    "intervals": lambda x: x["coverage"] >= 0.94,
    "tails": lambda x: x["fails"] <= 0.05,
    "anchored": lambda x: 0.93 <= x["coverage"] <= 1 and x["width"] <= 1.05,
    "corpora": lambda x: min(x["rows: coverage"], x["population: coverage"]) >= 0.93,
}


def cells_of(corpora: Path | None) -> Iterator[tuple[str, str, Cell]]:
    """Every cell, with its part and its name."""
    for part, make in PARTS.items():
        for name, cell in make().items():
            yield part, name, cell
    if corpora is not None:
        for name, cell in corpus_cells(corpora).items():
            yield "corpora", name, cell


def page(found: dict[str, Any]) -> str:
    """The tables, a part each."""
    lines = ["# How often decisions are wrong", "", "`python -m benchmarks.decisions` made this page. Every line is a"]
    lines[-1] += " simulation whose truth is known; *draws* says of how many data sets."
    for part, cells in found.items():
        names = list(dict.fromkeys(key for cell in cells.values() for key in cell if key not in ("draws", "seconds")))
        lines += ["", f"## {part.capitalize()}", "", WORDS[part], ""]
        lines += ["| | " + " | ".join([*names, "draws", "met"]) + " |", "|" + " --- |" * (len(names) + 3)]
        for name, cell in cells.items():
            met = "yes" if BARS[part](cell) or name.startswith("found") else "**no**"
            values = [_shown(key, cell[key]) if key in cell else "" for key in names]
            lines.append("| " + " | ".join([name, *values, f"{cell['draws']:,}", met]) + " |")
    return "\n".join(lines) + "\n"


def _shown(key: str, value: float) -> str:
    if key in ("contradictions",) or "worth" in key or key == "rows":
        return f"{value:,.0f}"
    if key in ("correlation", "detectable") or (key == "width" and value > 2):
        return f"{value:.2f}"
    return f"{value:.1%}"


def run(out: Path, draws: int, only: str = "", corpora: Path | None = None) -> dict[str, Any]:
    """Run the cells that are not yet in the file with at least so many draws."""
    file = out / "decisions.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    for place, (part, name, cell) in enumerate(cells_of(corpora)):
        wanted = min(draws, CORPUS_DRAWS) if part == "corpora" else draws
        if only not in f"{part}: {name}" or found.get(part, {}).get(name, {}).get("draws", 0) >= wanted:
            continue
        shares = cell(np.random.default_rng([7, place]), wanted)
        rounded = {key: round(value, 4) for key, value in shares.items()}
        found.setdefault(part, {})[name] = {**rounded, "draws": wanted}
        out.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found, indent=1) + "\n")
        sys.stderr.write(f"{part}: {name}: {rounded}\n")
    return found


def main(arguments: Iterable[str] | None = None) -> int:
    """Run, and write the page."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.decisions", description=__doc__.partition("\n")[0])
    options.add_argument("--draws", type=int, default=DRAWS)
    options.add_argument("--out", type=Path, default=Path("docs/results"))
    options.add_argument("--only", default="")
    options.add_argument("--corpora", type=Path)
    options.add_argument("--page", action="store_true")
    asked = options.parse_args(None if arguments is None else list(arguments))
    file = asked.out / "decisions.json"
    found = json.loads(file.read_text()) if asked.page else run(asked.out, asked.draws, asked.only, asked.corpora)
    (asked.out / "decisions.md").write_text(page(found))
    missed = [f"{part}: {name}" for part in found for name in found[part] if not BARS[part](found[part][name])]
    for line in missed:
        if "found:" not in line:
            sys.stderr.write(f"missed: {line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
