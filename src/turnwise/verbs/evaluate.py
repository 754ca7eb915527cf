"""`evaluate`: score a file, a frame or a list of conversations, and hold the result."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.dialogue import Example, Row
from turnwise.engine.ask import answering, asker
from turnwise.engine.local import Judged, judge_rows
from turnwise.engine.shown import Shown
from turnwise.engine.summarise import Summary, SystemValue
from turnwise.errors import TurnwiseError
from turnwise.io.read import describe, read_rows
from turnwise.metrics.base import Metric
from turnwise.metrics.composite import CompositeMetric
from turnwise.metrics.registry import SYSTEMS, signature
from turnwise.models.pack import offered_roles
from turnwise.verbs.config import choose_metrics, load_config

if TYPE_CHECKING:
    import polars as pl

# How many rows decide which metrics of a group the input has what they need for.
PEEK = 1000
FIELDS = ("context", "references", "facts", "group")


@dataclass(repr=False)
class Result:
    """Everything that a scoring run found: per turn, dialogue, group and system, with its signatures.

    Of a large run only the turns that a report shows keep the tokens of their scores.
    """

    metrics: dict[str, Metric]
    judged: list[Judged]
    system_values: list[SystemValue]
    summary: Summary
    problems: list[str] = field(default_factory=list)
    interrupted: bool = False
    models: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        turns, systems = len(self.judged), len(self.summary.systems)
        return f"<turnwise.Result: {turns} turns, {systems} systems, metrics {', '.join(self.metrics)}>"

    def _repr_html_(self) -> str:
        return self.systems._repr_html_()

    @property
    def signatures(self) -> dict[str, str]:
        """One line per metric with all that determines its numbers."""
        return {key: signature(key, metric, self.models.get(key, "")) for key, metric in self.metrics.items()}

    @cached_property
    def turns(self) -> pl.DataFrame:
        """One row per input row, in input order, one column per metric."""
        import polars as pl

        records = [_turn_record(judged, self.metrics) for judged in self.judged]
        for record in records:
            record |= record.pop("scores")
            notes: dict[str, str] = record.pop("notes")
            record["notes"] = "; ".join(f"{key}: {note}" for key, note in notes.items()) or None
        floats = {key: pl.Float64 for key, metric in self.metrics.items() if metric.level == "turn"}
        return pl.DataFrame(records, schema_overrides=floats, infer_schema_length=None)

    @cached_property
    def systems(self) -> pl.DataFrame:
        """One row per system and metric, with a 95 % interval."""
        import polars as pl

        floats = {"value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "higher_is_better": pl.Boolean}
        columns = ("system", "metric", "value", "low", "high", "n", "higher_is_better")
        records = [{name: getattr(value, name) for name in columns} for value in self.system_values]
        return pl.DataFrame(records, schema_overrides=floats, infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `turnwise score --format json`."""
        by_system: dict[str, dict[str, Any]] = {}
        for value in self.system_values:
            by_system.setdefault(value.system, {})[value.metric] = _system_record(value)
        return {
            "signatures": self.signatures,
            "turns": [_turn_record(judged, self.metrics) for judged in self.judged],
            "dialogues": _means("dialogue_id", self.summary.dialogues),
            "groups": _means("group", self.summary.groups),
            "systems": [{"system": system, "scores": scores} for system, scores in by_system.items()],
        }

    def save(self, folder: str | Path) -> Path:
        """Write result.json, turns.parquet, systems.csv and the charts into a folder."""
        from turnwise.report.charts import write_charts

        target = Path(folder)
        check_targets(folder=target)
        (target / "result.json").write_text(json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False) + "\n")
        self.turns.write_parquet(target / "turns.parquet")
        self.systems.write_csv(target / "systems.csv")
        write_charts(self, target / "charts")
        return target

    def report(self, path: str | Path, *, title: str | None = None) -> Path:
        """Write the self-contained HTML report."""
        from turnwise.report.page import write_report

        check_targets(file=Path(path))
        return write_report(self, Path(path), title=title)


def evaluate(
    source: object,
    metrics: str | Iterable[str] = "default",
    *,
    config: str | Path | CompositeMetric | None = None,
    corpus: str | None = None,
    mapping: Mapping[str, str] | None = None,
    strict: bool = False,
    seed: int = 0,
    models: str | Path | None = None,
    device: str = "auto",
    cache: str | Path | None = None,
    keep_when_interrupted: bool = False,
    progress: Iterator[None] | None = None,
) -> Result:
    """Score conversations: a path (or several), a list of dicts or Examples, a polars or pandas frame.

    `config` is a file that describes one more metric, composed of others, which is keyed by its name.
    Rows that cannot be read are kept, with the reason; `strict=True` stops at the first one instead. An interrupt
    ends the run; with `keep_when_interrupted` the result of the rows so far is returned.
    """
    composite = load_config(config) if isinstance(config, str | Path) else config
    rows = rows_of(source, corpus=corpus, mapping=mapping)
    first = list(islice(rows, PEEK))
    chosen = choose_metrics(
        metrics, offered_by(row.example for row in first if row.example), offered_roles(models), composite
    )
    judged: list[Judged] = []
    problems, shown = Problems(strict=strict), Shown(list(chosen))
    interrupted = False
    try:
        for item in judge_rows(chain(first, rows), chosen, asker(models, device, cache)):
            problems.see_row(item.row)
            judged.append(item)
            shown.see(judged)
            if progress is not None:
                next(progress)
    except KeyboardInterrupt:
        if not keep_when_interrupted or not judged:
            raise
        interrupted = True
    judged = _settled(judged, chosen)
    summary = Summary(chosen)
    for item in judged:
        problems.see_scores(item)
        summary.add(item)
    if not judged:
        raise TurnwiseError(f"{name_of(source)}: there is nothing to score; the input holds no rows")
    if not summary.systems:
        raise TurnwiseError(f"none of the {len(judged)} rows can be used; the first: {problems.bad_rows[0]}")
    values = summary.system_values(seed=seed)
    lines = [*problems.lines(), *(f"{v.system}: {v.note}: no value of {v.metric}" for v in values if v.note)]
    return Result(chosen, judged, values, summary, lines, interrupted, answering(models, chosen))


