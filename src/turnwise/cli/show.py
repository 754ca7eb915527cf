"""What a person sees: tables on stdout, everything else on stderr."""

from __future__ import annotations

import csv
import errno
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnwise.cli.options import Format, in_flags
from turnwise.cli.streams import for_machines
from turnwise.problems import counted
from turnwise.stats.power import rounded_up

if TYPE_CHECKING:
    from turnwise.analyses.agreement import Agreement, AgreementRow
    from turnwise.analyses.compare import Comparison
    from turnwise.analyses.distances import NormalityReport, Perturbation
    from turnwise.analyses.evaluate import Result
    from turnwise.analyses.experiment import ExperimentPlan, ToRate
    from turnwise.analyses.fit import Agrees, Fit
    from turnwise.analyses.metaevaluate import MetaEvaluation, MetaRow, RivalRow
    from turnwise.analyses.people import People
    from turnwise.analyses.select import Selection, Votes
    from turnwise.analyses.verdict import Verdict
    from turnwise.engine.aggregate import SystemValue
    from turnwise.options import RunOptions
    from turnwise.problems import Problem


class Remarked(Protocol):
    """A result that says how it was made and what could not be used."""

    notes: list[str]
    problems: list[Problem]


# A file with a million bad rows should still leave the terminal readable.
MOST_PROBLEMS = 20


class _Console(Console):
    """Rich ends a program whose reader has gone with the status of a failed gate; ours has one of its own."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


out = _Console(highlight=False)
err = _Console(stderr=True, highlight=False)


@contextmanager
def progress(what: str, options: RunOptions) -> Iterator[None]:
    """Show a counter of rows on stderr, as the `progress` of a run, if stderr is a terminal.

    Whatever metrics of other packages print meanwhile goes to stderr: stdout holds the result alone.
    """
    if not err.is_terminal:
        with redirect_stdout(sys.stderr):
            yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed:,} rows"))
    with redirect_stdout(sys.stderr), Progress(*columns, TimeElapsedColumn(), console=err, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def ticks() -> Iterator[None]:
            while True:
                bar.advance(task)
                yield

        options["progress"] = ticks()
        yield


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on stderr while something without steps goes on."""
    if not err.is_terminal:
        yield
        return
    with err.status(what):
        yield


def note(line: str) -> None:
    """One line on stderr."""
    err.print(Text(line), soft_wrap=True)


def notes(lines: Iterable[str]) -> None:
    """Remarks on how a result was made."""
    for line in lines:
        note(f"note: {in_flags(line)}")


def remarks(result: Remarked) -> None:
    """What could not be used, and how the result was made."""
    problems(result.problems)
    notes(result.notes)


def renamed(old: str, given: Path | None, new: str, value: Path | None) -> Path | None:
    """The value of an option, which may have been given by the name that it had until 0.1."""
    if given is not None:
        note(f"note: {old} is called {new} from 0.2 on")
    return value if given is None else given


def problems(found: Sequence[object]) -> None:
    """Print what could not be used, one line each."""
    for problem in found[:MOST_PROBLEMS]:
        err.print(Text.assemble(("warning: ", "yellow"), in_flags(str(problem))), soft_wrap=True)
    if len(found) > MOST_PROBLEMS:
        note(f"... and {len(found) - MOST_PROBLEMS:,} more; --format json has each row's error")


def scores(result: Result, form: Format) -> None:
    """The systems with their intervals; every turn in JSON and CSV."""
    if form is Format.json:
        result.write_json(for_machines(form))
    elif form is Format.csv:
        result.write_csv(for_machines(form))
    else:
        out.print(_systems_table(result))
        _people(result.people)
        verdict(result.verdict)
        bad, turns = result.bad_rows, result.rows
        systems = len({value.system for value in result.system_values})
        tail = f", {bad} not scored" if bad else ""
        bare = any(value.value is not None and value.low is None for value in result.system_values)
        where = "where there are two contexts or more, a" if bare else "each value with its"
        note(f"{counted(turns, 'turn')}, {counted(systems, 'system')}{tail}; {where} 95 % interval")
        notes(f"{value.metric} of {value.system}: {value.made_of}" for value in result.system_values if value.made_of)


