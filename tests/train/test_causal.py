"""Training a causal language model: shrinking, distilling, telling responses apart, grids, and what it reads."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")


from turnwise.errors import TurnwiseError  # noqa: E402
from turnwise.train.tasks import Labelled  # noqa: E402

from . import tiny  # noqa: E402


@pytest.mark.slow
def test_causal_lm_shrinks_and_distils(room: Path) -> None:
    teacher = tiny.run(room, "clm", "clm", "llama", vocabulary=330, steps=60, learning_rate=3e-3)
    assert json.loads((room / "clm" / "config.json").read_text())["vocab_size"] < 340
    student = tiny.run(
        room,
        "clm",
        "student",
        "clm",
        teacher=room / "clm",
        keep_layers=2,
        steps=40,
        learning_rate=3e-3,
        levels=7,
        packed=32,
    )
    assert student["held_out"]["perplexity"] < 250
    assert teacher["held_out"]["perplexity"] < 200
    assert json.loads((room / "student" / "config.json").read_text())["num_hidden_layers"] == 2


@pytest.mark.parametrize("sharpness", [4.0, 0.25])
def test_a_preference_is_the_logistic_loss_of_each_pair_and_of_all(sharpness: float) -> None:
    from turnwise.train.causal import preference

    true, wrong = np.array([-2.0, -1.0, -3.0]), np.array([-2.5, -4.0, -1.0])

    def loss(difference: npt.NDArray[np.float64]) -> float:
        return float(np.log1p(np.exp(-sharpness * difference)).mean())

    expected = (loss(true - wrong) + loss(true[:, None] - wrong[None, :])) / 2
    assert preference(torch.tensor(true), torch.tensor(wrong), sharpness).item() == pytest.approx(expected)


@pytest.mark.slow
def test_contrast_teaches_what_was_not_said(room: Path) -> None:
    learning: dict[str, Any] = {"steps": 150, "learning_rate": 3e-3, "restyle": 0.0, "validate": 80}
    plain = tiny.run(room, "clm", "plain", "llama", **learning)
    contrast = tiny.run(room, "clm", "contrast", "llama", contrast=1.0, **learning)
    assert set(contrast["held_out"]["ranking"]) == {"sum", "mean"}
    apart, before = (card["held_out"]["ranking"]["mean"] for card in (contrast, plain))
    assert apart["pairwise"] > before["pairwise"] + 0.03
    assert apart["across_contexts"] > before["across_contexts"] + 0.03
    assert contrast["held_out"]["perplexity"] < 10  # it has not forgotten to speak


def test_responses_are_judged_as_the_engine_reads_them(room: Path) -> None:
    from tokenizers import Tokenizer

    from turnwise.train import dialogues
    from turnwise.train.causal import NextTokens
    from turnwise.train.config import Config

    config = Config.make("clm", data=[room / "toy.jsonl"], out=room / "x", base=room / "llama")
    fluent = NextTokens(dialogues.read(config.data), config)
    tokenizer = Tokenizer.from_file(str(room / "llama" / "tokenizer.json"))
    rows = [Labelled("i like tea . [SEP] do you ?", "yes , i do .", 1), Labelled(None, "dogs run", 1)]
    for separator, text in (
        (" ", "i like tea . do you ? yes , i do ."),
        ("\n", "i like tea .\ndo you ?\nyes , i do ."),
    ):
        batch = fluent.responses(rows, [separator] * 2)
        judged = [tokenizer.decode([int(i) for i in row if i >= 0]).strip() for row in batch["targets"]]
        assert judged == ["yes , i do .", "dogs run"]
        assert tokenizer.decode(batch["input_ids"][0, 1:].tolist()) == text


def test_weights_and_steps_of_a_grid_are_learnt() -> None:
    from turnwise.train.causal import GridWeights

    torch.manual_seed(0)
    wanted, weight = torch.randn(4, 64), torch.nn.Parameter(torch.randn(4, 64))
    grid = GridWeights(weight, 7)
    first = [((grid(weight) - wanted) ** 2).mean().item(), grid.factors.detach().clone()]
    optimizer = torch.optim.Adam([weight, *grid.parameters()], lr=0.01)
    for _ in range(300):
        optimizer.zero_grad()
        ((grid(weight) - wanted) ** 2).mean().backward()
        optimizer.step()
    assert ((grid(weight) - wanted) ** 2).mean().item() < 0.2 * first[0]
    assert not torch.equal(grid.factors, first[1])
    assert all(len(block.unique()) <= 7 for block in grid(weight).detach().reshape(-1, 64))


def test_the_first_steps_of_a_grid_lose_least() -> None:
    from turnwise.train.causal import GridWeights

    weight = torch.randn(6, 64, generator=torch.Generator().manual_seed(3))
    error = ((GridWeights(weight, 7)(weight) - weight) ** 2).mean().item()
    # The best seven even levels for a normal distribution leave 4.4 % of its variance.
    assert error < 0.05 * weight.var().item()


def test_exchanges_are_an_utterance_and_its_answer(room: Path) -> None:
    from turnwise.train import dialogues
    from turnwise.train.causal import NextTokens
    from turnwise.train.config import Config

    read = dialogues.read([room / "toy.jsonl"])
    config = Config.make("clm", data=[room / "toy.jsonl"], out=room / "x", base=room / "llama", exchanges=1, restyle=0)
    pairs = {" ".join(t.text for t in d.turns[k : k + 2]) for d in read for k in range(len(d.turns))}
    drawn = {NextTokens(read, config).text(Random(seed)) for seed in range(200)}
    assert drawn <= pairs
    assert len(drawn) > 20


def test_packed_rows_hold_whole_texts_end_to_end(room: Path) -> None:
    from tokenizers import Tokenizer

    from turnwise.train import dialogues
    from turnwise.train.causal import NextTokens
    from turnwise.train.config import Config

    read = dialogues.read([room / "toy.jsonl"])
    config = Config.make("clm", data=[room / "toy.jsonl"], out=room / "x", base=room / "llama", packed=24, batch=16)
    (batch,) = NextTokens(read, config).batch(3)
    assert batch["input_ids"].shape == (16, 24)
    assert torch.equal(batch["input_ids"], batch["targets"])
    start = json.loads((room / "llama" / "config.json").read_text())["bos_token_id"]
    ids = batch["input_ids"].flatten().tolist()
    first = ids[1 : ids.index(start, 1)]
    rng = config.drawing(3)
    expected = NextTokens(read, config).text(rng)
    tokenizer = Tokenizer.from_file(str(room / "llama" / "tokenizer.json"))
    assert first == [*tokenizer.encode(expected).ids, *tokenizer.encode("\n").ids]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"levels": 8}, "levels: expected an odd number from 3 to 15, got 8"),
        ({"exchanges": 2}, "from 0 to 1"),
        ({"packed": 1}, "packed: expected a whole number of at least 2, got 1"),
        ({"packed": 10**6}, "packed: expected at most .* .max_position_embeddings of the base., got 1000000"),
        ({"keep_layers": "2"}, "keep_layers: expected a whole number of at least 1, got '2'"),
        ({"keep_layers": 0}, "at least 1"),
        ({"keep_layers": 99}, "keep_layers: expected at most . .num_hidden_layers of the base., got 99"),
    ],
)
def test_what_a_causal_model_cannot_be_trained_with_is_one_line(room: Path, options: Any, said: str) -> None:
    with pytest.raises(TurnwiseError, match=said):
        tiny.run(room, "clm", "no", "llama", **options)


def test_pruned_vocabulary_writes_everything(room: Path) -> None:
    from tokenizers import Tokenizer

    from turnwise.train.causal import count_tokens, prune

    path = room / "llama" / "tokenizer.json"
    texts = ["i like hot tea .", "dogs run"]
    smaller, kept = prune(json.loads(path.read_text()), count_tokens(path, texts), 300)
    old, new = Tokenizer.from_file(str(path)), Tokenizer.from_str(json.dumps(smaller))
    assert len(kept) == new.get_vocab_size()
    for text in [*texts, "žluťoučký 🐎 zebra"]:
        assert new.decode(new.encode(text).ids) == text
    for text in texts:
        assert [kept[i] for i in new.encode(text).ids] == old.encode(text).ids
