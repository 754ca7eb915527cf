"""`select`: the best response to every context by any metric, and blinded ballots between two metrics."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Literal, Unpack

import numpy as np

from turnwise.analyses.evaluate import check_targets, evaluated
from turnwise.analyses.result import Framed
from turnwise.analyses.targets import keep_work
from turnwise.dialogue import Example
from turnwise.engine.score import Judged, context_key
from turnwise.errors import TurnwiseError
from turnwise.files import atomic, write_text
from turnwise.io.write import example_to_dict
from turnwise.metrics.base import Metric
from turnwise.metrics.registry import load_metric
from turnwise.options import Run, RunOptions, renamed
from turnwise.problems import Problem

VOTERS = 3
VOTES = tuple(f"vote {number}" for number in range(1, VOTERS + 1))
COLUMNS = ("ballot", "context", "response A", "response B", *VOTES)
Side = Literal["A", "B"]
Outcome = Literal["win", "loss", "tie"]


@dataclass(frozen=True, slots=True)
class Ballot:
    """One question to the voters. `first` is the side on which the first metric's pick stands."""

    id: str
    a: Example
    b: Example
    first: Side


@dataclass(frozen=True, slots=True)
class Votes(Framed):
    """The first metric's wins, losses and ties against the second; the win rate leaves ties out."""

    metric: str
    against: str
    wins: int
    losses: int
    ties: int
    incomplete: int
    win_rate: float | None
    low: float | None
    high: float | None
    p: float | None
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `turnwise select --votes --format json`."""
        return {name: value for name, value in asdict(self).items() if name != "notes"}


def make_ballots(pairs: Sequence[tuple[Example, Example]], *, seed: int) -> list[Ballot]:
    """One ballot per pair of picks; a seeded coin decides on which side the first stands."""
    coins = np.random.default_rng(seed).integers(0, 2, size=len(pairs)).tolist()
    ballots = []
    for number, ((ours, theirs), heads) in enumerate(zip(pairs, coins, strict=True), start=1):
        a, b = (ours, theirs) if heads else (theirs, ours)
        # Part of the content is in the name, so that a key cannot be used for other ballots by mistake.
        text = "\x1f".join((*a.context, a.response, b.response)).encode()
        name = f"b{number}-{blake2b(text, digest_size=3).hexdigest()}"
        ballots.append(Ballot(name, a, b, "A" if heads else "B"))
    return ballots


def write_ballots(
    ballots: Sequence[Ballot], metrics: tuple[str, str], path: str | Path, key: str | Path
) -> tuple[Path, Path]:
    """Write the table for the voters, and the key that stays with you."""
    table, secret = Path(path), Path(key)
    content = {
        "metric": metrics[0],
        "against": metrics[1],
        "ballots": {
            ballot.id: {"metric": ballot.first, "A": _origin(ballot.a), "B": _origin(ballot.b)} for ballot in ballots
        },
    }
    try:
        # Both or neither: ballots without their key cannot be counted. The byte-order mark tells spreadsheets that
        # this is UTF-8.
        with atomic(table) as ours, atomic(secret) as theirs:
            with ours.open("w", encoding="utf-8-sig", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(COLUMNS)
                for ballot in ballots:
                    texts = ("\n".join(ballot.a.context), ballot.a.response, ballot.b.response)
                    writer.writerow([ballot.id, *map(safe_cell, texts), *([""] * VOTERS)])
            theirs.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    except OSError as problem:
        raise TurnwiseError(f"{problem.filename}: cannot be written ({problem.strerror}); choose another") from None
    return table, secret


def safe_cell(text: str) -> str:
    """Text that a spreadsheet will show and never compute.

    >>> safe_cell("=1+1"), safe_cell("fine"), safe_cell("")
    ("'=1+1", 'fine', '')
    """
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) or text.startswith(("\t", "\r", "\n")) else text


def count_votes(votes: str | Path, key: str | Path) -> Votes:
    """Count filled-in ballots: three votes each, of A, B or tie; without a majority it is a tie.

    Args:
        votes: The table of ballots that voters filled in.
        key: The file that `select` wrote beside it.

    Returns:
        Wins, losses and ties of the first metric, with the interval and p of its win rate.

    >>> import tempfile, turnwise as tw
    >>> replies = {"a": "Yes.", "b": "Yes, yes, please."}
    >>> given = {"context": ["Tea?"], "references": ["Yes, yes, please."]}
    >>> rows = [{**given, "system": system, "response": text} for system, text in replies.items()]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table, key = Path(folder, "ballots.csv"), Path(folder, "key.json")
    ...     _ = tw.select(rows, "f1", against="distinct-1", ballots=table, key=key)
    ...     _ = table.write_text(table.read_text(encoding="utf-8-sig").replace(",,,", ",tie,tie,tie"))
    ...     votes = tw.count_votes(table, key)
    >>> votes.wins, votes.losses, votes.ties
    (0, 0, 1)
    """
    secret = _read_key(Path(key))
    sides: dict[str, Side] = {ballot: entry["metric"] for ballot, entry in secret["ballots"].items()}
    outcomes: Counter[Outcome] = Counter()
    seen: set[str] = set()
    complete = 0
    for place, ballot, given in _read_votes(Path(votes)):
        if ballot not in sides:
            raise TurnwiseError(f"{place}: ballot '{ballot}' is not in {key}; give the key that came with the ballots")
        if ballot in seen:
            raise TurnwiseError(f"{place}: ballot '{ballot}' comes a second time; keep one line for each")
        seen.add(ballot)
        if len(given) == VOTERS:
            complete += 1
            outcomes[outcome(given, sides[ballot])] += 1
    wins, losses = outcomes["win"], outcomes["loss"]
    incomplete = len(sides) - complete
    notes = [f"{incomplete} of {len(sides)} ballots do not have {VOTERS} votes and do not count"] if incomplete else []
    rate = win_rate(wins, losses)
    return Votes(secret["metric"], secret["against"], wins, losses, outcomes["tie"], incomplete, *rate, notes=notes)


def outcome(given: Sequence[str], first: Side) -> Outcome:
    """What the majority says of the pick on side `first`.

    >>> outcome(["A", "B", "A"], "A"), outcome(["A", "B", "tie"], "A")
    ('win', 'tie')
    """
    for side in ("A", "B"):
        if 2 * list(given).count(side) > len(given):
            return "win" if side == first else "loss"
    return "tie"


def win_rate(wins: int, losses: int) -> tuple[float | None, float | None, float | None, float | None]:
    """Wins as a share of wins and losses, its 95 % Wilson interval, and the p of the two-sided sign test."""
    if wins + losses == 0:
        return None, None, None, None
    from scipy.stats import binomtest

    test = binomtest(wins, wins + losses)
    interval = test.proportion_ci(0.95, method="wilson")
    return wins / (wins + losses), float(interval.low), float(interval.high), float(test.pvalue)


def _origin(example: Example) -> dict[str, str]:
    return {"id": example.id, "system": example.system}


def _read_key(file: Path) -> dict[str, Any]:
    mend = "give the key that 'turnwise select --key' wrote"
    try:
        key = json.loads(file.read_text(encoding="utf-8"))
    except OSError as problem:
        raise TurnwiseError(f"{file}: cannot be read ({problem.strerror}); check the path") from None
    except ValueError:
        raise TurnwiseError(f"{file}: not JSON; {mend}") from None
    try:
        sound = all(entry["metric"] in ("A", "B") for entry in key["ballots"].values())
        sound = sound and isinstance(key["metric"], str) and isinstance(key["against"], str)
    except (AttributeError, KeyError, TypeError):
        sound = False
    if not sound:
        raise TurnwiseError(f"{file}: not a key of ballots; {mend}")
    return dict(key)


def _read_votes(file: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Where each ballot stands, its name, and the votes that were given."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise TurnwiseError(f"{file}: cannot be read ({problem.strerror}); check the path") from None
    except UnicodeDecodeError:
        raise TurnwiseError(f"{file}: not written as UTF-8; save the table as CSV UTF-8") from None
    header = text.partition("\n")[0]
    # Spreadsheets of some languages save with another separator.
    delimiter = next((mark for mark in ";\t" if mark in header), ",")
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    if absent := [name for name in ("ballot", *VOTES) if name not in (rows.fieldnames or ())]:
        raise TurnwiseError(f"{file}: no column '{absent[0]}'; keep the columns of the ballots as they were")
    for row in rows:
        place = f"{file}:{rows.line_num}"
        if any((value or "").strip() for name, value in row.items() if name is not None):
            yield place, (row["ballot"] or "").strip(), _votes(row, place)


def _votes(row: dict[str, Any], place: str) -> list[str]:
    known = {"a": "A", "b": "B", "tie": "tie"}
    votes = []
    for column in VOTES:
        given = (row[column] or "").strip()
        if given.lower() not in {"", *known}:
            raise TurnwiseError(f"{place}: {column}: '{given}' is not a vote; write A, B or tie")
        if given:
            votes.append(known[given.lower()])
    return votes


@dataclass(frozen=True, slots=True)
class Pick:
    """The best of `candidates` responses to one context; `tied` says how many shared the best score.

    `more` are fields of its row that are none of ours.
    """

    example: Example
    score: float
    candidates: int
    tied: int
    more: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """What to say of a pick in a document."""
        example = self.example
        where = {"context_id": example.context_id, "id": example.id, "system": example.system}
        return {**where, "score": self.score, "candidates": self.candidates, "tied": self.tied}


@dataclass(frozen=True, slots=True)
class Picked:
    """How often a system was picked, out of the contexts that it answered."""

    system: str
    picked: int
    contexts: int


@dataclass
class Choice:
    """What one metric picks."""

    metric: str
    picks: dict[int, Pick]
    systems: list[Picked]


@dataclass
class Selection(Framed):
    """What a metric picks for every context; with a second metric, also its picks and the ballots between the two."""

    main: ClassVar[str] = "picks"

    best: Choice
    against: Choice | None = None
    ballots: list[Ballot] = field(default_factory=list)
    out: Path | None = None
    files: tuple[Path, Path] | None = None
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `turnwise select --format json`."""
        ballots, key = self.files or (None, None)
        return {
            "metric": self.best.metric,
            "picks": [pick.to_dict() for pick in self.best.picks.values()],
            "systems": [asdict(picked) for picked in self.best.systems],
            "out": None if self.out is None else str(self.out),
            "against": None
            if self.against is None
            else {
                "metric": self.against.metric,
                "picks": [pick.to_dict() for pick in self.against.picks.values()],
                "systems": [asdict(picked) for picked in self.against.systems],
                "differ": len(self.ballots),
                "ballots": None if ballots is None else str(ballots),
                "key": None if key is None else str(key),
            },
        }

    def save(self, path: str | Path) -> Path:
        """Write the picked responses as native rows, one JSON object a line."""
        rows = ({**example_to_dict(pick.example), **_finite(pick.more)} for pick in self.best.picks.values())
        return write_text(path, (json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows))


