"""`augment`: files for a system to answer, and systems that are driven, killed, resumed and scored."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from turnwise.analyses import drive
from turnwise.analyses.augment import augment
from turnwise.analyses.drive import unrelated_groups
from turnwise.analyses.evaluate import evaluate
from turnwise.bots.base import BotError, Prompt
from turnwise.bots.open import BotOptions, mark_of
from turnwise.dialogue import Example
from turnwise.engine.score import context_key
from turnwise.engine.session import Session
from turnwise.errors import TurnwiseError
from turnwise.io.read import read_rows

QUERIES = [
    "My sister bought a small car.",
    "The doctor repaired an old boat.",
    "Do children hate big dogs?",
    "Would you purchase a cheap house?",
    "She quickly ate the big cake.",
]
ROWS: list[dict[str, Any]] = [
    {
        "id": f"q{i}",
        "context": ["Hello!", "Hi, what is new?", query],
        "response": f"True answer {i}.",
        "system": "human",
    }
    for i, query in enumerate(QUERIES)
]


class Scripted:
    """Says what a function of the prompt says, and counts."""

    name = "scripted"

    def __init__(self, answer=lambda prompt: f"You said: {prompt.context[-1]}") -> None:
        self.answer, self.asked, self.closed = answer, list[Prompt](), False

    def reply(self, prompt: Prompt) -> str:
        self.asked.append(prompt)
        return self.answer(prompt)

    def close(self) -> None:
        self.closed = True


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- files for a system that is not at hand -------------------------------------------------------------


def test_a_file_of_paraphrases_that_a_system_answers_and_we_score(tmp_path: Path) -> None:
    out = tmp_path / "asked.jsonl"
    made = augment(ROWS, save=out)
    rows = read(out)
    assert rows == made.rows
    assert all("response" not in row for row in rows)
    groups = {row["group"] for row in rows}
    assert groups == {f"q{i}" for i in range(5)}
    for row in rows:
        original = ROWS[int(row["group"][1:])]["context"]
        assert row["context"][:-1] == original[:-1]
        assert (row["context"][-1] == original[-1]) == (row["variant"] == "as said")
    answered = tmp_path / "answered.jsonl"
    answered.write_text("".join(json.dumps(row | {"response": row["context"][-1]}) + "\n" for row in rows))
    result = evaluate(answered, ["diversity"])
    assert not result.problems
    assert len(result.to_dict()["groups"]) == 5


def test_for_consistency_each_system_is_asked_again_after_its_own_answer() -> None:
    more = [*ROWS, *({**row, "id": f"{row['id']}-b", "response": "Maybe.", "system": "bot"} for row in ROWS)]
    made = augment(more, purpose="consistency")
    assert len(made.rows) == 10
    first, second = made.rows[:2]
    assert first["context"][:4] == [*ROWS[0]["context"], "True answer 0."]
    assert first["context"][4] != ROWS[0]["context"][-1]
    assert (second["system"], second["context"][3]) == ("bot", "Maybe.")
    assert len({row["id"] for row in made.rows}) == 10


def test_speakers_stay_with_their_turns() -> None:
    row = ROWS[0] | {"speakers": ["A", "B", "C", "B"]}
    again = augment([row], purpose="consistency").rows[0]
    assert again["speakers"] == ["A", "B", "C", "B", "C", "B"]
    assert augment([row]).rows[1]["speakers"] == ["A", "B", "C", "B"]


def test_the_released_style() -> None:
    rows = augment(ROWS[:1], style="released").rows
    assert len(rows) == 5
    assert all(row["context"][-1] == row["context"][-1].lower() for row in rows[1:])


def test_what_cannot_be_said_otherwise_is_noted() -> None:
    made = augment([*ROWS, {"id": "x", "context": ["Oh!"], "response": "What?"}, {"id": "y", "response": "Lonely."}])
    assert "rows without a context to ask anew: 1" in made.notes
    assert any(note.startswith("queries with fewer than 4 other ways to ask") for note in made.notes)
    assert [row["id"] for row in made.rows if row["group"] == "x"] == ["x/0"]
    with pytest.raises(TurnwiseError, match="nothing to ask"):
        augment([{"id": "y", "response": "Lonely."}])


def test_limit_and_variants() -> None:
    made = augment(ROWS, variants=2, limit=2)
    assert [row["id"] for row in made.rows] == ["q0/0", "q0/1", "q0/2", "q1/0", "q1/1", "q1/2"]


def test_faulty_rows_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text(json.dumps(ROWS[0]) + "\n{broken\n")
    assert "chats.jsonl:2" in augment(file).problems[0].place
    with pytest.raises(TurnwiseError, match=r"chats\.jsonl:2"):
        augment(file, strict=True)


# --- the baseline ---------------------------------------------------------------------------------------


def test_unrelated_groups_share_no_context_and_no_dialogue() -> None:
    examples = [
        Example(f"r{i}{system}", (f"context {i}",), dialogue_id=f"d{i // 2}", system=system)
        for i in range(24)
        for system in ("a", "b")
    ]
    groups = unrelated_groups(examples, 4, seed=1)
    assert len(groups) >= 4
    for group in groups:
        of_a = [example for example in group if example.system == "a"]
        assert len(of_a) == len({example.dialogue_id for example in of_a}) == 4
        assert {example.context for example in of_a} == {e.context for e in group if e.system == "b"}
        assert len({example.group for example in group}) == 1
    assert groups == unrelated_groups(examples, 4, seed=1) != unrelated_groups(examples, 4, seed=2)
    used = [context_key(example) for group in groups for example in group if example.system == "a"]
    assert len(used) == len(set(used))


def test_a_full_group_looks_no_further() -> None:
    looked_up = []

    class Home(str):
        __slots__ = ()

        def __hash__(self) -> int:
            looked_up.append(self)
            return super().__hash__()

    examples = [Example(f"r{i}", (f"context {i}",), dialogue_id=Home(f"d{i}")) for i in range(200)]
    groups = unrelated_groups(examples, 4, seed=1)
    assert [len(group) for group in groups] == [4] * 50
    # Each of a group's contexts against those before it.
    assert len(looked_up) == 50 * (4 + 0 + 1 + 2 + 3)


def test_the_baseline_of_answered_rows_is_scored_as_it_is(tmp_path: Path) -> None:
    out = tmp_path / "baseline.jsonl"
    augment(ROWS, method="baseline", variants=1, save=out)
    result = evaluate(out, ["diversity"])
    (value,) = result.system_values
    assert (value.system, value.n) == ("human", 2)


def test_a_bot_answers_the_baseline_too(tmp_path: Path) -> None:
    bot = Scripted()
    made = augment(ROWS, method="baseline", variants=1, bot=bot, save=tmp_path / "b.jsonl")
    assert len(bot.asked) == 4 == len(made.rows)
    assert made.result is not None
    assert [entry["group"] for entry in made.result.to_dict()["groups"]] == ["unrelated-0", "unrelated-1"]


# --- a bot ----------------------------------------------------------------------------------------------


def test_a_bot_is_asked_in_every_way_and_once_more(tmp_path: Path) -> None:
    bot, out = Scripted(), tmp_path / "asked.jsonl"
    made = augment(ROWS[:2], bot=bot, save=out, system="mine")
    assert bot.closed
    assert read(out) == made.rows
    purposes = [row["purpose"] for row in made.rows]
    assert purposes == (["diversity"] * 5 + ["consistency"]) * 2
    again = made.rows[5]
    assert again["context"] == [*ROWS[0]["context"], made.rows[0]["response"], made.rows[1]["context"][-1]]
    assert all(row["system"] == "mine" for row in made.rows)
    assert all("True answer 0." in prompt.hidden for prompt in bot.asked[:6])
    assert made.result is not None
    assert list(made.result.metrics) == ["diversity", "consistency"]


def test_end_to_end_diversity_and_consistency(tmp_path: Path, toy_pack) -> None:
    made = augment(ROWS, bot=lambda _: "Fine, thanks.", save=tmp_path / "a.jsonl", models=toy_pack.folder, cache="off")
    assert made.result is not None
    values = {value.metric: value for value in made.result.system_values}
    assert values["diversity"].value == pytest.approx(math.log(3))
    assert (values["diversity"].n, values["consistency"].n) == (5, 5)
    scored = {turn["id"]: turn for turn in made.result.to_dict()["turns"]}
    assert scored["q0/0"]["scores"]["consistency"] is None
    assert 0 <= scored["q0/again1"]["scores"]["consistency"] <= 1
    made.result.report(tmp_path / "report.html")


def test_chosen_metrics(tmp_path: Path) -> None:
    requests = ["diversity[n=1]", "diversity:released[n=3]", "length"]
    made = augment(ROWS, bot=Scripted(), save=tmp_path / "a.jsonl", metrics=requests, purpose="diversity")
    assert made.result is not None
    assert [value.metric for value in made.result.system_values] == requests
    assert all(row["purpose"] == "diversity" for row in made.rows)


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    out, whole = tmp_path / "a.jsonl", tmp_path / "whole.jsonl"

    class Killed(Scripted):
        def reply(self, prompt: Prompt) -> str:
            if len(self.asked) == 7:
                raise KeyboardInterrupt
            return super().reply(prompt)

    bot = Killed()
    with pytest.raises(KeyboardInterrupt):
        augment(ROWS, bot=bot, save=out)
    assert bot.closed
    assert len(read(out)) == 7
    with out.open("a") as file:
        file.write('{"id": "q1/1", "context": ["half')
    second = Scripted()
    made = augment(ROWS, bot=second, save=out)
    assert "7 answers were in" in made.notes[0]
    expected = augment(ROWS, bot=Scripted(), save=whole)
    assert len(second.asked) == len(expected.rows) - 7
    assert read(out) == read(whole) == made.rows


def test_a_file_of_another_run_is_not_mixed_in(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    augment(ROWS[:1], bot=Scripted(), save=out)
    before = out.read_text()
    with pytest.raises(TurnwiseError, match="belongs to another run"):
        augment(ROWS[:1], bot=Scripted(), save=out, system="another")
    with pytest.raises(TurnwiseError, match="belongs to another run"):
        augment(ROWS[:1], bot=Scripted(), save=out, sense="random", seed=3)
    assert out.read_text().startswith(before)
    out.write_text('{"no": "row"}\n')
    with pytest.raises(TurnwiseError, match=r"a\.jsonl:1: not a row that a bot answered"):
        augment(ROWS[:1], bot=Scripted(), save=out)


BOT = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"response": "VERSION"}), flush=True)
"""


