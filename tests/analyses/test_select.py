"""Best-of-N: what is picked, and ballots that say nothing to voters and everything to the key."""

from __future__ import annotations

import csv
import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnwise as tw
from turnwise.analyses.config import composite_of, save_config
from turnwise.analyses.select import COLUMNS, VOTES, count_votes, outcome, safe_cell, select, win_rate


@pytest.fixture
def many() -> list[dict[str, Any]]:
    """Forty contexts; `wordy` is the longest, `apt` shares most words with the reference, `none` is neither."""
    rows = []
    for number in range(40):
        for system, response in (
            ("none", "no"),
            ("wordy", "well one might say so and so on and on without an end"),
            ("apt", f"= yes , {number} tomatoes"),
        ):
            context = [f"how many on day {number} ?", "how many ?"]
            references = [f"yes , {number} tomatoes"]
            rows.append({"context": context, "response": response, "references": references, "system": system})
    return rows


def test_the_best_is_picked_for_every_context(two_systems: list[dict[str, Any]], tmp_path: Path) -> None:
    chosen = select(two_systems, "f1", save=tmp_path / "best.jsonl")
    assert {pick.example.system for pick in chosen.best.picks.values()} == {"good"}
    assert [(p.system, p.picked, p.contexts) for p in chosen.best.systems] == [("good", 12, 12), ("bad", 0, 12)]
    again = tw.evaluate(tmp_path / "best.jsonl", ["f1"])
    assert again.turns["f1"].to_list() == [1.0] * 12
    originals = [row["id"] for row in two_systems if row["system"] == "good"]
    assert again.turns["id"].to_list() == originals
    assert [item.row.example.ratings for item in again.judged if item.row.example] == [{"Overall": (5.0, 4.0)}] * 12


@pytest.mark.parametrize("name", ["chats.jsonl", "chats.json", "chats.csv"])
def test_picked_rows_keep_all_their_fields(name: str, tmp_path: Path) -> None:
    rows = [
        {"id": text, "context": "how?", "reply": text, "reference": "fine", "cost": "3", "seen by": "zoë"}
        for text in ("fine", "no")
    ]
    file = tmp_path / name
    if name.endswith(".csv"):
        with file.open("w", encoding="utf-8", newline="") as opened:
            table = csv.DictWriter(opened, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    else:
        file.write_text(json.dumps(rows) if name.endswith(".json") else "".join(json.dumps(r) + "\n" for r in rows))
    select(file, "f1", mapping={"response": "reply"}, save=tmp_path / "best.jsonl")
    (best,) = (tmp_path / "best.jsonl").read_text(encoding="utf-8").splitlines()
    kept = {"id": "fine", "context": ["how?"], "response": "fine", "references": ["fine"], "system": "chats"}
    assert json.loads(best) == kept | {"cost": "3", "seen by": "zoë"}


def test_the_picks_are_those_with_the_highest_score(many: list[dict[str, Any]]) -> None:
    scores = tw.evaluate(many, ["meteor"]).turns["meteor"].to_list()
    chosen = select(many, "meteor")
    assert [pick.score for pick in chosen.best.picks.values()] == [
        max(scores[start : start + 3]) for start in range(0, len(many), 3)
    ]


def test_a_metric_of_which_less_is_better_picks_the_least(many: list[dict[str, Any]], monkeypatch: Any) -> None:
    monkeypatch.setattr("turnwise.metrics.overlap.F1.higher_is_better", False)
    chosen = select(many[:3], "f1")
    assert [pick.example.system for pick in chosen.best.picks.values()] == ["none"]
    assert next(iter(chosen.best.picks.values())).score == 0.0


def test_ties_go_to_the_first_and_are_said() -> None:
    rows = [{"context": ["hi"], "response": text, "system": text} for text in ("a b", "c d", "e e")]
    chosen = select(rows, "distinct-1")
    (pick,) = chosen.best.picks.values()
    assert (pick.example.response, pick.tied, pick.candidates) == ("a b", 2, 3)
    assert any("1 contexts; the first" in note for note in chosen.notes)


def test_responses_without_a_score_are_not_picked() -> None:
    rows = [
        {"context": ["hi"], "response": "short"},
        {"context": ["hi"], "response": "two words"},
        {"context": ["ho"], "response": "short"},
        {"response": "two words"},
    ]
    chosen = select(rows, "distinct-2")
    assert [pick.example.response for pick in chosen.best.picks.values()] == ["two words"]
    assert any("1 rows have neither" in note for note in chosen.notes)
    assert any("picks nothing for 1 contexts" in note for note in chosen.notes)


def test_a_configured_metric_can_pick(two_systems: list[dict[str, Any]], tmp_path: Path) -> None:
    parts = [{"metric": "length", "weight": -1.0}]
    file = save_config(composite_of({"name": "brief", "parts": parts}), tmp_path / "brief.toml")
    chosen = select(two_systems, "brief", config=file, against="f1")
    assert {pick.example.system for pick in chosen.best.picks.values()} == {"bad"}
    assert len(chosen.ballots) == 12


# --- ballots ------------------------------------------------------------------------------------------------


def ballots(rows: list[dict[str, Any]], folder: Path, seed: int = 0) -> tuple[list[dict[str, str]], dict[str, Any]]:
    files = {"ballots": folder / "ballots.csv", "key": folder / "key.json"}
    select(rows, "meteor", against="entropy-1", seed=seed, overwrite=True, **files)
    with files["ballots"].open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file)), json.loads(files["key"].read_text())


