"""The gate on a release: a comparison either passes it, fails it, or cannot be held against it."""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.analyses.compare import FEWEST, CompareRow, Comparison
from turnwise.errors import TurnwiseError
from turnwise.metrics.composite import CompositeMetric
from turnwise.metrics.registry import load_metric
from turnwise.wording import counted

# Nothing is said about a system when more than this share of its rows has no score, or of its contexts no answer.
UNSCORED = 0.1


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition for a release: no system may be worse than the baseline by more than a margin.

    `composed` is the metric itself, where it is not known by its name but read from a configuration.
    """

    metric: str
    margin: float
    composed: CompositeMetric | None = None

    def check_direction(self) -> bool:
        """Whether higher is better; a metric without a better end cannot be a gate."""
        higher_is_better = (self.composed or load_metric(self.metric)).higher_is_better
        if higher_is_better is None:
            raise TurnwiseError(f"--fail-if-worse: {self.metric} has no better or worse; gate on another metric")
        return higher_is_better

    def failures(self, comparison: Comparison) -> list[str]:
        """One line per system whose whole interval lies beyond the margin on the worse side.

        What could not be measured must not pass: it raises.
        """
        sign = 1.0 if self.check_direction() else -1.0
        failed = []
        for row in comparison.rows:
            if row.metric != self.metric:
                continue
            self._check_measured(row, comparison)
            if row.low is None or row.high is None:
                continue
            best_case = max(sign * row.low, sign * row.high)
            if best_case < -self.margin:
                failed.append(
                    f"{row.system} is worse than {row.baseline} on {self.metric}: difference "
                    f"{row.difference:+.4f}, 95 % interval [{row.low:+.4f}, {row.high:+.4f}], margin {self.margin:g}"
                )
        return failed

    def _check_measured(self, row: CompareRow, comparison: Comparison) -> None:
        found = None
        for system in (row.system, row.baseline):
            share = comparison.unscored.get((system, self.metric), 0.0)
            if share > UNSCORED or (row.low is None and share):
                found = f"{share:.0%} of the rows of {system} have no score"
        matched = comparison.matches[row.system, row.baseline]
        gap = matched.unanswered
        if found is None and gap is not None and gap.missing > UNSCORED * gap.of:
            found = f"{row.system} left {gap.missing} of the {gap.of} answers of {row.baseline} unanswered"
        elif found is None and (row.low is None or matched.independent < FEWEST):
            found = f"{counted(matched.independent, matched.drawn)} in all, give at least {FEWEST}"
        if found is not None:
            raise TurnwiseError(f"the gate on {self.metric} cannot be checked: {found}; mend the input")
