"""USR (Mehri and Eskenazi 2020): how its three sub-metrics become one score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Part = Literal["mlm", "dr_c", "dr_f"]


@dataclass(frozen=True, slots=True)
class Term:
    """One quality of the regression: the sub-metric that stands for it, standardised, and its weight."""

    quality: str
    part: Part
    weight: float
    mean: float
    std: float


@dataclass(frozen=True, slots=True)
class Regression:
    """A linear model of overall quality on standardised sub-metrics."""

    intercept: float
    terms: tuple[Term, ...]

    def slopes(self) -> dict[Part, float]:
        """What one unit of each raw sub-metric adds to the score."""
        slopes: dict[Part, float] = {}
        for term in self.terms:
            slopes[term.part] = slopes.get(term.part, 0.0) + term.weight / term.std
        return slopes

    def standardised_on(self, scores: Mapping[Part, ArrayLike]) -> Regression:
        """The same weights on z-scores of other data: means and population deviations of these scores.

        A sub-metric that does not vary is only centred, so that it adds nothing.
        """
        columns = {part: np.asarray(values, dtype=np.float64) for part, values in scores.items()}
        mean = {part: float(column.mean()) for part, column in columns.items()}
        std = {part: float(column.std()) or 1.0 for part, column in columns.items()}
        terms = (replace(term, mean=mean[term.part], std=std[term.part]) for term in self.terms)
        return replace(self, terms=tuple(terms))


_MLM = (-1.012293440649907, 0.39053753419230813)
_DR_C = (0.8604811806918587, 0.30259338627812254)
_DR_F = (0.8472124995904354, 0.27987823011851076)

# The authors' own numbers: weights of their fitted model, means and deviations of their 300 Topical-Chat scores.
PUBLISHED = Regression(
    intercept=3.597475447630256,
    terms=(
        Term("Understandable", "mlm", 0.6601100065238369, *_MLM),
        Term("Natural", "mlm", 0.4035348605308456, *_MLM),
        Term("Maintains Context", "dr_c", 0.5132785702080678, *_DR_C),
        Term("Interesting", "dr_c", 0.9605336086924106, *_DR_C),
        Term("Uses Knowledge", "dr_f", 0.35642553823787765, *_DR_F),
    ),
)


def usr_score(
    mlm: ArrayLike, dr_c: ArrayLike, dr_f: ArrayLike, regression: Regression = PUBLISHED
) -> NDArray[np.float64]:
    """USR of one response or of many: unbounded, higher is better.

    >>> usr_score(-1, 1, 1).round(6).item()
    4.505073
    """
    parts: dict[Part, NDArray[np.float64]] = {
        "mlm": np.asarray(mlm, dtype=np.float64),
        "dr_c": np.asarray(dr_c, dtype=np.float64),
        "dr_f": np.asarray(dr_f, dtype=np.float64),
    }
    total = np.full(np.broadcast_shapes(*(values.shape for values in parts.values())), regression.intercept)
    for term in regression.terms:
        total = total + term.weight * (parts[term.part] - term.mean) / term.std
    return total