def _settled(judged: list[Judged], metrics: Mapping[str, Metric]) -> list[Judged]:
    """The rows with the final scores of those metrics that compare each response with all others."""
    final = {key: metric for key, metric in metrics.items() if type(metric).settle is not Metric.settle}
    if not final:
        return judged
    readable = [item for item in judged if item.row.example]
    settled = {key: iter(metric.settle([item.scores[key] for item in readable])) for key, metric in final.items()}
    return [
        Judged(item.row, {**item.scores, **{key: next(scores) for key, scores in settled.items()}})
        if item.row.example
        else item
        for item in judged
    ]


def check_targets(*, folder: Path | None = None, file: Path | None = None) -> None:
    """Make sure, before any work is done, that results can be written where they are wanted."""
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            was_there = file.exists()
            with file.open("a"):
                pass
            if not was_there:
                file.unlink()
    except OSError as problem:
        place = folder if folder is not None and not folder.is_dir() else file
        raise TurnwiseError(f"{place}: cannot be written ({problem.strerror}); choose another place") from None


def rows_of(source: object, *, corpus: str | None, mapping: Mapping[str, str] | None) -> Iterator[Row]:
    """Rows of whatever a verb was given: one path, several, or Python objects."""
    if isinstance(source, str | Path):
        source = [source]
    return read_rows(source, corpus=corpus, mapping=mapping)


def name_of(source: object) -> str:
    """What to call an input in a message."""
    if isinstance(source, str | Path):
        return str(source)
    if isinstance(source, Sequence) and source and isinstance(source[0], str | Path):
        return ", ".join(map(str, source))
    return "the input"


def offered_by(examples: Iterable[Example]) -> frozenset[str]:
    """Which of the things that a metric may need at least one of the examples has."""
    found: set[str] = set()
    systems: set[str | None] = set()
    for example in examples:
        found.update(name for name in FIELDS if getattr(example, name))
        systems.add(example.system)
    return frozenset(found | {SYSTEMS} if len(systems) > 1 else found)


def check_qualities(known: Sequence[str], wanted: Sequence[str] | None) -> None:
    """Refuse the name of a quality that nobody rated."""
    for name in wanted or ():
        if known and name not in known:
            raise TurnwiseError(f"no rating is called '{name}'; the ratings are: {', '.join(known)}")


class Problems:
    """Collects what went wrong, one clear line each; in strict mode the first one ends the run."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.bad_rows: list[str] = []
        self.unmet: dict[tuple[str, str], tuple[Row, int]] = {}
        self.rows = 0

    def see_row(self, row: Row) -> None:
        """Note a row that could not be read."""
        self.rows += 1
        if row.error is not None:
            if self.strict:
                raise TurnwiseError(describe(row))
            self.bad_rows.append(describe(row))

    def see_scores(self, judged: Judged) -> None:
        """Note a metric whose needs a row does not meet."""
        for key, score in judged.scores.items():
            if score.value is None and score.note:
                first, count = self.unmet.get((key, score.note), (judged.row, 0))
                self.unmet[key, score.note] = (first, count + 1)
                if self.strict:
                    raise TurnwiseError(f"{_place(judged.row)}: {score.note}, which {key} needs")

    def lines(self) -> list[str]:
        """All problems: bad rows first, then one line per metric and reason."""
        by_place: dict[tuple[str, int, int], tuple[Row, list[str]]] = {}
        for (key, note), (row, count) in self.unmet.items():
            _, keys = by_place.setdefault((note, row.line, count), (row, []))
            keys.append(key)
        unmet = [
            f"{_place(row)}: {note}: no score from {', '.join(keys)} for {count} of {self.rows} rows "
            f"(first here); add them or drop the metric"
            for (note, _, count), (row, keys) in by_place.items()
        ]
        return [*self.bad_rows, *unmet]


def _place(row: Row) -> str:
    return f"{row.file}:{row.line}"


def _turn_record(judged: Judged, metrics: Mapping[str, Metric]) -> dict[str, Any]:
    row, example = judged.row, judged.row.example
    of_turns = [key for key, metric in metrics.items() if metric.level == "turn"]
    return {
        "id": row.id,
        "file": row.file,
        "line": row.line,
        "system": row.system,
        "context_id": example.context_id if example else None,
        "dialogue_id": example.dialogue_id if example else None,
        "group": example.group if example else None,
        "scores": {key: judged.scores[key].value if example else None for key in of_turns},
        "notes": {key: score.note for key, score in judged.scores.items() if score.note and key in of_turns},
        "error": row.error,
    }


def _system_record(value: SystemValue) -> dict[str, Any]:
    more = {"parts": dict(value.parts), "curve": value.curve, "note": value.note}
    return {
        "value": value.value,
        "low": value.low,
        "high": value.high,
        "n": value.n,
        "higher_is_better": value.higher_is_better,
        **{name: fact for name, fact in more.items() if fact},
    }


def _means(name: str, table: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            name: key,
            "system": system,
            "scores": {metric: mean.value if mean.n else None for metric, mean in means.items()},
        }
        for (key, system), means in table.items()
    ]
