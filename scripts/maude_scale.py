"""The scale of a model's scores, settled on dialogues of train/: how steep it is, and where its middle lies.

A delta depends on how sure of itself a model is, and that on how many negatives it met beside each true response and
how much each counted. To be compared, every model of MAUDE's tables is given the scale on which its deltas are largest
in sum over dialogues that it did not learn from; who scores above whom does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.floating]
# Steeper still, deltas grow by little more, and what is left of a score is a yes or a no.
STEEPNESS = (1.0, 2.0, 3.0, 4.0, 5.0)
MIDDLES = 99
SMALLEST = 1e-7


@dataclass(frozen=True)
class Scale:
    """Log-odds of a score, moved and stretched, as a score again."""

    steepness: float = 1.0
    middle: float = 0.0

    def __call__(self, scores: Values) -> Values:
        """The scores on this scale.

        >>> Scale(2.0, 0.0)(np.array([0.5, 0.75])).round(6).tolist()
        [0.5, 0.9]
        """
        moved: Values = 1 / (1 + np.exp(-self.steepness * (log_odds(scores) - self.middle)))
        return moved


def log_odds(scores: Values) -> Values:
    """Log-odds, of certainty too."""
    kept = np.clip(np.asarray(scores, dtype=np.float64), SMALLEST, 1 - SMALLEST)
    odds: Values = np.log(kept / (1 - kept))
    return odds


def summed(scale: Scale, pairs: Sequence[tuple[Values, Values]]) -> float:
    """The deltas of some true and other responses on a scale, added up."""
    return float(sum(scale(true).mean() - scale(other).mean() for true, other in pairs))


def settled(pairs: Sequence[tuple[Values, Values]]) -> Scale:
    """The scale on which deltas are largest in sum; of equals the one nearest to how the model was trained."""
    met = log_odds(np.concatenate([scores for pair in pairs for scores in pair]))
    middles = [0.0, *np.quantile(met, np.linspace(0, 1, MIDDLES + 2)[1:-1]).tolist()]
    scales = [Scale(steepness, middle) for steepness in STEEPNESS for middle in middles]
    return max(scales, key=lambda scale: round(summed(scale, pairs), 6))
