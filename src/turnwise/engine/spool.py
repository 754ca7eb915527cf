"""Scored turns that no longer fit into memory: Parquet files of so many turns each, read back in the run's order."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.engine.score import Judged
from turnwise.files import atomic
from turnwise.metrics.base import Metric

if TYPE_CHECKING:
    import polars as pl

TURNS_A_FILE = 20_000
FILES = "turns-*.parquet"
FACTS = ("id", "file", "line", "system", "context_id", "dialogue_id", "group", "error")


def turn_record(judged: Judged, of_turns: Sequence[str]) -> dict[str, Any]:
    """One turn of the JSON document of `turnwise score`; `of_turns` are the metrics that judge turns."""
    row, example = judged.row, judged.row.example
    return {
        "id": row.id,
        "file": row.file,
        "line": row.line,
        "system": row.system,
        "context_id": example.context_id if example else None,
        "dialogue_id": example.dialogue_id if example else None,
        "group": example.group if example else None,
        "scores": {key: judged.scores[key].value if example else None for key in of_turns},
        "notes": {key: str(score.note) for key, score in judged.scores.items() if score.note and key in of_turns},
        "error": str(row.error) if row.error else None,
    }


def metrics_of_turns(metrics: Mapping[str, Metric]) -> list[str]:
    """The metrics that have a score for a turn."""
    return [key for key, metric in metrics.items() if metric.per_turn]


def turn_frame(records: Iterable[Mapping[str, Any]], of_turns: Sequence[str]) -> pl.DataFrame:
    """Turns as a frame: one column per metric, and all notes in one."""
    rows = [
        [
            *(record[name] for name in FACTS),
            *(record["scores"][key] for key in of_turns),
            "; ".join(f"{key}: {note}" for key, note in record["notes"].items()) or None,
        ]
        for record in records
    ]
    return _frame(rows, of_turns, FACTS)


def in_chunks(records: Iterable[Any], size: int = TURNS_A_FILE) -> Iterator[list[Any]]:
    """So many at a time."""
    stream = iter(records)
    while chunk := list(islice(stream, size)):
        yield chunk


def write_turns(records: Iterable[Mapping[str, Any]], of_turns: Sequence[str], file: Path) -> None:
    """One Parquet file of turns, however many they are."""
    import polars as pl

    parts: list[Path] = []
    for number, chunk in enumerate(in_chunks(records)):
        parts.append(file.with_name(f".{file.stem}-{number:05d}.parquet"))
        turn_frame(chunk, of_turns).write_parquet(parts[-1])
    if len(parts) == 1:
        parts[0].replace(file)
        return
    pl.scan_parquet(parts).sink_parquet(file) if parts else turn_frame([], of_turns).write_parquet(file)
    for part in parts:
        part.unlink()


class Spool:
    """Turns on disk, written as they come. A file appears whole or not at all.

    `ready` is a file that gets every turn at once, a line each, for those who look while the run goes on.
    """

    def __init__(self, folder: Path, of_turns: Sequence[str], ready: Path | None = None) -> None:
        self.folder, self.of_turns = folder, list(of_turns)
        # In the order of the columns: a dict for every turn takes four times as much room.
        self._waiting: list[list[Any]] = []
        self._files = self._written = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._ready = None
        if ready is not None:
            # An earlier run's file is not written to, nor what a link leads to. A line is written when it is complete.
            ready.unlink(missing_ok=True)
            self._ready = ready.open("x", encoding="utf-8", newline="\n", buffering=1)

    @property
    def turns(self) -> int:
        """How many there are."""
        return self._written + len(self._waiting)

    def add(self, judged: Judged) -> None:
        """Write one turn."""
        record = turn_record(judged, self.of_turns)
        notes: Mapping[str, str] = record["notes"]
        kept = json.dumps(notes, ensure_ascii=False) if notes else None
        facts = [record[name] for name in FACTS]
        if self._ready is not None:
            self._ready.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
        self._waiting.append([judged.number, *facts, *record["scores"].values(), kept])
        if len(self._waiting) >= TURNS_A_FILE:
            self.flush()

    def flush(self) -> None:
        """Write what is left."""
        if not self._waiting:
            return
        file = self.folder / f"turns-{self._files:05d}.parquet"
        with atomic(file) as partial:
            _frame(self._waiting, self.of_turns, ("number", *FACTS)).write_parquet(partial)
        self._waiting, self._files, self._written = [], self._files + 1, self.turns

    def close(self) -> None:
        """Write what is left; nothing is added after it."""
        self.flush()
        if self._ready is not None:
            self._ready.close()

    def records(self) -> Iterator[dict[str, Any]]:
        """Every turn as a record of the JSON document."""
        self.flush()
        return spooled_records([self.folder], self.of_turns)


def spooled_records(folders: Sequence[Path], of_turns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The turns of several spools together, in the order of the run."""
    streams = [_rows(folder) for folder in folders]
    rows = streams[0] if len(streams) == 1 else heapq.merge(*streams, key=lambda row: row["number"])
    for row in rows:
        facts = {name: row[name] for name in FACTS if name != "error"}
        scores = {key: row[key] for key in of_turns}
        notes = json.loads(row["notes"]) if row["notes"] else {}
        yield {**facts, "scores": scores, "notes": notes, "error": row["error"]}


def clear_spool(folder: Path) -> None:
    """Remove the turns of an earlier run, which would be taken for those of the next."""
    for old in folder.glob(FILES):
        old.unlink()


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    import polars as pl

    for file in sorted(folder.glob(FILES)):
        yield from pl.read_parquet(file).iter_rows(named=True)


def _frame(rows: Sequence[Sequence[Any]], of_turns: Sequence[str], facts: Sequence[str]) -> pl.DataFrame:
    import polars as pl

    whole = {"line": pl.Int64, "number": pl.Int64}
    schema: dict[str, Any] = {name: whole.get(name, pl.String) for name in facts}
    schema |= dict.fromkeys(of_turns, pl.Float64) | {"notes": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")