def _systems_table(result: Result) -> Table:
    """Metrics down the page and systems across; or the other way round, or one under the other, as width allows."""
    systems = list(dict.fromkeys(value.system for value in result.system_values))
    arrows = {True: " ↑", False: " ↓", None: ""}
    names = {key: key + arrows[metric.higher_is_better] for key, metric in result.metrics.items()}
    values = {(value.system, value.metric): value for value in result.system_values}
    if (room := _columns_that_fit(names.values(), systems, result.system_values)) is not None:
        table = table_of("Systems", ("metric",), systems)
        for key, name in names.items():
            table.add_row(Text(name), *(_value(values[system, key], room) for system in systems))
    elif (room := _columns_that_fit(systems, names.values(), result.system_values)) is not None:
        table = table_of("Systems", ("system",), names.values())
        for system in systems:
            table.add_row(Text(system), *(_value(values[system, key], room) for key in names))
    else:
        table = table_of("Systems", ("metric", "system"), ("value", "95 % interval"))
        for key, name in names.items():
            table.add_section()
            for place, system in enumerate(systems):
                value = values[system, key]
                label = Text(name if place == 0 else "")
                table.add_row(label, Text(system), number(value.value), _interval(value.low, value.high))
    return table


def _columns_that_fit(down: Iterable[str], across: Iterable[str], values: Iterable[SystemValue]) -> str | None:
    """What to put between a value and its interval, a space or a new line; None where even that is too wide."""
    taken = max(map(len, down), default=0) + 4
    widths = [(len(number(v.value)), len(_interval(v.low, v.high))) for v in values]
    beside, below = (max((fold(pair) for pair in widths), default=0) for fold in (lambda pair: sum(pair) + 1, max))
    for between, least in ((" ", beside), ("\n", below)):
        if taken + sum(max(least, len(name)) + 2 for name in across) <= out.width:
            return between
    return None


def comparison(result: Comparison, form: Format) -> None:
    """Differences between systems, with verdicts."""
    whole = result.to_dict()
    flat = [{name: value for name, value in row.items() if name != "dropped"} for row in whole["rows"]]
    if machine_readable(flat, form, whole=whole):
        return
    baselines = {row.baseline for row in result.rows}
    one = len(baselines) == 1
    title = f"Compared with {baselines.pop()}" if one else "Compared with each other"
    table = table_of(title, ("metric", "system", *(() if one else ("against",))), ("diff.", "95 % interval", "p"))
    table.add_column("verdict", no_wrap=True)
    colours = {"better": "green", "worse": "red"}
    for row in result.rows:
        table.add_row(
            *map(Text, (row.metric, row.system, *(() if one else (row.baseline,)))),
            number(row.difference, signed=True),
            _interval(row.low, row.high, signed=True),
            _p(row.p),
            Text(row.verdict, style=colours.get(row.verdict, "")),
        )
    out.print(table)
    sizes: dict[str, dict[str, None]] = {}
    for row in result.rows:
        sizes.setdefault(row.basis, {})[row.metric if one else f"{row.metric} of {row.system} and {row.baseline}"] = (
            None
        )
    _people(result.people)
    verdict(result.verdict)
    for basis, of in sizes.items():
        note(f"n: {basis}" if len(sizes) == 1 else f"n of {', '.join(of)}: {basis}")
    for row in result.rows:
        if row.verdict == "not enough data" and row.detectable is not None:
            settled = f"; about {rounded_up(row.needed):,} would settle it" if row.needed else ""
            note(
                f"{row.metric}, {row.system} and {row.baseline}: {row.basis} find differences from about "
                f"{number(row.detectable)} on{settled}"
            )


def _people(found: People | None) -> None:
    """What people would say of all replies, from ratings of some."""
    if found is None:
        return
    title = f"{found.quality} that people would give to all such replies, by their ratings and {found.metric}"
    table = table_of(title, ("system",), ("rating", "95 % interval", "rated", "of", "worth"))
    for row in found.systems:
        sizes = (f"{row.n:,}", f"{row.rows:,}", f"{row.worth:,} ratings")
        table.add_row(Text(row.system), number(row.value), _interval(row.low, row.high), *sizes)
    if found.systems:
        out.print(table)
    for one in found.differences:
        between = _interval(one.low, one.high, signed=True)
        line = f"{one.system} against {one.baseline}: {number(one.difference, signed=True)}, {between}, p {_p(one.p)}"
        out.print(Text(f"{line}: {one.verdict}"), soft_wrap=True)
    for line in found.refused:
        note(f"note: {line}")


