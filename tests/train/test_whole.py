"""Whole training runs with tiny random models on the CPU: they learn, resume, repeat themselves and can be read."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from safetensors.torch import load_file  # noqa: E402

from turnwise import train  # noqa: E402
from turnwise.errors import TurnwiseError  # noqa: E402
from turnwise.models.export.build_pack import build_pack  # noqa: E402
from turnwise.train.tasks import Labelled  # noqa: E402

from . import tiny  # noqa: E402


def weights(room: Path, out: str) -> dict[str, Any]:
    return load_file(room / out / "model.safetensors")


def test_masked_lm_learns_and_leaves_the_words_frozen(room: Path) -> None:
    before = tiny.run(room, "mlm", "mlm0", "bert", steps=1)
    after = tiny.run(room, "mlm", "mlm", "bert", steps=60, learning_rate=3e-3)
    assert after["held_out"]["masked_loss"] < before["held_out"]["masked_loss"] - 0.3
    assert after["started_from"] is None
    assert tiny.run(room, "mlm", "mlm2", "mlm0", steps=2)["started_from"]["steps"] == 1
    name = "embeddings.word_embeddings.weight"
    frozen = weights(room, "bert")[name].half()
    assert torch.equal(weights(room, "mlm")[f"bert.{name}"], frozen)
    from transformers import BertForMaskedLM

    model = BertForMaskedLM.from_pretrained(room / "mlm")
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_opening_a_model_says_nothing(room: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tiny.run(room, "mlm", "quiet", "bert", steps=1)  # its base has no head, which transformers reports at length
    assert capfd.readouterr() == ("", "")


def test_response_selection_with_context_and_with_the_fact(room: Path) -> None:
    card = tiny.run(room, "nup+dr-f", "nup", "bert")
    assert set(card["held_out"]["nup"]["ranking"]["by_corpus"]) == {"toy"}
    layout = json.loads((room / "nup" / "heads.json").read_text())
    assert set(layout["heads"]) == {"nup", "dr-f"}
    assert {entry["corpus"] for entry in card["data"]} == {"toy"}
    assert json.loads((room / "nup" / "card.json").read_text())["held_out"] == card["held_out"]


def test_one_trunk_for_validity_inference_and_emotion(room: Path) -> None:
    rows = [{"premise": "a dog runs", "hypothesis": "no dog runs", "label": "c"}] * 4
    (room / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    card = tiny.run(room, "vup+nli+emotion", "vup", "bert", pairs=[room / "pairs.jsonl"])
    assert set(card["held_out"]) == {"vup", "nli", "emotion"}
    assert not (room / "vup" / "state").exists()


@pytest.mark.slow
def test_a_classifier_learns_what_can_be_learnt(room: Path) -> None:
    card = tiny.run(room, "emotion", "emotion", "bert", steps=250, learning_rate=3e-3, restyle=0.0, validate=200)
    assert card["held_out"]["emotion"]["accuracy"] > 0.9


@pytest.mark.slow
def test_a_causal_model_can_judge_and_a_small_one_can_learn_from_it_alone(room: Path) -> None:
    learning: dict[str, Any] = {"steps": 200, "learning_rate": 3e-3, "restyle": 0.0, "validate": 200}
    judge = tiny.run(room, "emotion", "judge", "llama", **learning | {"steps": 100})
    assert judge["held_out"]["emotion"]["accuracy"] > 0.9
    taught: dict[str, Any] = {"teacher": room / "judge", "teacher_share": 1.0, "taught": 80}
    student = tiny.run(room, "emotion", "taught", "bert", **taught, **learning)
    assert student["held_out"]["emotion"]["accuracy"] > 0.9
    assert [teacher["base"] for teacher in student["teachers"]] == ["llama"]
    with pytest.raises(TurnwiseError, match="a pack takes BERT classifiers"):
        build_pack([room / "judge"], room / "pack", name="judge", licence="none")


def test_teachers_say_together_what_they_think_and_only_what_they_know(room: Path) -> None:
    from turnwise.train import classifiers
    from turnwise.train.classifiers import Teachers
    from turnwise.train.config import Config

    tiny.run(room, "vup+emotion", "one", "bert")
    tiny.run(room, "vup", "two", "llama", seed=1)
    config = Config.make("vup", data=[room / "toy.jsonl"], out=room / "x", base=room / "bert", device="cpu", taught=3)
    teachers = Teachers([room / "one", room / "two"], config)
    rows = [Labelled(None, text, 1) for text in ("i like tea .", "tea like i .")]

    def alone(folder: str, head: str) -> torch.Tensor:
        reader = classifiers.pairs_of(room / folder, config)
        return classifiers.probabilities(classifiers.load_classifier(room / folder), rows, reader, head)

    together = teachers.answer(teachers.reads(rows, "vup", "0"), "vup").exp()
    mean = (alone("one", "vup") * alone("two", "vup")).sqrt()
    assert together.numpy() == pytest.approx((mean / mean.sum(-1, keepdim=True)).numpy(), abs=1e-5)
    known = teachers.answer(teachers.reads(rows, "emotion", "1"), "emotion").exp()
    assert known.numpy() == pytest.approx(alone("one", "emotion").numpy(), abs=1e-5)
    assert teachers.has("emotion")
    assert not teachers.has("nup")
    assert teachers.answer({"number": "0"}, "vup").exp().equal(together)  # remembered, so nothing is read again


def test_a_run_that_goes_on_can_see_new_examples(room: Path) -> None:
    from turnwise.train.config import Config

    made = {"data": [room / "toy.jsonl"], "out": room / "x", "base": room / "bert"}
    first, later = (Config.make("vup", **made, first_batch=number) for number in (0, 5))
    assert first.drawing(5).random() == later.drawing(0).random() != first.drawing(0).random()


def test_a_teacher_judges_what_a_model_replied(room: Path) -> None:
    from replies import Replier, replies, write_replies

    from turnwise.train import tasks
    from turnwise.train.config import Config
    from turnwise.train.dialogues import read, split
    from turnwise.train.sampling import Places
    from turnwise.train.tasks import read_replies

    kept, _ = split(read([room / "toy.jsonl"]), tiny.SMALL["held_out"])
    written = next(replies(Replier(room / "llama", "cpu"), Places(kept), seed=0, size=20))
    write_replies(room / "replies.jsonl", written)
    assert read_replies(room / "replies.jsonl") == tuple(written)
    assert all(reply.response and "\n" not in reply.response for reply in written)
    assert {turn.text for d in kept for turn in d.turns} >= {reply.earlier for reply in written if reply.earlier}

    tiny.run(room, "nup+nli", "asked", "llama")
    asked: dict[str, Any] = {"teacher": room / "asked", "replies": room / "replies.jsonl", "reply_share": 1.0}
    config = Config.make("nup", data=[room / "toy.jsonl"], out=room / "x", base=room / "bert", **asked)
    assert tasks.build("nup", kept, config).draw(Random(0)).label == tasks.UNKNOWN
    card = tiny.run(room, "nup+nli", "told", "bert", **asked)
    assert math.isfinite(card["training"]["last_loss"])  # though no row has a label
    assert card["held_out"]["nli"]["examples"] == tiny.SMALL["validate"]
    with pytest.raises(TurnwiseError, match="Fix: name a teacher"):
        tiny.run(room, "nup", "no", "bert", replies=room / "replies.jsonl")


def test_a_run_goes_on_from_the_heads_that_it_finds(room: Path) -> None:
    from turnwise.train import classifiers

    tiny.run(room, "vup+emotion", "first", "bert")
    before = classifiers.load_classifier(room / "first")
    labels = {"emotion": ("no emotion", "emotion"), "nli": ("contradiction", "neutral", "entailment")}
    after = classifiers.classifier(room / "first", labels, 0.0, freeze_words=True)
    assert torch.equal(after.heads["emotion"].out.weight, before.heads["emotion"].out.weight)
    other = classifiers.classifier(room / "first", {"emotion": ("calm", "moved")}, 0.0, freeze_words=True)
    assert not torch.equal(other.heads["emotion"].out.weight, before.heads["emotion"].out.weight)


@pytest.mark.slow
@pytest.mark.parametrize("base", ["bert", "llama"])
def test_one_compiled_layer_serves_all_layers_and_lengths(room: Path, base: str) -> None:
    from torch._dynamo.utils import counters

    from turnwise.train import classifiers

    trunk = classifiers.trunk_of(room / base).eval()
    texts = [torch.randint(5, 50, (rows, length)) for rows, length in ((3, 8), (2, 12), (4, 9))]
    plain = [trunk(input_ids=ids).last_hidden_state for ids in texts]
    torch.compiler.reset()
    counters.clear()
    classifiers.compile_layers(trunk, backend="eager")
    for ids, wanted in zip(texts, plain, strict=True):
        assert torch.allclose(trunk(input_ids=ids).last_hidden_state, wanted, atol=1e-5)
    assert counters["stats"]["unique_graphs"] == 1


def test_what_the_teacher_sees_belongs_to_the_same_rows(room: Path) -> None:
    from turnwise.train import classifiers
    from turnwise.train.config import Config

    tiny.run(room, "vup", "reader", "llama", steps=1)
    config = Config.make("vup", data=[room / "toy.jsonl"], out=room / "x", base=room / "bert", batch=8)
    rows = [Labelled(None, text, 1) for texts in tiny.TOPICS.values() for text in texts]
    ours, theirs = (classifiers.pairs_of(room / name, config) for name in ("bert", "reader"))
    teacher = classifiers.load_classifier(room / "reader")
    alone = classifiers.probabilities(teacher, rows, theirs, "vup")
    for chunk in classifiers.encoded(rows, ours, "vup", chunks=3):
        (seen,) = classifiers.encoded([rows[i] for i in chunk["order"]], theirs, "vup", in_order=True)
        together = classifiers.logits_of(teacher, seen).softmax(-1).detach()
        assert torch.allclose(together, alone[chunk["order"]], atol=1e-5)


def test_the_same_seed_gives_the_same_weights(room: Path) -> None:
    first, second = (tiny.run(room, "vup", out, "bert") and weights(room, out) for out in ("one", "two"))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_run_that_was_cut_short_resumes(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnwise.train import loop

    real, seen = loop._schedule, []

    def schedule(progress: float, warmup: float) -> float:
        step = round(progress * tiny.SMALL["steps"])
        if step == 7 and 7 not in seen:
            seen.append(step)
            raise KeyboardInterrupt
        seen.append(step)
        return real(progress, warmup)

    monkeypatch.setattr(loop, "_schedule", schedule)
    with pytest.raises(KeyboardInterrupt):
        tiny.run(room, "vup", "cut", "bert", save_every=0.0, dropout=0.0)
    card = tiny.run(room, "vup", "cut", "bert", dropout=0.0)
    assert seen == [0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 9, 10, 11]
    assert card["training"]["steps"] == tiny.SMALL["steps"]


def test_a_signal_finishes_the_step_and_saves_it(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnwise.train import loop

    real, seen = loop._schedule, []

    def schedule(progress: float, warmup: float) -> float:
        step = round(progress * tiny.SMALL["steps"])
        seen.append(step)
        if step == 7:
            os.kill(os.getpid(), signal.SIGINT)
        return real(progress, warmup)

    monkeypatch.setattr(loop, "_schedule", schedule)
    with pytest.raises(KeyboardInterrupt):
        tiny.run(room, "vup", "signalled", "bert", dropout=0.0)
    tiny.run(room, "vup", "signalled", "bert", dropout=0.0)
    assert seen == list(range(12))


def test_a_grown_trunk_starts_where_it_was(room: Path) -> None:
    from transformers import BertConfig, BertModel

    from turnwise.train import classifiers

    small = BertConfig(vocab_size=50, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=128)
    torch.manual_seed(0)
    trunk = BertModel(small, add_pooling_layer=False).eval()
    for layer in trunk.encoder.layer:
        torch.nn.init.normal_(layer.output.LayerNorm.weight, 0.9, 0.1)
        torch.nn.init.normal_(layer.output.LayerNorm.bias, 0.1, 0.1)
    ids = torch.randint(0, 50, (4, 9))
    before = trunk(input_ids=ids).last_hidden_state
    classifiers.grow(trunk, 6)
    after = trunk(input_ids=ids).last_hidden_state
    assert len(trunk.encoder.layer) == trunk.config.num_hidden_layers == 6
    assert torch.nn.functional.cosine_similarity(before, after, dim=-1).min() > 0.99
    card = tiny.run(room, "emotion", "grown", "bert", grow_layers=2)
    assert json.loads((room / "grown" / "config.json").read_text())["num_hidden_layers"] == 2
    assert card["held_out"]["emotion"]["examples"] == tiny.SMALL["validate"]
    with pytest.raises(TurnwiseError, match="only a BERT trunk can grow"):
        tiny.run(room, "emotion", "no", "llama", grow_layers=4)
    with pytest.raises(TurnwiseError, match="fewer layers than it has"):
        tiny.run(room, "emotion", "no", "grown", grow_layers=1)


def test_utterances_can_be_broken_as_the_released_code_did(room: Path) -> None:
    from turnwise.train import dialogues
    from turnwise.train.config import Config
    from turnwise.train.tasks import ValidityTask

    rules = {"unit": "piece", "released": True, "negative": 0.4}
    card = tiny.run(room, "vup", "pieces", "bert", corruption=rules)
    assert card["options"]["corruption"].items() >= rules.items()
    config = Config.make("vup", data=[room / "toy.jsonl"], out=room / "x", base=room / "bert", corruption=rules)
    task = ValidityTask(dialogues.read([room / "toy.jsonl"]), config)
    assert any("##" in task.draw(Random(seed)).second for seed in range(300))


@pytest.mark.parametrize(
    ("objective", "options", "words"),
    [
        ("nope", {}, "objective: expected .*, got 'nope'"),
        ("mlm+nup", {}, "can share a trunk"),
        ("mlm", {"colour": 1}, "training options: expected .*, got 'colour'"),
        ("nup", {"mix": {"colour": 1}}, "mix: expected .*, got 'colour'"),
        ("vup", {"corruption": {"colour": 1}}, "corruption: expected .*, got 'colour'"),
        ("vup", {"corruption": {"drop": -1}}, "corruption: shares of reorder, drop, repeat: give 0 or more"),
        ("clm", {}, "bert: a model of type bert; clm starts from llama"),
        ("nup", {"steps": 0}, "steps: expected a whole number of at least 1, got 0"),
        ("nup", {"batch": -1}, "batch: expected a whole number of at least 1, got -1"),
        ("nup", {"minutes": -1}, "minutes: expected a number above 0, got -1"),
        ("clm", {"contrast": 1, "sharpness": 0}, "sharpness: expected a number above 0, got 0"),
        ("nup", {"held_out": "many"}, "held_out: expected a number from 0 to 1, got 'many'"),
        ("mlm", {"held_out": 0.0}, "0 of 60 dialogues are held out, too few to validate on; give more"),
    ],
)
def test_what_cannot_be_trained_is_refused(room: Path, objective: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(TurnwiseError, match=words):
        tiny.run(room, objective, "no", "bert", **options)


def test_a_base_without_a_tokenizer_is_refused(room: Path, tmp_path: Path) -> None:
    base = shutil.copytree(room / "bert", tmp_path / "bert")
    for spoil, words in [
        (lambda file: file.write_text("{broken"), r"tokenizer\.json: not a tokenizer that can be read"),
        (Path.unlink, r"no tokenizer\.json; `base` must be a folder"),
    ]:
        spoil(base / "tokenizer.json")
        with pytest.raises(TurnwiseError, match=words):
            train.train_model("mlm", data=[room / "toy.jsonl"], out=tmp_path / "out", base=base, **tiny.SMALL)


def test_what_dialogues_lack_is_said_before_anything_is_trained(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnwise.train.whole.fit", lambda *_: pytest.fail("it was trained in vain"))
    bare = [json.loads(line) for line in (room / "toy.jsonl").read_text().splitlines()]
    turns = [[{"text": turn["text"]} for turn in dialogue["turns"]] for dialogue in bare]
    plain = tmp_path / "plain.jsonl"
    plain.write_text("\n".join(json.dumps({"turns": said}) for said in turns))
    for objective, words in [
        ("vup+emotion", "emotion needs turns that name"),
        ("nup+dr-f", "dr-f needs two dialogues"),
    ]:
        with pytest.raises(TurnwiseError, match=f"{words}.*give files that have them"):
            train.train_model(objective, data=[plain], out=tmp_path / "out", base=room / "bert", **tiny.SMALL)


def test_a_pair_without_a_label_is_named_by_its_line(room: Path) -> None:
    (room / "unlabelled.jsonl").write_text('{"premise": "a dog runs", "hypothesis": "no dog runs"}\n')
    with pytest.raises(TurnwiseError, match=r"unlabelled.jsonl:1: not a labelled pair \('label'\)"):
        tiny.run(room, "nli", "no", "bert", pairs=[room / "unlabelled.jsonl"])


@pytest.mark.parametrize(("objective", "base"), [("mlm", "bert"), ("vup", "bert"), ("clm", "llama")])
def test_pickled_weights_are_refused(room: Path, tmp_path: Path, objective: str, base: str) -> None:
    shutil.copytree(room / base, tmp_path / base)
    torch.save(load_file(tmp_path / base / "model.safetensors"), tmp_path / base / "pytorch_model.bin")
    (tmp_path / base / "model.safetensors").unlink()
    with pytest.raises(TurnwiseError, match="pickled weights are refused") as problem:
        train.train_model(
            objective, data=[room / "toy.jsonl"], out=tmp_path / "out", base=tmp_path / base, **tiny.SMALL
        )
    assert "\n" not in str(problem.value)


def test_contexts_are_cut_to_the_positions_of_the_model(tmp_path: Path) -> None:
    base = tiny.bert(tmp_path / "bert", positions=100)
    lines = [
        json.dumps({"turns": [{"speaker": "AB"[i % 2], "text": f"tea {n} {i} , yes " * 40} for i in range(6)]})
        for n in range(40)
    ]
    (tmp_path / "long.jsonl").write_text("\n".join(lines))
    asked: dict[str, Any] = {"data": [tmp_path / "long.jsonl"], "base": base, **tiny.SMALL}
    card = train.train_model("mlm", out=tmp_path / "mlm", **asked)
    assert card["options"]["context_tokens"] == 100 - 64 - 3
    train.train_model("nup", out=tmp_path / "nup", **asked)
    assert json.loads((tmp_path / "nup" / "heads.json").read_text())["first_tokens"] == 100 - 64 - 3
    for lengths in ({"context_tokens": 50}, {"response_tokens": 97}):
        with pytest.raises(TurnwiseError, match="too few positions"):
            train.train_model("nup", out=tmp_path / "no", **asked, **lengths)
