"""`normality`: how far the vectors that a distance is computed from are from normal, which it takes for granted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from turnwise.analyses.evaluate import Problems
from turnwise.analyses.table import Rows
from turnwise.errors import TurnwiseError
from turnwise.metrics.distributions import Distance
from turnwise.metrics.registry import load_metric
from turnwise.models.requests import Request
from turnwise.options import Run, RunOptions
from turnwise.stats.frechet import FEWEST, shapiro_wilk

REFERENCES = "references"


@dataclass(frozen=True, slots=True)
class NormalityRow:
    """Shapiro and Wilk's W and its p over the dimensions of one set of vectors, each with its own mean."""

    set: str
    n: int
    dimensions: int
    w_mean: float
    w_deviation: float
    p_mean: float
    p_deviation: float
    rejected: float


@dataclass(repr=False)
class NormalityReport(Rows[NormalityRow]):
    """The references first, then every system."""


def normality(
    source: object,
    metric: str = "fbd",
    **options: Unpack[RunOptions],
) -> NormalityReport:
    """Test every dimension of the vectors of references and of each system's responses for normality."""
    run = Run.of(**options)
    distance = load_metric(metric)
    if not isinstance(distance, Distance):
        raise TurnwiseError(f"{metric} compares no distributions; test the vectors of fbd or prd")
    problems = Problems(strict=run.reading.strict)
    real: dict[str, Counter[Request]] = {}
    said: dict[str, Counter[Request]] = {}
    for row in run.reading.rows(source):
        problems.see_row(row)
        if row.example is None or distance.unmet_need(row.example) is not None:
            continue
        response, *references = distance.requests(row.example)
        said.setdefault(row.example.system, Counter())[response] += 1
        real.setdefault(row.example.system, Counter()).update(references)
    # Pairs are tested as often as they occur; but a reference is no more of them for being given with every system.
    sets = {REFERENCES: reduce(or_, real.values(), Counter[Request]()), **said}
    if not sets[REFERENCES]:
        raise TurnwiseError(f"no row has both a context and references; there is nothing to test{problems.first()}")
    with run.backend.session() as session:
        answers = session.answer({request: None for requests in sets.values() for request in requests})
    small = [name for name, requests in sets.items() if len(requests) < FEWEST]
    notes = [f"left out, for fewer than {FEWEST} different vectors: {', '.join(small)}"] if small else []
    rows = [
        _row(name, [np.asarray(answers[request]) for request in requests.elements()])
        for name, requests in sets.items()
        if name not in small
    ]
    return NormalityReport(rows, notes, problems.all())


def _row(name: str, vectors: Iterable[NDArray[np.float32]]) -> NormalityRow:
    found = shapiro_wilk(np.stack(list(vectors)))
    w, p = found.w, found.p
    spread = (float(w.mean()), float(w.std()), float(p.mean()), float(p.std()))
    return NormalityRow(name, found.n, len(w), *spread, found.rejected)