def plan(result: ExperimentPlan, form: Format) -> None:
    """How many contexts it takes."""
    whole = result.to_dict()
    if machine_readable(whole["rows"], form, whole=whole):
        return
    first = result.rows[0]
    title = f"Contexts that find a difference of {first.difference:g} in {first.what}"
    table = table_of(title, (), ("ratings of each reply", "contexts", "power"))
    for row in result.rows:
        table.add_row(str(row.raters), f"{rounded_up(row.contexts):,}", f"{row.power:.0%}")
    out.print(table)
    note(f"from {result.pilot}")


def to_rate(result: ToRate, form: Format) -> None:
    """Which replies to rate."""
    whole = result.to_dict()
    if machine_readable(whole["rows"], form, whole=whole):
        return
    table = table_of(f"Replies to rate, picked over {result.metric}", ("system",), ("replies", "each stands for"))
    systems: dict[str, list[float]] = {}
    for row in result.rows:
        systems.setdefault(row.system, []).append(row.weight)
    for system, weights in systems.items():
        table.add_row(Text(system), str(len(weights)), number(sum(weights) / len(weights)))
    out.print(table)


def verdict(found: Verdict) -> None:
    """The block that ends a run."""
    for place, line in enumerate(found.lines):
        out.print(Text(line, style="bold" if place == 0 else ""), soft_wrap=True)


def meta(result: MetaEvaluation, form: Format) -> None:
    """Correlations with human ratings."""
    if machine_readable(result.to_dict()["rows"], form, whole=result.to_dict()):
        if form is Format.csv and result.rivals:
            note("CSV has the correlations alone; what --against asks for is in --format json")
        return
    groups: dict[tuple[str, str, str], list[MetaRow]] = {}
    for row in result.rows:
        groups.setdefault((row.corpus, row.level, row.quality), []).append(row)
    for (corpus, level, quality), rows in groups.items():
        title = f"{corpus} · {quality} · {level} level, n = {max(row.n for row in rows)}"
        table = table_of(title, ("metric",), ("Spearman", "95 % interval", "p", "Pearson", "p", "Kendall"))
        for row in sorted(rows, key=lambda row: -2.0 if row.spearman is None else row.spearman, reverse=True):
            table.add_row(
                Text(row.metric),
                number(row.spearman, signed=True),
                _interval(row.spearman_low, row.spearman_high, signed=True),
                _p(row.p_spearman),
                number(row.pearson, signed=True),
                _p(row.p_pearson),
                number(row.kendall, signed=True),
            )
        out.print(table)
    _rivals(result.rivals)


def _rivals(rows: Sequence[RivalRow]) -> None:
    """Differences between metrics' correlations with ratings."""
    groups: dict[tuple[str, str, str], list[RivalRow]] = {}
    for row in rows:
        groups.setdefault((row.corpus, row.quality, row.against), []).append(row)
    for (corpus, quality, against), found in groups.items():
        title = f"{corpus} · {quality} · Spearman compared with that of {against}"
        table = table_of(title, ("metric",), ("Spearman", against, "diff.", "95 % interval", "p", "Williams' p"))
        table.add_column("verdict", no_wrap=True)
        for row in sorted(found, key=lambda row: -row.difference):
            table.add_row(
                Text(row.metric),
                number(row.spearman, signed=True),
                number(row.spearman_against, signed=True),
                number(row.difference, signed=True),
                _interval(row.low, row.high, signed=True),
                _p(row.p),
                _p(row.p_williams),
                row.verdict,
            )
        out.print(table)