def test_ballots_are_blind_and_the_key_is_not(many: list[dict[str, Any]], tmp_path: Path) -> None:
    rows, key = ballots(many, tmp_path)
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == 40 == len(key["ballots"])
    text = (tmp_path / "ballots.csv").read_text(encoding="utf-8-sig")
    assert not any(word in text for word in ("apt", "wordy", "meteor", "entropy"))
    sides = {entry["metric"] for entry in key["ballots"].values()}
    assert sides == {"A", "B"}
    for number, row in enumerate(rows):
        entry = key["ballots"][row["ballot"]]
        other = "B" if entry["metric"] == "A" else "A"
        assert row[f"response {entry['metric']}"] == f"'= yes , {number} tomatoes"
        assert row[f"response {other}"].startswith("well one might")
        assert (entry[entry["metric"]]["system"], entry[other]["system"]) == ("apt", "wordy")
        assert row["context"] == f"how many on day {number} ?\nhow many ?"


def test_the_order_depends_on_the_seed_alone(many: list[dict[str, Any]], tmp_path: Path) -> None:
    first, again, other = (ballots(many, tmp_path, seed)[1] for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_there_is_no_ballot_where_both_pick_the_same_words(two_systems: list[dict[str, Any]]) -> None:
    assert select(two_systems, "f1", against="meteor").ballots == []


@given(st.text(max_size=30))
def test_no_cell_is_a_formula(text: str) -> None:
    cell = safe_cell(text)
    assert cell in (text, f"'{text}")
    assert not cell.lstrip().startswith(("=", "+", "-", "@"))


def vote(folder: Path, rows: list[dict[str, str]], delimiter: str = ",") -> Path:
    path = folder / "votes.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_votes_are_counted_by_majority(many: list[dict[str, Any]], tmp_path: Path, delimiter: str) -> None:
    rows, key = ballots(many, tmp_path)
    # The votes of the paper's comparison with BERTScore: 24 wins, 12 losses, 14 ties of 50; here in fewer ballots.
    for number, row in enumerate(rows[:38]):
        mine = key["ballots"][row["ballot"]]["metric"]
        theirs = "B" if mine == "A" else "A"
        given = (mine, theirs.lower(), mine) if number < 24 else (theirs, "tie", theirs) if number < 36 else "AB"
        row |= dict(zip(VOTES, (*given, " Tie "), strict=False))
    counted = count_votes(vote(tmp_path, rows[::-1], delimiter), tmp_path / "key.json")
    assert (counted.metric, counted.against) == ("meteor", "entropy-1")
    assert (counted.wins, counted.losses, counted.ties, counted.incomplete) == (24, 12, 2, 2)
    assert counted.win_rate == pytest.approx(2 / 3)
    assert counted.notes == ["2 of 40 ballots do not have 3 votes and do not count"]
    assert list(counted.to_dict()) == [
        *("metric", "against", "wins", "losses", "ties", "incomplete", "win_rate", "low", "high", "p")
    ]


def test_every_vote_of_three_has_the_outcome_of_its_majority() -> None:
    for cast in product(("A", "B", "tie"), repeat=3):
        expected = "win" if cast.count("A") >= 2 else "loss" if cast.count("B") >= 2 else "tie"
        assert outcome(cast, "A") == expected
        swapped = [{"A": "B", "B": "A"}.get(one, one) for one in cast]
        assert outcome(swapped, "B") == expected


@pytest.mark.parametrize(("wins", "losses", "rate"), [(24, 12, 0.67), (19, 17, 0.53), (22, 17, 0.56), (30, 4, 0.88)])
def test_win_rates_of_the_paper(wins: int, losses: int, rate: float) -> None:
    value, low, high, p = win_rate(wins, losses)
    assert value == pytest.approx(rate, abs=0.005)
    n, z = wins + losses, 1.959963984540054
    centre = (wins + z * z / 2) / (n + z * z)
    reach = z / (n + z * z) * math.sqrt(wins * losses / n + z * z / 4)
    assert (low, high) == pytest.approx((centre - reach, centre + reach))
    tail = sum(math.comb(n, k) for k in range(max(wins, losses), n + 1)) / 2**n
    assert p == pytest.approx(min(1.0, 2 * tail))


def test_no_decided_ballot_has_no_rate() -> None:
    assert win_rate(0, 0) == (None, None, None, None)


def refused(call: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(tw.TurnwiseError) as raised:
        call(*arguments, **options)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_votes_that_cannot_be_counted_are_said(many: list[dict[str, Any]], tmp_path: Path) -> None:
    rows, _ = ballots(many, tmp_path)
    key = tmp_path / "key.json"
    assert ":5: vote 2: 'C' is not a vote" in refused(
        count_votes, vote(tmp_path, [*rows[:1], rows[1] | {"vote 2": "C"}]), key
    )
    assert "is not in" in refused(count_votes, vote(tmp_path, [rows[0] | {"ballot": "b1-0"}]), key)
    assert "second time" in refused(count_votes, vote(tmp_path, [rows[0], rows[0]]), key)
    (tmp_path / "bad.csv").write_text("ballot,vote 1\nx,A\n")
    assert "no column 'vote 2'" in refused(count_votes, tmp_path / "bad.csv", key)
    assert "cannot be read" in refused(count_votes, tmp_path / "absent.csv", key)
    assert "cannot be read" in refused(count_votes, tmp_path / "bad.csv", tmp_path / "absent.json")
    assert "not JSON" in refused(count_votes, tmp_path / "bad.csv", tmp_path / "bad.csv")
    (tmp_path / "other.json").write_text('{"ballots": {"x": 1}}')
    assert "not a key" in refused(count_votes, tmp_path / "bad.csv", tmp_path / "other.json")


def test_requests_that_make_no_sense_are_refused(two_systems: list[dict[str, Any]], tmp_path: Path) -> None:
    assert "no better or worse" in refused(select, two_systems, "length")
    assert "against itself" in refused(select, two_systems, "f1", against="f1")
    assert "`against`" in refused(select, two_systems, "f1", ballots=tmp_path / "b.csv", key=tmp_path / "k.json")
    assert "both" in refused(select, two_systems, "f1", against="meteor", ballots=tmp_path / "b.csv")
    assert "not known" in refused(select, two_systems, "f3")
    assert "no row has a context" in refused(select, [{"response": "hi"}], "distinct-1")
    assert "no score for any" in refused(select, [{"response": "hi", "context": ["a"]}], "f1")
    unwritable = tmp_path / "folder"
    unwritable.mkdir()
    assert "cannot be written" in refused(select, two_systems, "f1", out=unwritable)


def test_a_cell_without_text_stays_empty() -> None:
    assert safe_cell("") == ""


def test_what_is_no_number_is_written_as_null(tmp_path: Path) -> None:
    rows = [{"context": ["hi"], "response": "a b", "system": "one", "other": {"score": float("nan"), "list": [1.5]}}]
    chosen = tw.select(rows, "entropy-1", save=tmp_path / "best.jsonl")
    assert len(chosen.best.picks) == 1
    written = json.loads((tmp_path / "best.jsonl").read_text(), parse_constant=pytest.fail)
    assert written["other"] == {"score": None, "list": [1.5]}
