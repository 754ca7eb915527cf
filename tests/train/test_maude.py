"""MAUDE learns: over given vectors, in every form, and with an encoder that learns with it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from turnwise.models.requests import Converse

torch = pytest.importorskip("torch")

from turnwise.errors import TurnwiseError  # noqa: E402
from turnwise.train.loop import Recipe, mean_loss, seeded  # noqa: E402
from turnwise.train.maude import MODES, SETS, MaudeNetwork, MaudeOptions, batch_loss, train_maude  # noqa: E402
from turnwise.train.maude_data import DrawnDialogues, Sampled  # noqa: E402

WIDTH = 12
SMALL: dict[str, Any] = {"down_size": 8, "hidden": 8, "dense": 12, "layers": 1}


def world(count: int, seed: int) -> list[Sampled]:
    """Dialogues that stay with one of three topics; a text is a topic, its number, and whether it is in order."""
    rng, made = Random(seed), []
    for number in range(count):
        topic = rng.randrange(3)
        turns = tuple(f"{topic} {rng.randrange(10**6)} fine" for _ in range(4))
        broken = {place: turns[place].replace("fine", "broken") for place in (1, 2, 3)}
        again = {place: f"{turns[place]} again" for place in (1, 2)}
        kinds = dict.fromkeys(("word_drop", "word_order", "word_repeat"), broken)
        made.append(Sampled(turns, kinds, again, {1: f"{rng.randrange(3)} {number} fine written"}))
    return made


def vectors_of(dialogues: list[Sampled]) -> tuple[np.ndarray, dict[str, int]]:
    texts = list(dict.fromkeys(text for one in dialogues for text in one.texts()))
    rows = np.random.default_rng(0).normal(0, 0.3, (len(texts), WIDTH)).astype(np.float32)
    for row, text in enumerate(texts):
        rows[row, int(text[0])] += 3
        rows[row, 3] += 3 * ("broken" in text)
        rows[row, 4] += 3 * ("written" in text)
    return rows, {text: row for row, text in enumerate(texts)}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_it_tells_true_from_wrong_in_every_form(mode: str) -> None:
    training, validation = world(60, 1), world(30, 2)
    vectors, index = vectors_of([*training, *validation])
    options = MaudeOptions(**{**MODES[mode], "frozen": True, **SMALL})
    recipe = Recipe(batch=8, epochs=25, learning_rate=0.01, patience=25)
    model, fitted = train_maude(training, validation, options, recipe, vectors=vectors, index=index)
    examples = DrawnDialogues(validation, vectors, index, negatives=SETS["all"], reworded=0.0)
    with torch.no_grad():
        logits, _ = model(examples.batch(np.arange(30), np.random.default_rng(0)))
    chance = logits.sigmoid().mean(dim=0)
    assert chance[0] > 0.5
    assert chance[1:4].max() < 0.1  # broken
    assert chance[4:].max() < chance[0] - 0.2  # of another dialogue, a third of them by chance on the same topic
    assert fitted.loss < fitted.epochs[0]["validation"]


def test_what_is_left_out_of_the_negatives_is_not_learnt() -> None:
    training = world(60, 1)
    vectors, index = vectors_of(training)
    recipe = Recipe(batch=8, epochs=15, learning_rate=0.01)
    found = {}
    for name in ("semantics", "syntax"):
        options = MaudeOptions(negatives=SETS[name], **SMALL)
        model, _ = train_maude(training, training, options, recipe, vectors=vectors, index=index)
        examples = DrawnDialogues(training, vectors, index, negatives=SETS["all"], reworded=0.0)
        with torch.no_grad():
            logits, _ = model(examples.batch(np.arange(60), np.random.default_rng(0)))
        chance = logits.sigmoid().mean(dim=0)
        found[name] = {"broken": float(chance[0] - chance[1]), "elsewhere": float(chance[0] - chance[4])}
    assert found["syntax"]["broken"] > 0.8 > 0.2 > abs(found["syntax"]["elsewhere"])
    assert found["semantics"]["elsewhere"] > 0.2


def test_a_kind_of_negative_weighs_as_much_as_asked() -> None:
    training = world(10, 1)
    vectors, index = vectors_of(training)

    def cost(**weights: float) -> float:
        options = MaudeOptions(**SMALL, weights=weights)  # type: ignore[arg-type]
        model = seeded(0, lambda: MaudeNetwork(WIDTH, options))
        return mean_loss(model, batch_loss, DrawnDialogues(training, vectors, index, reworded=0.0))

    assert cost() == pytest.approx(cost(rand_utt=1.0))
    assert cost(rand_utt=50.0) != pytest.approx(cost(), rel=1e-3)


def test_responses_of_the_batch_are_held_against_each_context() -> None:
    training = world(10, 1)
    vectors, index = vectors_of(training)
    options = MaudeOptions(**SMALL, recent=(0.0, 0.6), in_batch=5, in_dialogue=2, contrast=0.5)
    model = seeded(0, lambda: MaudeNetwork(WIDTH, options, parts=2)).train()
    batch = DrawnDialogues(training, vectors, index, reworded=0.0).batch(np.arange(10), np.random.default_rng(0))
    logits, present = model(batch)
    assert logits.shape == present.shape == (30, 1 + 6 + 5 + 2)
    assert 0.7 < float(present[:, 7:12].float().mean()) < 1  # a tenth of the draws are of the same dialogue
    assert 0.4 < float(present[:, 12:].float().mean()) < 1  # a third are the response itself
    with torch.no_grad():
        learning = float(batch_loss(model, batch))
        judging = float(batch_loss(model.eval(), batch))
    assert model(batch)[0].shape == (30, 7)
    # Picking one of a handful by chance costs about log 7 more.
    assert learning - judging == pytest.approx(0.5 * np.log(7), abs=0.4)

    def cost(sharpness: float) -> float:
        harder = seeded(
            0, lambda: MaudeNetwork(WIDTH, MaudeOptions(**SMALL, dropout=0.0, in_batch=5, sharpness=sharpness))
        ).train()
        torch.manual_seed(0)
        with torch.no_grad():
            return float(batch_loss(harder, batch))

    # Where all seem alike it hardly matters whose weight is whose; the likeliest of the wrong cost the most.
    assert cost(0.0) < cost(3.0) < cost(50.0) < cost(0.0) + 0.1
    syntax = MaudeOptions(**SMALL, negatives=SETS["syntax"], in_batch=5)
    assert seeded(0, lambda: MaudeNetwork(WIDTH, syntax)).train()(batch)[0].shape == (30, 7)


def test_likeness_and_the_batch_help_to_tell_what_belongs_where() -> None:
    training, validation = world(60, 1), world(30, 2)
    vectors, index = vectors_of([*training, *validation])
    options = MaudeOptions(**SMALL, recent=(0.0, 0.6), in_batch=4, in_dialogue=1, contrast=0.5)
    recipe = Recipe(batch=8, epochs=10, learning_rate=0.01, patience=10)
    _, fitted = train_maude(
        training, validation, options, recipe, vectors=vectors, index=index, parts=2, unlike={"it": validation}
    )
    # A third of the random utterances are on the topic by chance.
    assert fitted.found["rand_utt"]["wins"] > 0.7
    assert fitted.found["it"] == {kind: fitted.found[kind] for kind in fitted.found["it"]}


def test_corrupted_contexts_can_be_learnt_from() -> None:
    training = world(40, 1)
    vectors, index = vectors_of(training)
    options = MaudeOptions(negatives=("corrupt_context",), **SMALL)
    recipe = Recipe(batch=8, epochs=15, learning_rate=0.01)
    model, _ = train_maude(training, training, options, recipe, vectors=vectors, index=index)
    batch = DrawnDialogues(training, vectors, index, negatives=("corrupt_context",)).batch(
        np.arange(40), np.random.default_rng(0)
    )
    with torch.no_grad():
        logits, present = model(batch)
    assert logits.shape == present.shape == (120, 2)
    assert float((logits[:, 0] > logits[:, 1]).float().mean()) > 0.7


def test_an_encoder_can_learn_too_and_goes_into_a_pack_with_its_head(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from turnwise.models.export.build_pack import build_pack
    from turnwise.models.maude import MaudeModel, TrunkReading
    from turnwise.models.requests import Converse
    from turnwise.train.maude import save_head
    from turnwise.train.utterances import Trunk

    from . import tiny

    reading = TrunkReading(layers=(0, 1))
    trunk = Trunk.open(tiny.bert(tmp_path / "bert"), reading)
    before = {name: value.clone() for name, value in trunk.bert.state_dict().items()}
    training = world(8, 1)
    options = MaudeOptions(**{**MODES["paper"], **SMALL})
    model, _ = train_maude(training, training, options, Recipe(batch=4, epochs=2, learning_rate=0.01), encoder=trunk)
    after = trunk.bert.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert any("attention" in name for name in moved)
    assert "embeddings.word_embeddings.weight" not in moved
    save_head(model, reading, {"form": "paper"}, tmp_path / "paper")
    pack = build_pack([tmp_path / "paper"], tmp_path / "pack", name="own", licence="none", fineness=None)
    found = pack.model("maude-paper")
    assert isinstance(found, MaudeModel)
    request = Converse(("i like tea .", "do you ?"), "yes", role="maude-paper")
    rows = found.rows(request)
    with torch.no_grad():
        said = model.project(trunk(["i like tea .", "do you ?", "yes"]))
        context = model.contexts(said[None, :2], torch.tensor([0]), torch.tensor([2]))
        expected = float(model.score(context, said[None, 2:]).sigmoid())
    # The checkpoint keeps halves.
    assert found.answer(request, rows, found.run(rows))["next"] == pytest.approx(expected, abs=2e-3)


def test_an_encoder_that_learnt_shares_the_words_of_the_pack_that_it_joins(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from turnwise.engine.answer import answer_requests
    from turnwise.models.export.build_pack import build_pack
    from turnwise.models.maude import TrunkReading
    from turnwise.models.pack import verify_pack
    from turnwise.train.maude import save_head
    from turnwise.train.utterances import Trunk

    from . import tiny

    folder, reading = tiny.bert(tmp_path / "bert"), TrunkReading(layers=(0, 1))
    trunk, training = Trunk.open(folder, reading), world(8, 1)
    options = MaudeOptions(**SMALL, frozen=False, standardise=False, recent=(0.0,))
    model, _ = train_maude(training, training, options, Recipe(batch=4, epochs=1), encoder=trunk)
    save_head(model, reading, {"form": "recommended"}, tmp_path / "own")
    before = build_pack([folder], tmp_path / "before", name="p", licence="none")
    after = build_pack([tmp_path / "own"], tmp_path / "after", name="p", licence="none", keep=tmp_path / "before")
    assert after.manifest.role("maude").words == "words.bin"
    assert after.manifest.role("maude").file == "maude.onnx"
    assert after.manifest.files["words.bin"] == before.manifest.files["words.bin"]
    assert after.manifest.fingerprint("encoder") == before.manifest.fingerprint("encoder")
    assert {checked.role for checked in verify_pack(tmp_path / "after")} == {"encoder", "maude"}
    exact = build_pack([tmp_path / "own"], tmp_path / "exact", name="p", licence="none", fineness=None)
    request = Converse(("i like hot tea .", "do you ?"), "tea is good for you .")
    found, expected = (answer_requests([request], pack)[request]["next"] for pack in (after, exact))
    assert found == pytest.approx(expected, abs=0.01)


def test_a_head_can_be_gone_on_from_over_its_encoder_as_it_is_now(tmp_path: Path) -> None:
    from turnwise.models.heads import unpack_weights
    from turnwise.models.maude import TrunkReading
    from turnwise.train.maude import save_head

    training = world(30, 1)
    vectors, index = vectors_of(training)
    options, recipe = MaudeOptions(**SMALL, recent=(0.0,)), Recipe(batch=8, epochs=10, learning_rate=0.01, patience=10)
    model, fitted = train_maude(training, training, options, recipe, vectors=vectors, index=index)
    save_head(model, TrunkReading(layers=(1,)), {}, tmp_path)
    weights = unpack_weights((tmp_path / "maude.safetensors").read_bytes())
    still = Recipe(batch=8, epochs=1, learning_rate=0.0)
    _, same = train_maude(training, training, options, still, vectors=vectors, index=index, start=weights)
    assert same.loss == pytest.approx(fitted.loss, abs=1e-4)
    # An encoder that was rounded gives other vectors, to which the head can settle.
    moved = vectors + np.random.default_rng(4).normal(0, 1, WIDTH).astype(np.float32)
    _, off = train_maude(training, training, options, still, vectors=moved, index=index, start=weights)
    again, part = (
        Recipe(batch=8, epochs=4, learning_rate=0.005),
        MaudeOptions(**SMALL, recent=(0.0,), learning=("dense",)),
    )
    head, settled = train_maude(training, training, part, again, vectors=moved, index=index, start=weights)
    assert torch.equal(head.mix.weight, model.mix.weight)
    assert not torch.equal(head.dense.weight, model.dense.weight)
    assert off.loss > same.loss + 0.05
    assert settled.loss < off.loss - 0.03
    other = MaudeOptions(**{**SMALL, "dense": 5}, recent=(0.0,))
    with pytest.raises(TurnwiseError, match="another form"):
        train_maude(training, training, other, still, vectors=vectors, index=index, start=weights)
    with pytest.raises(TurnwiseError, match="likeness"):
        train_maude(training, training, MaudeOptions(**SMALL), still, vectors=vectors, index=index, start={})


def test_lower_layers_of_an_encoder_may_stay_as_they_are(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from turnwise.models.maude import TrunkReading
    from turnwise.train.utterances import Trunk

    from . import tiny

    folder = tiny.bert(tmp_path / "bert")
    found = {}
    for layers in (0, 1):
        trunk = Trunk.open(folder, TrunkReading(layers=(0, 1)), learning=layers)
        found[layers] = {name for name, weight in trunk.bert.named_parameters() if weight.requires_grad}
    assert not found[0]
    assert found[1] == {name for name, _ in trunk.bert.named_parameters() if name.startswith("encoder.layer.0.")}
    # Texts of any length come back in their own order, and what stands beside them does not matter.
    texts = ["i like tea .", "yes", "do you ? " * 40, "yes", "no"]
    trunk.eval()
    with torch.no_grad():
        together, alone = trunk(texts), torch.cat([trunk([text]) for text in texts])
    assert together.numpy() == pytest.approx(alone.numpy(), abs=1e-5)


def test_a_run_without_what_it_needs_says_so() -> None:
    with pytest.raises(TurnwiseError, match="vectors"):
        train_maude(world(2, 1), world(2, 1), MaudeOptions(**SMALL), Recipe())
    with pytest.raises(TurnwiseError, match="encoder"):
        train_maude(world(2, 1), world(2, 1), MaudeOptions(**SMALL, frozen=False, standardise=False), Recipe())
    with pytest.raises(TurnwiseError, match="in_batch"):
        MaudeOptions(**SMALL, contrast=1.0)
    with pytest.raises(TurnwiseError, match="fade"):
        MaudeOptions(**SMALL, recent=(1.0,))
    with pytest.raises(TurnwiseError, match="PCA"):
        MaudeOptions(**SMALL, frozen=False, standardise=False, down="pca")