def agreement(result: Agreement, form: Format) -> None:
    """Agreement between raters."""
    if machine_readable(result.to_dict()["rows"], form, whole=result.to_dict()):
        return
    numbers = ("value", "95 % interval", "items", "raters")
    corpora: dict[str, list[AgreementRow]] = {}
    for row in result.rows:
        corpora.setdefault(row.corpus, []).append(row)
    for corpus, rows in corpora.items():
        title = "Agreement between raters" + (f" of {corpus}" if len(corpora) > 1 else "")
        table = table_of(title, ("quality", "method"), numbers)
        table.columns[1].no_wrap = True
        previous = None
        for row in rows:
            if previous is not None and row.quality != previous:
                table.add_section()
            label = Text(row.quality if row.quality != previous else "")
            interval = _interval(row.low, row.high)
            table.add_row(label, Text(row.method), number(row.value), interval, str(row.n_items), str(row.n_raters))
            previous = row.quality
        out.print(table)


def fit(result: Fit, form: Format) -> None:
    """Weights, and the fit beside every metric alone, all on the same items."""
    whole = result.to_dict()
    if machine_readable(whole["weights"], form, whole=whole):
        return
    table = table_of(f"Weights for {result.target}", ("metric",), ("weight", "95 % interval"))
    for weight in sorted(result.weights, key=lambda weight: -abs(weight.weight)):
        interval = _interval(weight.low, weight.high, signed=True)
        table.add_row(Text(weight.metric), number(weight.weight, signed=True), interval)
    out.print(table)
    if result.raters:
        out.print(_raters_table(result))
    title = f"Agreement with {result.target}, n = {result.n}, {result.contexts} contexts"
    table = table_of(title, ("what",), ("Spearman", "95 % interval", "Pearson"))

    def add(label: str, agrees: Agrees, style: str = "") -> None:
        interval = _interval(agrees.spearman_low, agrees.spearman_high, signed=True)
        rho, r = number(agrees.spearman, signed=True), number(agrees.pearson, signed=True)
        table.add_row(Text(label), rho, interval, r, style=style)

    add(f"the fit, held out ({result.folds} folds)", result.cross_validated, "bold")
    add("the fit, in sample", result.in_sample, "dim")
    table.add_section()
    for key, agrees in sorted(result.single.items(), key=lambda item: -abs(item[1].spearman or 0.0)):
        add(key, agrees)
    out.print(table)


def _raters_table(result: Fit) -> Table:
    """The weights of each rater alone: metrics across where they fit, else one under the other."""
    metrics = list(result.raters[0].weights)
    longest = max(len(rater.rater) for rater in result.raters)
    if longest + 14 + sum(max(len(metric), 6) + 2 for metric in metrics) <= out.width:
        table = table_of("Each rater alone", ("rater",), ("n", *metrics))
        for rater in result.raters:
            weights = (number(rater.weights[metric], signed=True) for metric in metrics)
            table.add_row(Text(rater.rater), str(rater.n), *weights)
        return table
    table = table_of("Each rater alone", ("rater", "metric"), ("weight", "n"))
    for rater in result.raters:
        table.add_section()
        for place, (metric, weight) in enumerate(rater.weights.items()):
            label, n = (rater.rater, str(rater.n)) if place == 0 else ("", "")
            table.add_row(Text(label), Text(metric), number(weight, signed=True), n)
    return table


def selection(result: Selection, form: Format) -> None:
    """How often each system was picked."""
    whole = result.to_dict()
    if machine_readable(whole["picks"], form, whole=whole):
        return
    choices = [result.best, *([result.against] if result.against else [])]
    title = f"Picked, of {counted(len(result.best.picks), 'context')}"
    table = table_of(title, ("system",), ("contexts", *(f"by {choice.metric}" for choice in choices)))
    counts = [{picked.system: picked for picked in choice.systems} for choice in choices]
    for system, picked in counts[0].items():
        shares = (f"{of[system].picked} ({of[system].picked / picked.contexts:.0%})" for of in counts)
        table.add_row(Text(system), str(picked.contexts), *shares)
    out.print(table)
    if result.against is not None:
        first, second = result.best.metric, result.against.metric
        note(f"{first} and {second} pick different responses in {counted(len(result.ballots), 'context')}")