def test_answers_of_one_bot_are_not_taken_for_those_of_another(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    first, second = (f"command:{sys.executable} {tmp_path / name}" for name in ("v1.py", "v2.py"))
    for name in ("v1", "v2"):
        (tmp_path / f"{name}.py").write_text(BOT.replace("VERSION", name))
    made = augment(ROWS[:1], bot=first, save=out, system="mine", metrics=["diversity"])
    assert {row["response"] for row in made.rows} == {"v1"}
    before = out.read_bytes()
    with pytest.raises(TurnwiseError, match="an answer of another bot that was called 'mine'"):
        augment(ROWS[:1], bot=second, save=out, system="mine", metrics=["diversity"])
    assert out.read_bytes() == before
    assert sys.executable not in before.decode()
    unmarked = [{key: value for key, value in row.items() if key != "bot"} for row in read(out)]
    out.write_text("".join(json.dumps(row) + "\n" for row in unmarked))
    again = augment(ROWS[:1], bot=second, save=out, system="mine", metrics=["diversity"])
    assert {row["response"] for row in again.rows} == {"v1"}
    other = augment(ROWS[:1], bot=second, save=tmp_path / "b.jsonl", metrics=["diversity"])
    assert other.rows[0]["system"] == f"{Path(sys.executable).name} {tmp_path / 'v2.py'}"


def test_whatever_is_said_of_a_bot_marks_it() -> None:
    http, one = "http://127.0.0.1/v1", BotOptions(model="a")
    assert mark_of(http, one) == mark_of(f"{http}/chat/completions", one)
    marks = [
        *(mark_of(http, one), mark_of(http, BotOptions(model="b")), mark_of("lm", one), mark_of("lm[k=3]", one)),
        *(mark_of("lm", BotOptions(seed=1)), mark_of("lm", BotOptions(models="mine")), mark_of("tfidf", one)),
    ]
    assert len(set(marks)) == len(marks)


def test_a_file_that_no_bot_wrote_is_left_as_it_is(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    for text in ("a note without an end of line", '["a", "list"]\n', "[1]"):
        out.write_text(text)
        with pytest.raises(TurnwiseError, match="not a row that a bot answered"):
            augment(ROWS[:1], bot=Scripted(), save=out)
        assert out.read_text() == text


def test_without_a_model_for_it_there_is_a_note_and_no_consistency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "roles", frozenset())
    made = augment(ROWS[:2], bot=Scripted(), save=tmp_path / "asked.jsonl")
    assert made.notes[-1] == "no consistency: it needs a model for 'nli'; give `models`"
    assert made.result is not None
    assert list(made.result.metrics) == ["diversity"]


def test_prompts_without_an_answer_are_left_out_and_asked_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnwise.bots.base.FIRST_WAIT", 0)

    def moody(prompt: Prompt) -> str:
        if "old boat" in prompt.context[-1]:
            raise BotError("does not like boats")
        return "fine"

    out = tmp_path / "a.jsonl"
    made = augment(ROWS, bot=Scripted(moody), save=out, retries=1)
    assert "prompts got no answer and are left out; the first: q1/0: scripted does not like boats" in made.notes[-1]
    assert "q1/0" not in {row["id"] for row in read(out)}
    assert "q1/again1" not in {row["id"] for row in read(out)}
    later = augment(ROWS, bot=Scripted(lambda _: "fine"), save=out)
    assert "q1/0" in {row["id"] for row in later.rows}


def test_a_bot_that_is_down_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.bots.base.FIRST_WAIT", 0)

    def down(prompt: Prompt) -> str:
        raise BotError("is not there")

    bot = Scripted(down)
    with pytest.raises(TurnwiseError, match="failed 5 times in a row, the last time because it is not there"):
        augment(ROWS, bot=bot, save=tmp_path / "a.jsonl", retries=0)
    assert len(bot.asked) == drive.GIVE_UP
    assert bot.closed


def test_a_bot_that_answers_nothing_ends_in_one_line(tmp_path: Path) -> None:
    nowhere: dict[str, Any] = {"bot": "http://127.0.0.1:9/v1", "bot_model": "m", "retries": 0, "limit": 1}
    why = r"none of \d prompts was answered; the first failure: q0/0: m could not be asked .*, at http"
    with pytest.raises(TurnwiseError, match=why):
        augment(ROWS, save=tmp_path / "a.jsonl", variants=1, **nowhere)
    silent = [{"id": "x", "response": "nothing before it"}]
    with pytest.raises(TurnwiseError, match="there is nothing to ask; rows without a context"):
        augment(silent, bot=Scripted(), save=tmp_path / "b.jsonl")


def test_what_a_bot_may_find_does_not_depend_on_how_much_it_is_asked(tmp_path: Path) -> None:
    rows = [*ROWS, {"id": "q9", "context": ["A small car?"], "response": "As small as my sister."}]
    options: dict[str, Any] = {"bot": "tfidf", "purpose": "diversity", "metrics": ["length"]}
    few = augment(rows, save=tmp_path / "few.jsonl", limit=1, **options).rows
    assert few == augment(rows, save=tmp_path / "all.jsonl", **options).rows[: len(few)]


def test_a_file_of_which_nothing_can_be_used_says_why(tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text('{"turns": [{"text": "hi"}]}\n')
    with pytest.raises(TurnwiseError, match=r"nothing to ask; no row can be used; the first: .*jsonl:1: response: mis"):
        augment(file)


def test_results_say_where_each_answer_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    made = augment(ROWS, bot=Scripted(), save=out, metrics=["length", "f1"], limit=2)
    assert made.result is not None
    kept = read(out)
    assert {item.row.file for item in made.result.judged} == {str(out)}
    assert all(kept[item.row.line - 1]["id"] == item.row.id for item in made.result.judged)
    assert str(made.result.problems[0]).startswith(f"{out}:1: no references")


def test_answers_need_a_place(tmp_path: Path) -> None:
    with pytest.raises(TurnwiseError, match="`save"):
        augment(ROWS, bot=Scripted())
    (tmp_path / "file").write_text("")
    with pytest.raises(TurnwiseError, match="cannot be written"):
        augment(ROWS, bot=Scripted(), save=tmp_path / "file" / "a.jsonl")


# --- generated queries ----------------------------------------------------------------------------------


def test_beams_take_the_place_of_the_query(toy_pack) -> None:
    made = augment(
        [*ROWS[:1], {"id": "open", "context": ["Hi!"], "response": "x"}],
        method="ctg",
        variants=2,
        models=toy_pack.folder,
    )
    said = [row["context"][-1] for row in made.rows if row["group"] == "q0"]
    assert said[0] == QUERIES[0]
    assert len(set(said)) == len(said) == 3
    assert [row["variant"] for row in made.rows[:3]] == ["as said", "ctg beam 1", "ctg beam 2"]
    assert "queries that open their conversation, so that nothing leads up to them: 1" in made.notes


def test_the_likeliest_synonym_is_the_language_models(toy_pack) -> None:
    first = [row["context"][-1] for row in augment(ROWS[:1]).rows]
    likely = [row["context"][-1] for row in augment(ROWS[:1], sense="likely", models=toy_pack.folder, cache="off").rows]
    assert first[0] == likely[0]
    assert first[1:] != likely[1:]


def test_rows_can_be_read_once_they_are_answered(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    augment(ROWS, bot=Scripted(), save=out)
    examples = [row.example for row in read_rows([out])]
    assert all(examples)
    assert {example.system for example in examples if example} == {"scripted"}
