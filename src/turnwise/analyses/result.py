"""Results: rows of an analysis, and everything that a scoring run found, as frames, documents and files."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TextIO, TypeVar

from turnwise.analyses.targets import CHARTS, PARTIAL_TURNS, RESULT, check_targets
from turnwise.engine.aggregate import Summary, SystemValue, basis_of
from turnwise.engine.score import Judged
from turnwise.engine.session import relaxed_gc
from turnwise.engine.spool import FACTS, Spool, metrics_of_turns, turn_frame, turn_record, write_turns
from turnwise.errors import TurnwiseError
from turnwise.files import Save, claim, sha256_of
from turnwise.metrics.base import Metric
from turnwise.metrics.signature import signature
from turnwise.problems import Problem

if TYPE_CHECKING:
    import polars as pl

    from turnwise.analyses.compare import Comparison
    from turnwise.analyses.people import People
    from turnwise.analyses.verdict import Verdict


R = TypeVar("R")
# The last entry of result.json: the hash of all bytes before it.
SEAL = ', "sha256": "'


class Framed:
    """A result with one document, whose main list, or which as one row, is a table too."""

    main: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """The JSON document that the command prints with `--format json`."""
        raise NotImplementedError

    @property
    def frame(self) -> pl.DataFrame:
        """The main rows as a polars frame."""
        import polars as pl

        document = self.to_dict()
        return pl.DataFrame(document[self.main] if self.main else [document], infer_schema_length=None)

    def _repr_html_(self) -> str:
        return self.frame._repr_html_()


@dataclass(repr=False)
class Rows(Framed, Generic[R]):
    """Rows of one dataclass, remarks on how they were made, and what of the input could not be used."""

    main: ClassVar[str] = "rows"

    rows: list[R]
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document that the command prints with `--format json`."""
        return {"rows": [asdict(row) for row in self.rows]}  # type: ignore[call-overload]

    def __repr__(self) -> str:
        return f"<turnwise.{type(self).__name__}: {len(self.rows)} rows; see .frame>"