def votes(result: Votes, form: Format) -> None:
    """Wins, losses and ties of one metric's picks against another's."""
    whole = result.to_dict()
    if machine_readable([whole], form, whole=whole):
        return
    table = table_of(f"{result.metric} against {result.against}", (), ("wins", "losses", "ties"))
    for name in ("win rate", "95 % interval", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    counts = (str(result.wins), str(result.losses), str(result.ties))
    table.add_row(*counts, number(result.win_rate), _interval(result.low, result.high), _p(result.p))
    out.print(table)
    note("the win rate leaves ties out; the interval is Wilson's, p that of the sign test")


def perturbation(result: Perturbation, form: Format) -> None:
    """Values of metrics by the share of corrupted answers."""
    whole = result.to_dict()
    if machine_readable(whole["rows"], form, whole=whole):
        return
    ratios = list(dict.fromkeys(row.ratio for row in result.rows))
    first = result.rows[0]
    title = f"Value by share of perturbed answers, n = {first.n}, {counted(first.seeds, 'seed')}"
    table = table_of(title, ("metric", "transform"), [f"{ratio:g}" for ratio in ratios])
    table.add_column("trend", no_wrap=True)
    for trend in sorted(result.trends, key=lambda trend: trend.metric):
        values = {
            row.ratio: row.value
            for row in result.rows
            if (row.metric, row.transform) == (trend.metric, trend.transform)
        }
        worse = trend.trend == ("falls" if trend.higher_is_better else "rises")
        style = "" if trend.higher_is_better is None else "green" if worse else "red"
        cells = (number(values[ratio]) for ratio in ratios)
        table.add_row(Text(trend.metric), Text(trend.transform), *cells, Text(trend.trend, style=style))
    out.print(table)


def normality(result: NormalityReport, form: Format) -> None:
    """How far vectors are from normal."""
    whole = result.to_dict()
    if machine_readable(whole["rows"], form, whole=whole):
        return
    columns = ("n", "dimensions", "W", "p", "not normal")
    table = table_of("Shapiro-Wilk over the dimensions: mean ± standard deviation", ("vectors of",), columns)
    for row in result.rows:
        w, p = f"{row.w_mean:.3f} ± {row.w_deviation:.3f}", f"{row.p_mean:.3f} ± {row.p_deviation:.3f}"
        table.add_row(Text(row.set), str(row.n), str(row.dimensions), w, p, f"{row.rejected:.0%}")
    out.print(table)
    note("not normal: the share of dimensions with p < .05")


def json_lines(lines: Iterable[str]) -> None:
    """JSON Lines on stdout."""
    for_machines(Format.json).writelines(lines)


def text(content: str) -> None:
    """Plain text on stdout."""
    sys.stdout.write(content)


def table_of(title: str, words: Iterable[str], numbers: Iterable[str] = ()) -> Table:
    table = Table(title=Text(title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, collapse_padding=True)
    for name in words:
        table.add_column(Text(name), overflow="fold")
    for name in numbers:
        table.add_column(Text(name), justify="right", no_wrap=True)
    return table


def machine_readable(rows: Sequence[dict[str, Any]], form: Format, *, whole: dict[str, Any]) -> bool:
    """Print as JSON or CSV if asked; says whether it did."""
    if form is Format.json:
        document(whole)
    elif form is Format.csv:
        columns = list(dict.fromkeys(name for row in rows for name in row))
        writer = csv.DictWriter(for_machines(form), fieldnames=columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return form is not Format.table


def document(content: dict[str, Any]) -> None:
    """One JSON document on stdout."""
    for_machines(Format.json).write(json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")


def _value(value: SystemValue, apart: str) -> Text:
    text = Text(number(value.value), style="bold")
    interval = _interval(value.low, value.high)
    return text.append(apart + interval, style="not bold dim") if interval else text


def _interval(low: float | None, high: float | None, *, signed: bool = False) -> str:
    if low is None or high is None:
        return ""
    # A dash between signed numbers would read as a minus.
    between = " to " if signed or low < 0 else "–"
    return f"{number(low, signed=signed)}{between}{number(high, signed=signed)}"


def number(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "–"
    digits = 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1
    return f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"


def _p(p: float | None) -> str:
    if p is None:
        return "–"
    return "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0") or "0"
