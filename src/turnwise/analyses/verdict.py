"""The verdict: the short block that ends a run, in the same words in the terminal, JSON, Markdown and the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from turnwise.analyses.ratings import RatedTurns
from turnwise.engine.score import Judged
from turnwise.errors import TurnwiseError
from turnwise.metrics.base import Metric
from turnwise.problems import counted
from turnwise.stats.correlation import spearman
from turnwise.stats.power import rounded_up

if TYPE_CHECKING:
    from turnwise.analyses.compare import CompareRow, Comparison

# Spearman's correlation with people's ratings of single replies, the mean of the eight rated corpora of the
# leaderboard (docs/results/reproduce/leaderboard.md); of seven for metrics that need references.
RECORD: Mapping[str, float] = {
    "usr-dr-c": 0.55,
    "nup": 0.52,
    "usl-h": 0.48,
    "maude": 0.42,
    "usl-a": 0.39,
    "bert-ruber": 0.36,
    "pone": 0.36,
    "bert-nli": 0.33,
    "ruber": 0.29,
    "coherence": 0.29,
    "bertscore": 0.27,
    "infersent": 0.24,
    "skip-thought": 0.23,
    "embedding-average": 0.22,
    "vector-extrema": 0.2,
    "usr": 0.19,
    "distinct-2": 0.16,
    "meteor": 0.16,
    "f1": 0.15,
    "greedy-matching": 0.15,
    "consistency": 0.15,
    "rouge-l": 0.14,
    "distinct-1": 0.13,
    "bleu-2": 0.13,
    "bleu-4": 0.13,
    "fluency": 0.13,
    "bleu-3": 0.12,
    "bleu-1": 0.11,
    "empathy": 0.1,
    "usr-mlm": 0.09,
    "vup": 0.09,
    "mlm-ppl": 0.05,
    "mlm-slor": 0.04,
    "iwf": -0.01,
    "entropy-1": -0.02,
    "entropy-2": -0.03,
    "entropy-3": -0.03,
    "mlm-nce": -0.05,
    "mlm-likelihood": -0.07,
    "lm-likelihood": -0.12,
}
# The user's own ratings choose the metric from so many rated replies in so many contexts on.
FEWEST_RATED, FEWEST_CONTEXTS = 30, 20
CHANCE = 0.05
MOST_NAMED = 3
# How the verdicts on systems against a baseline are put, in the order in which they are said.
WORDS = {
    "better": "better than",
    "not enough data": "not told apart from",
    "equivalent": "equivalent to",
    "worse": "worse than",
}
OPPOSITE = {"better": "worse", "worse": "better"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which system to choose, on which metric and why; what else to know; and all of it as one text."""

    choose: str | None
    metric: str | None
    why: str
    disagree: tuple[str, ...]
    left_out: tuple[str, ...]
    next: tuple[str, ...]
    gate: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the block of a JSON document."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @property
    def lines(self) -> list[str]:
        """Return the text line by line."""
        return self.text.splitlines()


