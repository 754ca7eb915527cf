"""A folder of checkpoints as models: the answers of the pack that is built of them in full precision."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

pytest.importorskip("torch", reason="checkpoints run through torch: pip install 'turnwise[torch]'")

from tests.models.conftest import bert_tokenizer, byte_tokenizer
from turnwise.analyses.evaluate import evaluate
from turnwise.engine.answer import answer_requests
from turnwise.errors import TurnwiseError
from turnwise.models.pack import load_models
from turnwise.models.requests import Classify, Continuation, Embed, MaskedLikelihood, Request
from turnwise.models.sources import CheckpointModels, PaperModels, holds_checkpoints


def test_checkpoints_answer_as_their_pack_does(checkpoints: dict[str, Path], full_pack: Path) -> None:
    folder = checkpoints["encoder"].parent
    assert holds_checkpoints(folder)
    assert not holds_checkpoints(full_pack)
    models = load_models(folder, "cpu")
    assert isinstance(models, CheckpointModels)
    requests: list[Request] = [
        Embed("i like tea", "do you ?"),
        MaskedLikelihood("we play", "the piano"),
        Classify("i like tea", "me too", role="nup"),
        Classify("yes yes", role="vup"),
        Continuation("do you", " like tea"),
    ]
    ours, packed = answer_requests(requests, models), answer_requests(requests, load_models(full_pack))
    np.testing.assert_allclose(ours[requests[0]], packed[requests[0]], atol=1e-4)
    for request in (requests[1], requests[4]):
        np.testing.assert_allclose(ours[request].log_probs, packed[request].log_probs, atol=1e-4)
    for request in requests[2:4]:
        assert ours[request] == pytest.approx(packed[request], abs=1e-4)
    assert models.label(["encoder"]) != models.label(["encoder", "nup"])


def test_what_is_missing_is_said(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(TurnwiseError, match="no checkpoint for 'maude'"):
        CheckpointModels(checkpoints["encoder"].parent, "cpu").model("maude")
    with pytest.raises(TurnwiseError, match="no checkpoint in its folders"):
        CheckpointModels(tmp_path, "cpu")


def test_a_score_that_needs_another_role_is_refused_in_one_line(checkpoints: dict[str, Path]) -> None:
    models = CheckpointModels(checkpoints["encoder"].parent, "cpu")
    with pytest.raises(TurnwiseError, match=r"no checkpoint for 'dr-f' among the models; there are: .*masked-lm"):
        models.label(["dr-f", "masked-lm"])
    with pytest.raises(TurnwiseError, match=r"no model for 'maude'; give other `models` \(it has: encoder"):
        PaperModels("cpu").label(["maude"])


def test_a_folder_that_was_trained_again_is_opened_again(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(checkpoints["masked-lm"], tmp_path / "models" / "masked-lm")

    def scored() -> tuple[str, float]:
        rows = [{"context": ["do you like tea"], "response": "i like tea very much"}]
        result = evaluate(rows, ["mlm-ppl"], models=tmp_path / "models", device="cpu", cache="off")
        return result.signatures["mlm-ppl"], result.turns["mlm-ppl"][0]

    before = scored()
    assert scored() == before
    weights = tmp_path / "models" / "masked-lm" / "model.safetensors"
    save_file({name: -value for name, value in load_file(weights).items()}, weights, metadata={"format": "pt"})
    after = scored()
    assert after[0] != before[0]
    assert after[1] != pytest.approx(before[1], abs=1e-6)


def test_models_that_transformers_saved_answer_for_their_roles(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    bert = transformers.BertConfig.from_pretrained(checkpoints["encoder"], num_labels=3)
    bert.id2label = {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}
    gpt2 = transformers.GPT2Config(
        vocab_size=byte_tokenizer().get_vocab_size(), n_positions=64, n_embd=32, n_layer=1, n_head=2, bos_token_id=0
    )
    saved = {
        "gpt2": (transformers.GPT2LMHeadModel(gpt2), byte_tokenizer()),
        "bert": (transformers.BertForMaskedLM(bert), bert_tokenizer()),
        "nli": (transformers.BertForSequenceClassification(bert), bert_tokenizer()),
        "sorter": (transformers.BertForSequenceClassification(bert), bert_tokenizer()),
        "tagger": (transformers.BertForTokenClassification(bert), bert_tokenizer()),
    }
    for name, (model, tokenizer) in saved.items():
        model.save_pretrained(tmp_path / name)
        tokenizer.save(str(tmp_path / name / "tokenizer.json"))
    models = load_models(tmp_path, "cpu")
    assert set(models.roles) == {"causal-lm", "masked-lm", "nli"}
    asked: list[Request] = [
        MaskedLikelihood("we play", "the piano"),
        Continuation("do you", " like tea"),
        Classify("i like tea", "i hate tea", role="nli"),
    ]
    answers = answer_requests(asked, models)
    assert len(answers[asked[0]].log_probs) == 4
    assert answers[asked[1]].log_probs
    assert list(answers[asked[2]]) == ["contradiction", "neutral", "entailment"]
    assert load_models(tmp_path / "gpt2", "cpu").roles == ("causal-lm",)
    with pytest.raises(TurnwiseError, match=r"no checkpoint for 'vup'.*sorter .*name its folder.*tagger \("):
        models.model("vup")
    with pytest.raises(TurnwiseError, match=r"no checkpoint .*tagger \(BertForTokenClassification\)"):
        load_models(tmp_path / "tagger", "cpu")
    with pytest.raises(TurnwiseError, match=r"nowhere' is not known.*with checkpoints, or 'paper'"):
        load_models(tmp_path / "nowhere", "cpu")
