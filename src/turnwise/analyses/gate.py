"""Conditions for a release, each checked on the same decisions that the comparison shows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from turnwise.errors import TurnwiseError
from turnwise.metrics.composite import CompositeMetric
from turnwise.metrics.registry import load_metric
from turnwise.problems import counted

if TYPE_CHECKING:
    from turnwise.analyses.compare import CompareRow, Comparison

# With fewer contexts or dialogues than this even one-sided differences cannot reach p < .05 by flipping signs.
FEWEST = 6
# Nothing is said about a system when more than this share of its rows has no score.
UNSCORED = 0.1
# Broken replies that a line names.
MOST_NAMED = 5
Kind = Literal["fail_if_worse", "fail_unless_as_good", "fail_if_worst", "fail_if_failures"]
LIMITS = {"fail_if_worse": "MARGIN", "fail_unless_as_good": "MARGIN", "fail_if_worst": "SHARE"}


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition on every system but the baseline.

    `fail_if_worse`: surely worse by more than the margin. `fail_unless_as_good`: not shown to be worse by less than
    the margin. `fail_if_worst`: more than this share of replies is clearly worse, beyond chance. `fail_if_failures`:
    more than this share of replies is missing. `composed` is the metric itself if it is read from a configuration.
    """

    kind: Kind
    metric: str
    limit: float
    composed: CompositeMetric | None = None

    @classmethod
    def parse(cls, kind: Kind, text: str, composite: CompositeMetric | None = None) -> Gate:
        """Return the gate of a text such as `f1@0.02`; its metric may be the composite by name."""
        metric, at, limit = text.rpartition("@")
        composed = composite if composite is not None and composite.name == metric else None
        try:
            if not at or not 0 <= float(limit) < math.inf:
                raise ValueError
        except ValueError:
            form = f"METRIC@{LIMITS[kind]}"
            raise TurnwiseError(f"`{kind}`: expected {form}, got '{text}'. Fix: write for example f1@0.02.") from None
        gate = cls(kind, metric, float(limit), composed)
        gate.check_direction()
        return gate

    @property
    def margin(self) -> float:
        """Return the margin of equivalence that it gives its metric; 0 if it gives none."""
        return self.limit if self.kind in ("fail_if_worse", "fail_unless_as_good") else 0.0

    def check_direction(self) -> bool:
        """Return whether higher is better; a metric without a better end cannot be a gate."""
        higher_is_better = (self.composed or load_metric(self.metric)).higher_is_better
        if higher_is_better is None:
            raise TurnwiseError(f"`{self.kind}`: {self.metric} has no better or worse; gate on another metric")
        return higher_is_better

    def failures(self, comparison: Comparison) -> list[str]:
        """Return one line per system that fails. What could not be measured must not pass: it raises."""
        if self.kind == "fail_if_failures":
            return list(self._silent(comparison))
        rows = [row for row in comparison.rows if row.metric == self.metric]
        return [line for row in rows if (line := self._failure(row, comparison)) is not None]

    def _failure(self, row: CompareRow, comparison: Comparison) -> str | None:
        self._check_measured(row, comparison)
        if self.kind == "fail_if_worst":
            return self._worst(row)
        if row.low is None or row.high is None:
            return None
        sign = 1.0 if self.check_direction() else -1.0
        worst, best = sorted((sign * row.low, sign * row.high))
        found = (
            f"difference {row.difference:+.4f}, 95 % interval [{row.low:+.4f}, {row.high:+.4f}], margin {self.limit:g}"
        )
        if self.kind == "fail_if_worse" and best < -self.limit:
            return f"{row.system} is worse than {row.baseline} on {self.metric}: {found}"
        if self.kind == "fail_unless_as_good" and worst <= -self.limit and not row.low == row.high == 0:
            return f"{row.system} is not shown to be as good as {row.baseline} on {self.metric}: {found}"
        return None

    def _worst(self, row: CompareRow) -> str | None:
        if row.tail is None:
            raise TurnwiseError(
                f"`fail_if_worst`: {self.metric} of {row.system} and {row.baseline} cannot be compared reply by reply. "
                "Fix: give both the same contexts, and gate on a metric of single replies whose clear drop is known."
            )
        if not row.tail.fails(self.limit):
            return None
        named = ", ".join(row.dropped[:MOST_NAMED]) + (", ..." if len(row.dropped) > MOST_NAMED else "")
        return (
            f"{row.tail.clearly_worse} of {row.tail.n} replies of {row.system} are clearly worse than those of "
            f"{row.baseline} on {self.metric} ({row.tail.share_worse:.0%}, p {row.tail.p:.3f}, allowed {self.limit:g})"
            f": {named}"
        )

    def slack(self, comparison: Comparison) -> Iterator[tuple[float, str]]:
        """Yield how far each system is from failing, as a share of the limit's scale, and that in words."""
        sign = 1.0 if self.kind == "fail_if_failures" or self.check_direction() else -1.0
        for row in comparison.rows:
            if row.metric != self.metric or row.low is None or row.high is None:
                continue
            worst, best = sorted((sign * row.low, sign * row.high))
            scale = max(best - worst, 1e-12)
            if self.kind in ("fail_if_worse", "fail_unless_as_good"):
                end = best if self.kind == "fail_if_worse" else worst
                yield (end + self.limit) / scale, f"{row.system} on {row.metric}, {end + self.limit:.3g} from failing"
            elif row.tail is not None:
                left = self.limit - row.tail.share_worse
                yield abs(left), f"{row.system}, {row.tail.share_worse:.1%} clearly worse on {row.metric}"
        if self.kind == "fail_if_failures":
            for system, failed in comparison.failed.items():
                yield self.limit - failed.rate.value, f"{system}, {failed.rate.value:.1%} without a reply"

    def _silent(self, comparison: Comparison) -> Iterator[str]:
        baselines = {row.baseline for row in comparison.rows}
        for system, failed in comparison.failed.items():
            if system not in baselines and failed.rate.value > self.limit:
                named = ", ".join(failed.ids[:MOST_NAMED]) + (", ..." if len(failed.ids) > MOST_NAMED else "")
                yield (
                    f"{system} gave no reply to {failed.rate.count} of {failed.rate.n} ({failed.rate.value:.0%}, 95 % "
                    f"interval {failed.rate.low:.0%} to {failed.rate.high:.0%}, allowed {self.limit:g}): {named}"
                )

    def _check_measured(self, row: CompareRow, comparison: Comparison) -> None:
        found = None
        for system in (row.system, row.baseline):
            share = comparison.unscored.get((system, self.metric), 0.0)
            if share > UNSCORED or (row.low is None and share):
                found = f"{share:.0%} of the rows of {system} have no score"
        matched = comparison.matches[row.system, row.baseline]
        gap = matched.unanswered
        # What a paired system left out counts as its worst, unless it is skipped.
        counted_in = matched.unit == "context" and comparison.missing == "worst"
        if found is None and gap is not None and gap.missing > UNSCORED * gap.of and not counted_in:
            found = f"{row.system} left {gap.missing} of the {gap.of} answers of {row.baseline} unanswered"
        elif found is None and (row.low is None or matched.independent < FEWEST):
            found = f"{counted(matched.independent, matched.drawn)} in all, give at least {FEWEST}"
        if found is not None:
            raise TurnwiseError(f"the gate on {self.metric} cannot be checked: {found}; mend the input")


def gates_of(given: dict[Kind, Sequence[str]], share: float | None, config: CompositeMetric | None) -> list[Gate]:
    """Return the gates of texts by kind, and of the share of failures that is allowed."""
    gates = [Gate.parse(kind, text, config) for kind, texts in given.items() for text in texts]
    if share is not None:
        if not 0 <= share <= 1:
            raise TurnwiseError(f"`fail_if_failures`: expected a share from 0 to 1, got {share:g}")
        gates.append(Gate("fail_if_failures", "", share))
    return gates
