"""MAUDE's draws, its loss and its pairs, held to the published definitions."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from turnwise.errors import TurnwiseError  # noqa: E402
from turnwise.io.read import read_rows  # noqa: E402
from turnwise.text.corrupt import word_drop, word_repeat  # noqa: E402
from turnwise.train.dialogues import Dialogue, DialogueTurn  # noqa: E402
from turnwise.train.maude import SETS, MaudeOptions, nce  # noqa: E402
from turnwise.train.maude_data import (  # noqa: E402
    CORRUPTIONS,
    SEMANTICS,
    SYNTAX,
    DrawnDialogues,
    Pool,
    Sampled,
    sample,
)

TEXT = st.lists(st.sampled_from("i you have a dog cat no way tea".split()), min_size=1, max_size=9).map(" ".join)


def talk(number: int, turns: int = 4) -> Dialogue:
    said = tuple(DialogueTurn("AB"[i % 2], f"Dialogue {number}, turn {i}.") for i in range(turns))
    return Dialogue(str(number), "toy", said, {})


# --- the oracles of the specification ---------------------------------------------------------------------


def test_word_repeat_takes_one_of_the_first_two_words() -> None:
    drawn = {word_repeat("i have a dog", Random(seed)) for seed in range(50)}
    assert drawn == {"i i i i", "i have have have"}
    assert {word_repeat("no no way", Random(seed)) for seed in range(20)} == {"no no no"}


@given(TEXT, st.integers())
def test_word_drop_at_its_two_ends(text: str, seed: int) -> None:
    assert word_drop(text, Random(seed), 0.0) == text
    assert Counter(word_drop(text, Random(seed), 1.0).split()) == Counter(text.split())


@given(st.integers(2, 6), st.integers())
def test_a_random_response_never_comes_from_the_same_dialogue(count: int, seed: int) -> None:
    rng = np.random.default_rng(abs(seed))
    own = np.arange(count)
    drawn = Pool([[10 * number + i for i in range(3)] for number in range(count)]).draw(own, rng)
    assert (drawn // 10 != own).all()


def of(chance: float) -> float:
    return math.log(chance / (1 - chance))


def loss(true: float, wrong: float, form: str = "mean", weights: list[float] | None = None) -> float:
    logits = torch.tensor([[of(true), *[of(wrong)] * 6]], dtype=torch.float64)
    counts = torch.tensor([weights or [1.0] * 7], dtype=torch.float64)
    return float(nce(logits, counts, form))  # type: ignore[arg-type]


def test_the_loss_of_one_example() -> None:
    assert loss(0.5, 0.5) == pytest.approx(math.log(2), abs=1e-9)
    assert loss(0.5, 0.5, weights=[1, 3, 0, 2, 1, 0.5, 7]) == pytest.approx(math.log(2), abs=1e-9)
    assert loss(0.9, 0.1) == pytest.approx(0.105361, abs=1e-6)
    assert loss(0.5, 0.1) == pytest.approx(0.189330, abs=1e-6)
    assert loss(0.5, 0.1, "paper") == pytest.approx(0.798508, abs=1e-6)


def test_negatives_that_are_not_there_do_not_count() -> None:
    assert loss(0.5, 0.1, weights=[1, 1, 0, 0, 0, 0, 0]) == pytest.approx((math.log(2) - math.log(0.9)) / 2, abs=1e-9)


@pytest.mark.parametrize(("opened_by", "pairs"), [("user", 6), ("assistant", 5)])
def test_pairs_of_a_conversation_of_twelve_turns(tmp_path: Path, opened_by: str, pairs: int) -> None:
    roles = ["user", "assistant"] if opened_by == "user" else ["assistant", "user"]
    messages = [{"role": roles[i % 2], "content": f"turn {i}"} for i in range(12)]
    file = tmp_path / "chat.jsonl"
    file.write_text(json.dumps({"messages": messages}) + "\n")
    examples = [row.example for row in read_rows([file])]
    assert len(examples) == pairs
    assert all(example is not None and example.context for example in examples)


# --- what is made of dialogues ------------------------------------------------------------------------------


def test_all_is_three_of_each_and_corrupted_contexts_are_not_among_them() -> None:
    assert SETS["all"] == SYNTAX + SEMANTICS
    assert len(SYNTAX) == len(SEMANTICS) == 3
    assert "corrupt_context" not in SETS["all"]


def test_every_response_gets_its_variants_and_turns_read_as_the_corpus_writes_them() -> None:
    made = sample([talk(0)], Random(0), say_again=lambda texts: [f"again {text}" for text in texts])
    assert made[0].turns[0] == "dialogue 0 , turn 0 ."
    assert set(made[0].reworded) == {1, 2, 3}
    for kind in CORRUPTIONS:
        assert set(made[0].corrupted[kind]) == {1, 2, 3}
    assert Sampled.of(json.loads(json.dumps(asdict(made[0])))) == made[0]


def test_a_paraphrase_that_changes_nothing_is_none() -> None:
    assert sample([talk(0)], Random(0), say_again=list)[0].reworded == {}


def test_replies_are_written_for_some_contexts_only() -> None:
    asked: list[tuple[str, ...]] = []

    def reply(contexts: list[tuple[str, ...]]) -> list[str]:
        asked.extend(contexts)
        return ["Fine, thanks."] * len(contexts)

    made = sample([talk(n) for n in range(5)], Random(0), reply=reply, replies=2)  # type: ignore[arg-type]
    written = [text for one in made for text in one.generated.values()]
    assert written == ["fine , thanks ."] * 2
    assert all(context for context in asked)


def drawn(negatives: tuple[str, ...], **options: object) -> tuple[DrawnDialogues, dict[str, int]]:
    made = sample(
        [talk(n) for n in range(6)],
        Random(0),
        say_again=lambda texts: [f"again {text}" for text in texts],
        reply=lambda contexts: [f"written after {context[0]}" for context in contexts],
        replies=6,
    )
    texts = list(dict.fromkeys(text for one in made for text in one.texts()))
    index = {text: row for row, text in enumerate(texts)}
    table = np.arange(len(texts), dtype=np.float32)[:, None]
    return DrawnDialogues(made, table, index, negatives=negatives, **options), index  # type: ignore[arg-type]


def test_a_batch_holds_every_turn_with_all_its_negatives_of_other_dialogues() -> None:
    examples, index = drawn(SETS["all"], reworded=0.0)
    batch = examples.batch(np.array([2, 4]), np.random.default_rng(0))
    assert batch.vectors is not None
    assert batch.vectors[:, 0].tolist() == [index[text] for text in batch.texts]
    said = [[batch.texts[place] for place in row] for row in batch.turns.tolist()]
    assert said == [[f"dialogue {n} , turn {i} ." for i in range(4)] for n in (2, 4)]
    assert batch.row.tolist() == [0, 0, 0, 1, 1, 1]
    assert batch.length.tolist() == [1, 2, 3, 1, 2, 3]
    assert bool(batch.present.all())
    for number, responses in zip([2] * 3 + [4] * 3, batch.responses.tolist(), strict=True):
        true, drop, order, repeat, random, generated, paraphrase = (batch.texts[place] for place in responses)
        assert f"dialogue {number}" in true
        assert Counter(order.split()) == Counter(true.split())
        assert len(repeat.split()) == len(true.split()) >= len(drop.split())
        assert all(f"dialogue {number} " not in text for text in (random, generated, paraphrase))
        assert generated.startswith("written after")
        assert paraphrase.startswith("again")


def test_paraphrases_stand_for_the_truth_as_often_as_asked() -> None:
    examples, _ = drawn(("rand_utt",), reworded=1.0)
    batch = examples.batch(np.arange(6), np.random.default_rng(0))
    assert all(batch.texts[place].startswith("again") for place in batch.responses[:, 0])


def test_draws_change_with_the_epoch_unless_they_were_made_once() -> None:
    for fresh in (True, False):
        examples, _ = drawn(("rand_utt",), fresh=fresh)
        rng = np.random.default_rng(0)
        batches = [examples.batch(np.arange(6), rng) for _ in range(2)]
        first, second = ([batch.texts[place] for place in batch.responses[:, 1]] for batch in batches)
        assert (first == second) is not fresh


def test_a_corrupted_context_is_as_long_as_the_true_one() -> None:
    examples, _ = drawn(("rand_utt", "corrupt_context"))
    batch = examples.batch(np.arange(3), np.random.default_rng(0))
    assert batch.other_turns is not None
    assert batch.other_turns.shape == batch.turns.shape
    assert not torch.equal(batch.other_turns, batch.turns)


@pytest.mark.parametrize(
    "wrong", [{"negatives": ()}, {"negatives": ("word_salad",)}, {"weights": {"rand_utt": -1.0}}]
)  # fmt: skip
def test_what_cannot_be_learnt_from_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(TurnwiseError):
        MaudeOptions(**wrong)  # type: ignore[arg-type]
