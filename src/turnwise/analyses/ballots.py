"""Blinded A/B ballots: written for voters without a word on which response is whose, read back and counted."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np

from turnwise.dialogue import Example
from turnwise.errors import TurnwiseError

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
class Votes:
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
        # The byte-order mark tells spreadsheets that this is UTF-8.
        with table.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            for ballot in ballots:
                texts = ("\n".join(ballot.a.context), ballot.a.response, ballot.b.response)
                writer.writerow([ballot.id, *map(safe_cell, texts), *([""] * VOTERS)])
        secret.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
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
    """Count filled-in ballots: three votes each, of A, B or tie; the majority decides, and without one it is a tie."""
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