NOTHING = Verdict(None, None, "", (), (), (), "", "")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The metric that decides, and why that one."""

    metric: str | None
    why: str
    from_ratings: bool = False


def verdict_of(
    judged: Sequence[Judged],
    metrics: Mapping[str, Metric],
    comparison: Comparison | None,
    systems: Sequence[str],
    unkept: int = 0,
) -> Verdict:
    """Return the verdict on a run, given its comparison of systems if there are two or more.

    `unkept` is how many rows of a large run were not kept, so that a sample stands for them.
    """
    chosen = choose_metric(judged, metrics)
    rows = [row for row in comparison.rows if row.metric == chosen.metric] if comparison else []
    choice, said, ahead = _choice(chosen, rows, systems)
    disagree = tuple(_disagreements(chosen, comparison)) if comparison else ()
    sampled = [f"all but a sample of {len(judged):,} of {len(judged) + unkept:,} rows"] if unkept else []
    left_out = (*sampled, *_left_out(judged, metrics, comparison))
    gate = _gate(comparison) if comparison and comparison.gates else ""
    open_rows = [row for row in rows if {row.system, row.baseline} <= ahead]
    following = tuple(_next(chosen, open_rows, comparison))
    lines = [said, f"Why {chosen.metric}: {chosen.why}." if chosen.metric else chosen.why]
    lines += [f"Other metrics: {'; '.join(disagree)}."] if disagree else []
    lines += [f"Left out: {'; '.join(left_out)}."] if left_out else []
    lines += [f"Gate: {gate}."] if gate else []
    lines += [f"Next: {'; '.join(following)}."] if following else []
    return Verdict(choice, chosen.metric, chosen.why, disagree, left_out, following, gate, "\n".join(lines))


# --- which metric ------------------------------------------------------------------------------------------


def choose_metric(judged: Sequence[Judged], metrics: Mapping[str, Metric]) -> Chosen:
    """Return the metric with the best evidence of agreeing with people: on these ratings, else by its record."""
    known = {
        key: metric
        for key, metric in metrics.items()
        if metric.higher_is_better is not None and any(_counts(item, key) for item in judged)
    }
    if not known:
        return Chosen(None, "No metric here has a better direction, so nothing can be chosen")
    found = _on_ratings(judged, known)
    if found is not None:
        return found
    recorded = {key: RECORD[key] for key in known if key in RECORD}
    if recorded:
        best = max(recorded, key=lambda key: recorded[key])
        why = (
            f"of these metrics it agreed best with people on the leaderboard's corpora (Spearman {recorded[best]:.2f})"
        )
        return Chosen(best, why)
    first = next(iter(known))
    return Chosen(first, "nothing is known of how far these metrics agree with people; it is the first one asked for")


def _counts(item: Judged, key: str) -> bool:
    score = item.scores.get(key)
    return score is not None and score.counts


def _on_ratings(judged: Sequence[Judged], metrics: Mapping[str, Metric]) -> Chosen | None:
    rated = RatedTurns(judged)
    quality = main_quality(rated.qualities)
    if quality is None:
        return None
    found: dict[str, tuple[float, int]] = {}
    for key, metric in metrics.items():
        if metric.per_turn:
            points = rated.align(key, quality, "turn", whole=False)
            ranked = spearman(points.scores, points.ratings)
            enough = len(points.scores) >= FEWEST_RATED and len(set(points.clusters.tolist())) >= FEWEST_CONTEXTS
            sign = 1 if metric.higher_is_better else -1
            if enough and ranked.value is not None and ranked.p is not None and ranked.p * len(metrics) < CHANCE:
                found[key] = sign * ranked.value, ranked.n
    if not found or max(found.values())[0] <= 0:
        return None
    best = max(found, key=lambda key: found[key][0])
    value, n = found[best]
    why = f"of these metrics it agrees best with your ratings of {quality} (Spearman {value:.2f}, n = {n:,})"
    return Chosen(best, why, from_ratings=True)


def main_quality(qualities: Iterable[str]) -> str | None:
    """Return the quality that counts most: the overall one if there is one, else the first."""
    known = list(qualities)
    return next(iter([*(one for one in known if "overall" in one.lower()), *known]), None)


# --- which system ------------------------------------------------------------------------------------------


def _choice(chosen: Chosen, rows: Sequence[CompareRow], systems: Sequence[str]) -> tuple[str | None, str, set[str]]:
    """Return the system to choose, the sentence that says so, and the systems between which it is still open."""
    if len(systems) < 2:
        return None, "One system: there is nothing to choose between.", set()
    if chosen.metric is None or not rows:
        return None, "No system can be chosen.", set()
    if len(rows) > 1 and len({row.baseline for row in rows}) == 1:
        return _against(chosen, rows[0].baseline, rows)
    beats: dict[str, set[str]] = {system: set() for system in systems}
    for row in rows:
        if row.verdict in OPPOSITE:
            winner, loser = (row.system, row.baseline) if row.verdict == "better" else (row.baseline, row.system)
            beats[winner].add(loser)
    compared = [system for system in systems if any(system in (row.system, row.baseline) for row in rows)]
    ahead = [system for system in compared if not any(system in beats[other] for other in compared)]
    behind = [system for system in compared if system not in ahead]
    if len(ahead) == 1 and beats[ahead[0]] == set(behind):
        return ahead[0], f"Choose {ahead[0]}: it is better than {_named(behind)} on {chosen.metric}.", set()
    rest = f"; {_named(behind)} {_is(behind)} worse than one of them" if behind else ""
    between = [row.verdict for row in rows if row.system in ahead and row.baseline in ahead]
    if between and set(between) == {"equivalent"}:
        return None, f"Choose any of {_named(ahead)}: they are equivalent on {chosen.metric}{rest}.", set()
    return None, f"No choice yet: {_named(ahead)} cannot be told apart on {chosen.metric}{rest}.", set(ahead)


def _against(chosen: Chosen, baseline: str, rows: Sequence[CompareRow]) -> tuple[str | None, str, set[str]]:
    """Return the same if each system was compared with the baseline alone."""
    by: dict[str, list[str]] = {}
    for row in rows:
        by.setdefault(row.verdict, []).append(row.system)
    said = [f"{_named(names)} {_is(names)} {WORDS[word]} {baseline}" for word in WORDS if (names := by.get(word))]
    found = f"{'; '.join(said)} (on {chosen.metric})."
    if "better" in by:
        best = max((row for row in rows if row.verdict == "better"), key=lambda row: abs(row.difference or 0.0))
        return best.system, f"Choose {best.system}: {found}", set()
    if "not enough data" in by:
        return None, f"No choice yet: {found}", {baseline, *by["not enough data"]}
    return (
        (None, f"Choose either: {found}", set())
        if "equivalent" in by
        else (baseline, f"Keep {baseline}: {found}", set())
    )


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _named(names: Sequence[str]) -> str:
    """Return names as a list in words.

    >>> _named(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# --- what else ---------------------------------------------------------------------------------------------


def _disagreements(chosen: Chosen, comparison: Comparison) -> Iterator[str]:
    """Yield what other metrics say that the chosen one does not."""
    ours = {(row.system, row.baseline): row.verdict for row in comparison.rows if row.metric == chosen.metric}
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in comparison.rows:
        mine = ours.get((row.system, row.baseline))
        if row.metric != chosen.metric and row.verdict in OPPOSITE and row.verdict != mine:
            found.setdefault((row.system, row.verdict, row.baseline), []).append(row.metric)
    opposite = [key for key in found if ours[key[0], key[2]] == OPPOSITE[key[1]]]
    order = [*opposite, *(key for key in found if key not in opposite)]
    for key in order[:MOST_NAMED]:
        system, verdict, baseline = key
        metrics = found[key]
        against = f", against {chosen.metric}" if key in opposite else ""
        verb = "finds" if len(metrics) == 1 else "find"
        yield f"{_named(metrics)} {verb} {system} {verdict} than {baseline}{against}"
    if len(order) > MOST_NAMED:
        yield f"and {len(order) - MOST_NAMED} more"


def _left_out(judged: Sequence[Judged], metrics: Mapping[str, Metric], comparison: Comparison | None) -> Iterator[str]:
    """Yield what the verdict does not rest on, or rests on in another way than it seems."""
    unread = sum(item.row.example is None and item.row.unanswered is None for item in judged)
    if unread:
        yield f"{counted(unread, 'row')} that cannot be read"
    if comparison is not None:
        for system, failed in comparison.failed.items():
            counts = "skipped" if comparison.missing == "skip" else "counted as the worst replies"
            yield f"{failed.rate.count} of {failed.rate.n} replies of {system} that are blank or missing ({counts})"
    else:
        silent = sum(item.row.unanswered is not None for item in judged)
        if silent:
            yield f"{counted(silent, 'row')} without a reply"
    rows = [item for item in judged if item.row.example is not None]
    for key in metrics:
        lacking = sum(not _counts(item, key) for item in rows)
        if lacking:
            yield f"{key} on {lacking} of {counted(len(rows), 'row')} without a score"


def _next(chosen: Chosen, rows: Sequence[CompareRow], comparison: Comparison | None) -> Iterator[str]:
    """Yield what to do next."""
    open_rows = [row for row in rows if row.verdict == "not enough data"]
    known = [row for row in open_rows if row.needed is not None]
    if known:
        row = max(known, key=lambda row: row.needed or 0)
        yield f"about {rounded_up(row.needed or 0):,} contexts would settle {row.system} and {row.baseline}"
    elif open_rows:
        yield f"give more contexts, or the loss that you would accept: --fail-unless-as-good {chosen.metric}@MARGIN"
    if comparison is not None and comparison.failed:
        yield "find out why replies are missing"
    if chosen.metric is not None and not chosen.from_ratings:
        yield f"let people rate some replies, to see whether {chosen.metric} agrees with them (turnwise sample)"


def _gate(comparison: Comparison) -> str:
    """Return whether the gate passed, and how narrowly."""
    try:
        failures = comparison.failures()
    except TurnwiseError as problem:
        return f"cannot be checked ({problem})"
    if failures:
        return f"failed ({counted(len(failures), 'condition')}): {'; '.join(failures[:MOST_NAMED])}"
    closest = min((found for gate in comparison.gates for found in gate.slack(comparison)), default=None)
    return "passed" if closest is None else f"passed; the closest was {closest[1]}"


def markdown(verdict: Verdict, comparison: Comparison | None = None) -> str:
    """Return the verdict as Markdown for a pull request, with a table of the comparison."""
    first, *others = verdict.lines
    lines = [f"**{_escaped(first)}**", "", *(f"- {_escaped(line)}" for line in others)]
    if comparison is not None and comparison.rows:
        lines += ["", "| metric | system | against | difference | 95 % interval | p | verdict |"]
        lines.append("| --- | --- | --- | --- | --- | --- | --- |")
        lines += [_table_line(row) for row in comparison.rows]
    return "\n".join(lines) + "\n"


def _table_line(row: CompareRow) -> str:
    between = "" if row.low is None or row.high is None else f"{row.low:+.3f} to {row.high:+.3f}"
    p = "" if row.p is None else "&lt;.001" if row.p < 0.001 else f"{row.p:.3f}".lstrip("0")
    difference = "" if row.difference is None else f"{row.difference:+.3f}"
    names = map(_escaped, (row.metric, row.system, row.baseline))
    return "| " + " | ".join([*names, difference, between, p, row.verdict]) + " |"


def _escaped(text: str) -> str:
    """Return text that Markdown and HTML take literally."""
    for sign in "\\`*_[]<>|#":
        text = text.replace(sign, f"&#{ord(sign)};" if sign in "<>|" else f"\\{sign}")
    return text
