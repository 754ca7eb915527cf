"""The figures of USL-H's page: what raters weigh, groups of responses, and one sub-metric replaced by people."""

from __future__ import annotations

from typing import Any

import numpy as np

from turnwise.dialogue import mean_rating
from turnwise.engine.local import Judged
from turnwise.errors import TurnwiseError
from turnwise.metrics.uslh import compose
from turnwise.reproduce.aspects import ASPECTS, CORPORA, OVERALL, mapped, mapped_examples
from turnwise.reproduce.room import Room
from turnwise.stats.correlation import pearson
from turnwise.stats.regression import regress_by_rater

# The paper's dialogues have no facts that a response could be about.
CONTEXT_ALONE = "sensible=nup"
HIERARCHY, AVERAGE = f"usl-h[{CONTEXT_ALONE}]", f"usl-a[{CONTEXT_ALONE}]"


def rater_bars(room: Room) -> list[dict[str, Any]]:
    """Fig. 2: what each rater weighs."""
    rows = []
    for corpus in CORPORA:
        examples = mapped_examples(room, corpus)
        slots = max(len(one.ratings[OVERALL]) for one in examples)
        table = np.full((len(examples), slots, 4), np.nan)
        raters = np.full((len(examples), slots), None, dtype=object)
        for place, one in enumerate(examples):
            names = one.raters or tuple(f"slot {slot + 1}" for slot in range(slots))
            raters[place, : len(names)] = names
            for column, quality in enumerate((*ASPECTS, OVERALL)):
                given = [np.nan if rating is None else rating for rating in one.ratings[quality]]
                table[place, : len(given), column] = given
        for rater, fit in regress_by_rater(table[:, :, :3], table[:, :, 3], raters).items():
            shares = zip(ASPECTS, fit.shares, strict=True) if fit else ()
            rows += [{"panel": corpus, "x": quality, "y": share, "group": rater} for quality, share in shares]
    return rows


def group_bars(room: Room) -> list[dict[str, Any]]:
    """Fig. 3: scores of responses that people find understandable, sensible and specific, or not."""
    rows = []
    names = {HIERARCHY: "USL-H", AVERAGE: "USL-A", "nup": "nup"}
    there = {request: name for request, name in names.items() if not room.lacking(request)}
    if not there:
        raise TurnwiseError(room.lacking(HIERARCHY))
    for corpus in CORPORA:
        groups: dict[str, list[Judged]] = {}
        for item in room.scored(mapped(room, corpus), list(there)).judged:
            if item.row.example:
                given = [mean_rating(item.row.example.ratings.get(name, ())) for name in ASPECTS]
                if None not in given:
                    group = ",".join("1" if value >= 0.5 else "0" for value in given if value is not None)
                    groups.setdefault(f"({group})", []).append(item)
        for group, items in sorted(groups.items()):
            for request, name in there.items():
                scores = [value for item in items if (value := item.scores[request].value) is not None]
                if scores:
                    rows.append({"panel": corpus, "x": group, "y": float(np.mean(scores)), "group": name})
    return rows


def swap_bars(room: Room) -> list[dict[str, Any]]:
    """Fig. 4: what would be won if one sub-metric were as good as people."""
    if why := room.lacking(HIERARCHY):
        raise TurnwiseError(why)
    rows = []
    for corpus in CORPORA:
        triples, people, overall = [], [], []
        for item in room.scored(mapped(room, corpus), [HIERARCHY]).judged:
            example, parts = item.row.example, item.scores[HIERARCHY].parts if item.row.example else {}
            given = [mean_rating(example.ratings.get(name, ())) for name in (*ASPECTS, OVERALL)] if example else [None]
            if None not in given and "likability" in parts:
                triples.append([parts["vup"], parts["nup"], parts["likability"]])
                people.append(given[:3])
                overall.append(given[3])
        scores, ideal = np.array(triples, dtype=np.float64), np.array(people, dtype=np.float64)
        kinds: dict[str, tuple[int, ...]] = {one: (i,) for i, one in enumerate(ASPECTS)}
        for name, swapped in {"none": (), **kinds, "all": (0, 1, 2)}.items():
            table = scores.copy()
            table[:, list(swapped)] = ideal[:, list(swapped)]
            found = pearson(compose(*table.T), np.array(overall, dtype=np.float64)).value
            rows.append({"x": name, "y": found, "group": corpus})
    return rows