def _finite(value: Any) -> Any:
    """A value as JSON can have it: what is no number is null."""
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def select(
    source: object,
    metric: str,
    *,
    against: str | None = None,
    save: str | Path | None = None,
    ballots: str | Path | None = None,
    key: str | Path | None = None,
    overwrite: bool = False,
    **options: Unpack[RunOptions],
) -> Selection:
    """Pick the best response to every context by a metric; of equal ones the first is taken.

    Args:
        source: Rows with several responses to a context.
        metric: The metric that picks; it may be the name of `config`.
        against: A second metric, which picks too. If the two differ, people can decide.
        save: The file for the picked rows, as JSON Lines.
        ballots: The table for voters, which does not say which pick is whose.
        key: The file that says it.
        overwrite: Whether files that exist may be replaced.
        options: The options of a run, by name: see `turnwise.options.RunOptions`.

    Returns:
        The picks, how often each system was picked, and the ballots between two metrics.

    >>> import turnwise as tw
    >>> replies = {"a": "Yes.", "b": "Yes, yes, please."}
    >>> rows = [{"system": system, "context": ["Tea?"], "response": text} for system, text in replies.items()]
    >>> tw.select(rows, "distinct-1").frame.select("system", "score").rows()
    [('a', 1.0)]
    """
    save = renamed(options, "out", "save", save)
    _check_request(metric, against, ballots, key)
    run = Run.of(**options)
    composite = run.config
    for name in (metric, *([against] if against else ())):
        _check_direction(name, composite if composite is not None and name == composite.name else load_metric(name))
    outputs = [None if file is None else Path(file) for file in (save, ballots, key)]
    check_targets(source, files=outputs)
    check_targets(options.get("config"), files=outputs)
    keep_work(outputs, overwrite=overwrite)
    result = evaluated(source, [metric, *([against] if against else ())], run, intervals=False)
    candidates, notes = _candidates(result.judged)
    notes = [*result.notes, *notes]
    best = _choose(metric, result.metrics[metric], candidates, notes)
    selection = Selection(best, notes=notes, problems=result.problems)
    if against is not None:
        other = _choose(against, result.metrics[against], candidates, notes)
        pairs = [
            (pick.example, other.picks[context].example)
            for context, pick in best.picks.items()
            if context in other.picks and pick.example.response != other.picks[context].example.response
        ]
        selection = replace(selection, against=other, ballots=make_ballots(pairs, seed=run.seed))
        if ballots is not None and key is not None:
            files = write_ballots(selection.ballots, (metric, against), ballots, key)
            selection = replace(selection, files=files)
    return selection if save is None else replace(selection, out=selection.save(save))