@dataclass(repr=False)
class Result:
    """Hold everything that a scoring run found: per turn, dialogue, group and system, with its signatures.

    Of a large run only the turns that a report shows keep the tokens of their scores. Of a run that was not to be kept
    in memory, `judged` is an even sample with both ends of every metric; all turns are then in `spool`.

    >>> import turnwise as tw
    >>> result = tw.evaluate([{"system": "a", "context": ["Tea?"], "response": "Yes, please."}], "length")
    >>> result.systems.select("system", "metric", "value").rows(), result.signatures
    ([('a', 'length', 2.0)], {'length': 'length|turnwise:0.1.0'})
    """

    metrics: dict[str, Metric]
    judged: list[Judged]
    system_values: list[SystemValue]
    summary: Summary
    problems: list[Problem] = field(default_factory=list)
    interrupted: bool = False
    models: dict[str, str] = field(default_factory=dict)
    left_out: int = 0
    left_out_bad: int = 0
    spool: Spool | None = None
    notes: list[str] = field(default_factory=list)
    seed: int = 0

    def __repr__(self) -> str:
        turns, systems = self.rows, len(self.summary.systems)
        return f"<turnwise.Result: {turns} turns, {systems} systems, metrics {', '.join(self.metrics)}>"

    def _repr_html_(self) -> str:
        return self.systems._repr_html_()

    @property
    def rows(self) -> int:
        """How many rows there were, readable or not."""
        return len(self.judged) + self.left_out

    @property
    def bad_rows(self) -> int:
        """How many of them could not be read."""
        return sum(item.row.error is not None for item in self.judged) + self.left_out_bad

    @property
    def signatures(self) -> dict[str, str]:
        """One line per metric with all that determines its numbers."""
        return {key: signature(key, metric, self.models.get(key, "")) for key, metric in self.metrics.items()}

    @cached_property
    def comparison(self) -> Comparison | None:
        """Every pair of systems on every metric that is not of whole systems; None with fewer than two systems.

        Of a run that was not kept in memory, the sample that was kept is compared.
        """
        from turnwise.analyses.compare import compare

        metrics = {key: metric for key, metric in self.metrics.items() if basis_of(metric) != "whole system"}
        asked = (item.row.example or item.row.unanswered for item in self.judged)
        if len({example.system for example in asked if example is not None}) < 2 or not metrics:
            return None
        try:
            return compare(replace(self, metrics=metrics))
        except TurnwiseError:
            # A system of which no row was kept.
            return None

    @cached_property
    def people(self) -> People | None:
        """What people would say of all replies, if they rated some of them; else None."""
        from turnwise.analyses.people import people_of

        return people_of(self.judged, self.metrics)

    @cached_property
    def verdict(self) -> Verdict:
        """Which system to choose, on which metric and why."""
        from turnwise.analyses.verdict import verdict_of

        if self.comparison is not None:
            return self.comparison.verdict
        return verdict_of(self.judged, self.metrics, None, self.summary.systems, self.left_out)

    def records(self) -> Iterator[dict[str, Any]]:
        """Every row of the input, in its order, as the JSON document has it."""
        if self.spool is not None:
            return self.spool.records()
        if self.left_out:
            raise TurnwiseError(f"{self.left_out:,} turns were not kept; give a folder for them")
        of_turns = metrics_of_turns(self.metrics)
        return (turn_record(item, of_turns) for item in self.judged)

    @cached_property
    def turns(self) -> pl.DataFrame:
        """One row per input row, in input order, one column per metric."""
        return turn_frame(self.records(), metrics_of_turns(self.metrics))

    @property
    def frame(self) -> pl.DataFrame:
        """The turns, as every result has its main rows in `frame`."""
        return self.turns

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
        return {"signatures": self.signatures, "turns": list(self.records()), **self._above_turns()}

    def _above_turns(self) -> dict[str, Any]:
        by_system: dict[str, dict[str, Any]] = {}
        for value in self.system_values:
            by_system.setdefault(value.system, {})[value.metric] = _system_record(value)
        return {
            "dialogues": _means("dialogue_id", self.summary.dialogues.items()),
            "groups": _means("group", self.summary.group_table()),
            "systems": [{"system": system, "scores": scores} for system, scores in by_system.items()],
            **({"people": self.people.to_dict()} if self.people else {}),
            "verdict": self.verdict.to_dict(),
            **({"state": "partial"} if self.interrupted else {}),
        }

    def write_json(self, out: TextIO) -> None:
        """Write the same document, a turn at a time: it may be larger than the memory."""
        for _ in self._written(out):
            pass
        out.write(_entries(self._above_turns()) + "}\n")

    def _written(self, out: TextIO) -> Iterator[dict[str, Any]]:
        """Yield every record after it is written; what is above turns follows."""
        out.write(f'{{"signatures": {_json(self.signatures)}, "turns": [')
        for place, record in enumerate(self.records()):
            out.write((", " if place else "") + _json(record))
            yield record
        out.write("]")

    def write_csv(self, out: TextIO) -> None:
        """The turns as a table of comma-separated values."""
        of_turns = metrics_of_turns(self.metrics)
        table = csv.writer(out, lineterminator="\n")
        table.writerow([*FACTS, *of_turns, "notes"])
        for record in self.records():
            notes = "; ".join(f"{key}: {note}" for key, note in record["notes"].items())
            table.writerow([*(record[name] for name in FACTS), *(record["scores"][key] for key in of_turns), notes])

    def save(self, folder: str | Path) -> Path:
        """Write result.json, turns.parquet, systems.csv and the charts into a folder that no other run writes to."""
        check_targets(folder=Path(folder))
        with claim(folder) as claimed:
            self.save_claimed(claimed)
        return Path(folder)

    def save_claimed(self, folder: Path) -> None:
        """Replace all files of a result in a claimed folder together; result.json, with their hashes, comes last."""
        from turnwise.report.charts import FILES, write_charts

        with Save(folder) as save:
            result = save.path(RESULT)
            with result.open("w", encoding="utf-8", newline="\n") as out:
                # Both files in one reading of the turns.
                with relaxed_gc():
                    write_turns(self._written(out), metrics_of_turns(self.metrics), save.path("turns.parquet"))
                self.systems.write_csv(save.path("systems.csv"))
                charts = write_charts(self, save.path(f"{CHARTS}/any").parent)
                made = ["turns.parquet", "systems.csv", *sorted(f"{CHARTS}/{chart.name}" for chart in charts)]
                hashes = {name: sha256_of(save.path(name)) for name in made}
                out.write(_entries({"state": "complete", **self._above_turns(), "files": hashes}))
            digest = sha256_of(result)
            with result.open("a", encoding="utf-8", newline="\n") as out:
                out.write(f'{SEAL}{digest}"}}\n')
            save.commit(RESULT, remove=[PARTIAL_TURNS, *(f"{CHARTS}/{file}" for file in FILES)])

    def report(self, path: str | Path, *, title: str | None = None) -> Path:
        """Write the self-contained HTML report."""
        from turnwise.report.page import write_report

        check_targets(report=Path(path))
        return write_report(self, Path(path), title=title)


def _system_record(value: SystemValue) -> dict[str, Any]:
    more = {"parts": dict(value.parts), "curve": value.curve, "note": value.note and str(value.note)}
    return {
        "value": value.value,
        "low": value.low,
        "high": value.high,
        "n": value.n,
        "higher_is_better": value.higher_is_better,
        **{name: fact for name, fact in more.items() if fact},
    }


def _means(name: str, table: Iterable[tuple[tuple[str, str], dict[str, float | None]]]) -> list[dict[str, Any]]:
    return [{name: key, "system": system, "scores": scores} for (key, system), scores in table]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _entries(values: Mapping[str, Any]) -> str:
    """Return more entries of an object that is being written."""
    return ", " + _json(values)[1:-1]
