"""Where a reproduction works: the data and models at hand, and the analyses, each of whose answers is computed once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from turnwise.analyses.agree import AgreementRow, agreement
from turnwise.analyses.evaluate import Result, evaluate
from turnwise.analyses.metaevaluate import MetaRow, metaevaluate
from turnwise.dialogue import Example
from turnwise.engine.local import Ask
from turnwise.engine.session import Session
from turnwise.errors import TurnwiseError
from turnwise.files import write_json, write_text
from turnwise.io.read import read_rows
from turnwise.io.write import example_to_dict
from turnwise.metrics.registry import load_metric
from turnwise.models.manifest import MANIFEST
from turnwise.models.pack import load_models
from turnwise.reproduce.whole import fault
from turnwise.train.dialogues import Dialogue, read

Meta = dict[tuple[str, str, str], MetaRow]
T = TypeVar("T")
PAPER_MODELS = "paper"
# The folders of the data.
ROOMS = ("human", "test", "published", "see")
PROBE = Example("Yes.", ("Hi!", "Tea?", "Is it?"), ("No.",), ("Tea is hot.",), group="g")


@dataclass
class Room:
    """`limit` takes so many contexts of each corpus: for a first look, and for tests.

    `kept` is a folder where correlations are kept by all that they depend on, for other processes and later runs.
    """

    data: Path
    work: Path
    models: str | None = None
    device: str = "auto"
    cache: str | None = None
    seed: int = 0
    limit: int | None = None
    kept: Path | None = None
    _meta: dict[tuple[str, tuple[str, ...], str], Meta] = field(default_factory=dict)
    _agreed: dict[str, list[AgreementRow]] = field(default_factory=dict)
    _once: dict[str, Any] = field(default_factory=dict)
    _results: dict[tuple[str, tuple[str, ...]], Result] = field(default_factory=dict)

    # --- data ---------------------------------------------------------------------------------------------

    def corpus(self, name: str) -> Path:
        """The file of a rated corpus."""
        file = self.data / "human" / f"{name}.jsonl"
        if not file.is_file():
            raise TurnwiseError(f"human/{name}.jsonl is not among the data; see 'turnwise data list'")
        # A number of what is left of a damaged corpus would pass for one of the corpus.
        if wrong := self.once(f"fault of {file}", lambda: fault(file)):
            raise TurnwiseError(wrong)
        return file if self.limit is None else self._sample(file, self.limit)

    def published(self, name: str) -> Path:
        """A file that the authors published beside their data."""
        file = self.data / "published" / name
        if not file.is_file():
            raise TurnwiseError(f"published/{name} is not among the data")
        return file

    def dialogues(self, name: str) -> list[Dialogue]:
        """The dialogues of a test corpus."""
        file = self.data / "test" / f"{name}.jsonl.xz"
        plain = file.with_suffix("")
        if not (file.is_file() or plain.is_file()):
            raise TurnwiseError(f"test/{name}.jsonl.xz is not among the data; see 'turnwise data list'")
        return read([file if file.is_file() else plain])

    def examples(self, name: str) -> list[Example]:
        """The readable examples of a rated corpus."""
        return [row.example for row in read_rows([self.corpus(name)]) if row.example]

    def derived(self, name: str, rows: Iterable[Mapping[str, Any]]) -> Path:
        """A corpus made from others, written where the analyses can read it."""
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        return write_text(self.work / f"{name}.jsonl", lines)

    def _sample(self, file: Path, limit: int) -> Path:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        units = [row.get("group") or row.get("context_id") or row["id"] for row in rows]
        kept = set(list(dict.fromkeys(units))[:limit])
        return self.derived(file.stem, (row for row, unit in zip(rows, units, strict=True) if unit in kept))

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Something that several tables need, made when first asked for."""
        if name not in self._once:
            self._once[name] = make()
        found: T = self._once[name]
        return found

    def _without(self, file: Path, systems: Sequence[str]) -> Path:
        """A corpus without some of its systems."""
        rows = [example_to_dict(row.example) for row in read_rows([file]) if row.example]
        return self.derived(f"{file.stem}_correlated", (row for row in rows if row["system"] not in systems))

    # --- models -------------------------------------------------------------------------------------------

    @cached_property
    def roles(self) -> frozenset[str]:
        """What the models in use can be asked."""
        return self._session.roles

    @property
    def papers_models(self) -> bool:
        """Whether the papers' own models are in use."""
        return self.models == PAPER_MODELS

    @cached_property
    def _session(self) -> Session:
        return Session(self.models, self.device, self.cache)

    @property
    def ask(self) -> Ask:
        """Puts requests to the models."""
        return self._session.answer

    def lacking(self, request: str) -> str:
        """Why a metric cannot be computed here; empty if it can."""
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
        file = corpus if isinstance(corpus, Path) else self.corpus(corpus)
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
        result = metaevaluate(
            self._without(file, exclude) if exclude else file, requests, level=level,  # type: ignore[arg-type]
            seed=self.seed, models=self.models, device=self.device, cache=self.cache,
        )  # fmt: skip
        if place:
            write_json(place, [asdict(row) for row in result.rows], indent=None)
        return result.rows

    def agreed(self, corpus: str | Path) -> list[AgreementRow]:
        """How far raters agree."""
        file = corpus if isinstance(corpus, Path) else self.corpus(corpus)
        if str(file) not in self._agreed:
            self._agreed[str(file)] = agreement(file, seed=self.seed).rows
        return self._agreed[str(file)]

    def scored(self, corpus: str | Path, requests: Sequence[str]) -> Result:
        """The scores of a corpus."""
        file = corpus if isinstance(corpus, Path) else self.corpus(corpus)
        key = (str(file), tuple(requests))
        if key not in self._results:
            self._results[key] = self.evaluated(file, requests)
        return self._results[key]

    def evaluated(self, source: object, requests: Sequence[str], *, intervals: bool = True) -> Result:
        """The scores of anything that the verb takes; they are not kept."""
        return evaluate(
            source, list(requests), seed=self.seed, models=self.models, device=self.device, cache=self.cache,
            intervals=intervals,
        )  # fmt: skip

    # --- what results depend on -----------------------------------------------------------------------------

    @cached_property
    def made_from(self) -> str:
        """A name for everything that determines the numbers: data, models, seed, and this program."""
        parts = [f"{self.models}", f"{self.seed}", f"{self.limit}"]
        source = load_models(self.models)
        parts.append(source.label(source.roles))
        if (folder := getattr(source, "folder", None)) is not None:
            parts.append(_digest([Path(folder) / MANIFEST]))
        parts.append(_digest(sorted(path for room in ROOMS for path in self._files(room))))
        parts.append(_digest(program_files(Path(__file__).parents[1])))
        return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]

    def _files(self, room: str) -> Iterable[Path]:
        return (path for path in (self.data / room).rglob("*") if path.is_file())


def program_files(package: Path) -> list[Path]:
    """The program and the tables that come with it; packs are known by their manifests."""
    left_out = {"packs", "__pycache__"}
    files = (file for file in package.rglob("*") if file.is_file())
    return sorted(file for file in files if not left_out.intersection(file.relative_to(package).parts))


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