def _check_request(metric: str, against: str | None, ballots: object, key: object) -> None:
    if against is None and (ballots or key):
        raise TurnwiseError("ballots are between two metrics; name the second with `against`")
    if against == metric:
        raise TurnwiseError(f"{metric} cannot be set against itself; name another metric")
    if bool(ballots) != bool(key):
        raise TurnwiseError("ballots need a key that says which pick is whose; give both `ballots` and `key`")


def _check_direction(name: str, metric: Metric) -> None:
    if not metric.per_turn:
        raise TurnwiseError(f"{name} has no score for a single response; select by another metric")
    if metric.higher_is_better is None:
        raise TurnwiseError(f"{name} has no better or worse; select by another metric")


def _candidates(judged: Sequence[Judged]) -> tuple[dict[int, list[Judged]], list[str]]:
    """The readable responses to each context, in order."""
    candidates: dict[int, list[Judged]] = {}
    homeless = 0
    for item in judged:
        example = item.row.example
        if example is None:
            continue
        if example.context_id is None and not example.context:
            homeless += 1
            continue
        candidates.setdefault(context_key(example), []).append(item)
    if not candidates:
        raise TurnwiseError("no row has a context or a context_id; without one there is nothing to choose between")
    notes = [f"{homeless} rows have neither a context nor a context_id and are left out"] if homeless else []
    alone = sum(len(items) == 1 for items in candidates.values())
    if alone:
        notes.append(f"{alone} of {len(candidates)} contexts have one response only; there it is the best")
    return candidates, notes


