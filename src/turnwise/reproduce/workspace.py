"""Data and models at hand, and the analyses, each of whose answers is computed once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from turnwise.analyses.agreement import AgreementRow, agreement
from turnwise.analyses.evaluate import Result, evaluate
from turnwise.analyses.metaevaluate import MetaRow, metaevaluate
from turnwise.dialogue import Example, Row
from turnwise.engine.score import Ask
from turnwise.engine.session import Session
from turnwise.errors import TurnwiseError
from turnwise.files import write_json, write_text
from turnwise.io.read import read_rows
from turnwise.io.write import example_to_dict
from turnwise.metrics.registry import load_metric
from turnwise.models.pack import MANIFEST, load_models
from turnwise.train.dialogues import Dialogue, read

_USR = ("Understandable", "Natural", "Maintains Context", "Engaging", "Uses Knowledge", "Overall")
_ZHAO = ("content", "grammar", "relevance", "appropriateness")
# By file; those that nobody rated are not here.
RATED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("usr_topicalchat", "usr_personachat", "fbd_personam"), _USR),
    **dict.fromkeys(("zhao_dailydialog", "fbd_dailyz"), _ZHAO),
    **dict.fromkeys(("zhao_personachat", "fbd_personaz"), ("appropriateness",)),
    **dict.fromkeys((f"grade_{name}" for name in ("convai2", "dailydialog", "empatheticdialogues")), ("coherence",)),
    **dict.fromkeys((f"fbd_{name}" for name in ("dailyh", "convai2", "empathetic")), ("coherence",)),
    **dict.fromkeys((f"holistic_logic_{name}" for name in ("ws", "ctg", "baseline")), ("logical_consistency",)),
    "holistic_coherence": ("context_coherence",),
    "holistic_fluency": ("fluency",),
}


def fault(file: Path) -> str:
    """Return what is wrong with the first row of a corpus that cannot be used; empty if all are whole."""
    rows = list(read_rows([file]))
    name = f"{file.parent.name}/{file.name}"
    if not rows:
        return f"{name}: no rows in it"
    wrong = ((row.line, why) for row in rows if (why := _wrong(row, RATED.get(file.stem, ()))))
    return next((f"{name}:{line}: {why}" for line, why in wrong), "")


def _wrong(row: Row, rated: tuple[str, ...]) -> str:
    if row.example is None:
        return str(row.error or "it cannot be read")
    absent = [quality for quality in rated if not row.example.ratings.get(quality)]
    return f"no rating of {' and of '.join(map(repr, absent))}" if absent else ""


Meta = dict[tuple[str, str, str], MetaRow]
T = TypeVar("T")
PAPER_MODELS = "paper"
# Raise it when metrics or statistics change what tables show. A paper has a version of its own beside it.
VERSION = "1"
# The folders of the data.
FOLDERS = ("human", "test", "published", "see")
PROBE = Example("Yes.", ("Hi!", "Tea?", "Is it?"), ("No.",), ("Tea is hot.",), group="g")


@dataclass
class Workspace:
    """`limit` takes so many contexts of each corpus: for a first look, and for tests.

    `kept` is a folder where correlations are kept by all that they depend on, for other processes and later runs.
    """

    data: Path
    work: Path
    models: str | Path | None = None
    device: str = "auto"
    cache: str | Path | None = None
    seed: int = 0
    limit: int | None = None
    kept: Path | None = None
    _meta: dict[tuple[str, tuple[str, ...], str], Meta] = field(default_factory=dict)
    _once: dict[object, Any] = field(default_factory=dict)

    # --- data ---------------------------------------------------------------------------------------------

    def corpus(self, name: str) -> Path:
        """Return the file of a rated corpus."""
        file = self.data / "human" / f"{name}.jsonl"
        if not file.is_file():
            raise TurnwiseError(f"human/{name}.jsonl is not among the data; see 'turnwise data list'")
        # A number of what is left of a damaged corpus would pass for one of the corpus.
        if wrong := self.once(f"fault of {file}", lambda: fault(file)):
            raise TurnwiseError(wrong)
        return file if self.limit is None else self._sample(file, self.limit)

    def _file(self, corpus: str | Path) -> Path:
        return corpus if isinstance(corpus, Path) else self.corpus(corpus)

    def published(self, name: str) -> Path:
        """Return a file that the authors published beside their data."""
        file = self.data / "published" / name
        if not file.is_file():
            raise TurnwiseError(f"published/{name} is not among the data")
        return file

    def dialogues(self, name: str) -> list[Dialogue]:
        """Return the dialogues of a test corpus."""
        file = self.data / "test" / f"{name}.jsonl.xz"
        plain = file.with_suffix("")
        if not (file.is_file() or plain.is_file()):
            raise TurnwiseError(f"test/{name}.jsonl.xz is not among the data; see 'turnwise data list'")
        return read([file if file.is_file() else plain])

    def examples(self, name: str) -> list[Example]:
        """Return the readable examples of a rated corpus."""
        return [row.example for row in read_rows([self.corpus(name)]) if row.example]

    def derived(self, name: str, rows: Iterable[Mapping[str, Any]]) -> Path:
        """Return a corpus made from others, written where the analyses can read it."""
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        return write_text(self.work / f"{name}.jsonl", lines)

    def _sample(self, file: Path, limit: int) -> Path:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        units = [row.get("group") or row.get("context_id") or row["id"] for row in rows]
        kept = set(list(dict.fromkeys(units))[:limit])
        return self.derived(file.stem, (row for row, unit in zip(rows, units, strict=True) if unit in kept))

    def once(self, name: object, make: Callable[[], T]) -> T:
        """Return what several tables need, made at the first call."""
        if name not in self._once:
            self._once[name] = make()
        found: T = self._once[name]
        return found

    def _without(self, file: Path, systems: Sequence[str]) -> Path:
        """Return a corpus without some of its systems."""
        rows = [example_to_dict(row.example) for row in read_rows([file]) if row.example]
        return self.derived(f"{file.stem}_correlated", (row for row in rows if row["system"] not in systems))

    # --- models -------------------------------------------------------------------------------------------

    @cached_property
    def roles(self) -> frozenset[str]:
        """Return the roles of the models in use."""
        return self._session.roles

    @property
    def papers_models(self) -> bool:
        """Return whether the papers' own models are in use."""
        return self.models == PAPER_MODELS

    @cached_property
    def _session(self) -> Session:
        return Session(self.models, self.device, self.cache)

    @property
    def ask(self) -> Ask:
        """Puts requests to the models."""
        return self._session.answer

    @property
    def models_in_use(self) -> dict[str, Any]:
        """Return the options of an analysis that say which models answer, and where."""
        return {"models": self.models, "device": self.device, "cache": self.cache}

    def require(self, *requests: str) -> None:
        """Raise unless the models of these metrics are available."""
        if why := next(filter(None, map(self.lacking, requests)), ""):
            raise TurnwiseError(why)

    def lacking(self, request: str) -> str:
        """Return why a metric cannot be computed here; empty if it can."""
        try:
            metric = load_metric(request)
        except TurnwiseError as problem:
            return str(problem)
        # An option may name another model than the class does; what is asked of an example tells.
        asked = {role for request in metric.requests(PROBE) if (role := getattr(request, "role", None))}
        absent = sorted((metric.roles | asked) - self.roles)
        return f"the models in use have no {' and no '.join(repr(role) for role in absent)}" if absent else ""

    # --- analyses -------------------------------------------------------------------------------------------

    def meta(
        self, corpus: str | Path, requests: Sequence[str], exclude: Sequence[str] = (), level: str = "all"
    ) -> Meta:
        """Correlations by metric, level and quality."""
        file = self._file(corpus)
        known = {one: self._meta.get((str(file), (one, *exclude), level)) for one in dict.fromkeys(requests)}
        if fresh := [one for one, found in known.items() if found is None]:
            found = self._correlated(file, fresh, exclude, level)
            for one in fresh:
                rows: Meta = {(r.metric, r.level, r.quality): r for r in found if r.metric == one}
                self._meta[str(file), (one, *exclude), level] = known[one] = rows
        return {key: row for rows in known.values() if rows for key, row in rows.items()}

    def _correlated(self, file: Path, requests: Sequence[str], exclude: Sequence[str], level: str) -> list[MetaRow]:
        facts = [self.made_from, file.stem, _digest([file]), *requests, "", *exclude, level] if self.kept else []
        place = self.kept / f"{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]}.json" if self.kept else None
        if place and (known := _rows_in(place)) is not None:
            return known
        # Left out before anything is scored: what is standardised over a corpus is so over what is correlated.
        source = self._without(file, exclude) if exclude else file
        rows = metaevaluate(source, requests, level=level, seed=self.seed, **self.models_in_use).rows  # type: ignore[arg-type]
        if place:
            write_json(place, [asdict(row) for row in rows], indent=None)
        return rows

    def agreed(self, corpus: str | Path) -> list[AgreementRow]:
        """Return how far raters agree."""
        file = self._file(corpus)
        return self.once(("agreed", file), lambda: agreement(file, seed=self.seed).rows)

    def scored(self, corpus: str | Path, requests: Sequence[str]) -> Result:
        """Return the scores of a corpus."""
        file = self._file(corpus)
        return self.once(("scored", file, *requests), lambda: self.evaluated(file, requests))

    def evaluated(self, source: object, requests: Sequence[str], *, intervals: bool = True) -> Result:
        """Return the scores of anything that the verb takes; they are not kept."""
        return evaluate(source, list(requests), intervals=intervals, seed=self.seed, **self.models_in_use)

    # --- what results depend on -----------------------------------------------------------------------------

    @cached_property
    def made_from(self) -> str:
        """Return a name for all that determines the numbers: data, models, seed, and the version of this program."""
        from turnwise import __version__

        parts = [__version__, VERSION, f"{self.models}", f"{self.seed}", f"{self.limit}"]
        source = load_models(self.models)
        parts.append(source.label(source.roles))
        if (folder := getattr(source, "folder", None)) is not None:
            parts.append(_digest([Path(folder) / MANIFEST]))
        files = (path for folder in FOLDERS for path in (self.data / folder).rglob("*") if path.is_file())
        parts.append(_digest(sorted(files)))
        return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]


def _rows_in(place: Path) -> list[MetaRow] | None:
    try:
        return [MetaRow(**row) for row in json.loads(place.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return None


def _digest(files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for file in files:
        total.update(file.name.encode())
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()