def _choose(name: str, metric: Metric, candidates: Mapping[int, list[Judged]], notes: list[str]) -> Choice:
    sign = 1.0 if metric.higher_is_better else -1.0
    picks: dict[int, Pick] = {}
    for context, items in candidates.items():
        scored = [(item, value) for item in items if (value := item.scores[name].value) is not None]
        if not scored:
            continue
        best = max(sign * value for _, value in scored)
        tied = [item for item, value in scored if sign * value == best]
        row = tied[0].row
        if row.example is not None:
            picks[context] = Pick(row.example, sign * best, len(items), len(tied), row.more or {})
    if not picks:
        raise TurnwiseError(f"{name} has no score for any response; see the notes of 'turnwise score'")
    if len(picks) < len(candidates):
        notes.append(f"{name} picks nothing for {len(candidates) - len(picks)} contexts: no response has a score")
    if ties := sum(pick.tied > 1 for pick in picks.values()):
        notes.append(f"{name} gives several responses the best score in {ties} contexts; the first of them is taken")
    return Choice(name, picks, _by_system(picks, candidates))


def _by_system(picks: Mapping[int, Pick], candidates: Mapping[int, list[Judged]]) -> list[Picked]:
    """Systems by how often they were picked; those who never were come too."""
    answered: dict[str, int] = {}
    for items in candidates.values():
        for system in dict.fromkeys(item.row.example.system for item in items if item.row.example):
            answered[system] = answered.get(system, 0) + 1
    chosen = [pick.example.system for pick in picks.values()]
    counted = [Picked(system, chosen.count(system), contexts) for system, contexts in answered.items()]
    return sorted(counted, key=lambda picked: -picked.picked)
