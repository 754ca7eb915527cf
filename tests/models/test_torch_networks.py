"""The same weights through both backends, and through plain transformers, give the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from turnwise.engine.answer import answer_requests
from turnwise.errors import TurnwiseError
from turnwise.models.kinds import ModelSource
from turnwise.models.pack import load_pack
from turnwise.models.requests import Classify, Continuation, Embed, MaskedLikelihood, Request, TokenScores, Window

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from turnwise.models.sources import open_transformers  # noqa: E402

CONTEXTS = ["do you like music?", "hello, how are you?", "I hate dogs. " * 12]
RESPONSES = ["yes, very much!", "I play the piano", "no."]
PAIRS = [(c, r) for c in CONTEXTS for r in RESPONSES]


class Folder(ModelSource):
    """Roles answered by transformers from checkpoint folders."""

    def __init__(self, folders: dict[str, Path]) -> None:
        shared = {"vup", "nli", "emotion"}
        self._models = {
            role: open_transformers("classifier", str(folders["shared" if role in shared else role]), head=role)
            for role in (*shared, "nup")
        }
        for kind in ("encoder", "masked-lm", "causal-lm"):
            self._models[kind] = open_transformers(kind, str(folders[kind]))

    def model(self, role: str):
        return self._models[role]


def numbers(answer) -> np.ndarray:
    if isinstance(answer, TokenScores):
        return np.array(answer.log_probs)
    return np.array(list(answer.values())) if isinstance(answer, dict) else answer


def questions() -> list[Request]:
    asked: list[Request] = [Classify(c, r, role=role) for c, r in PAIRS for role in ("nup", "nli", "emotion")]
    asked += [Classify(r, role="vup") for r in RESPONSES]
    asked += [
        Embed(c, r, pooling=p, layer=at) for c, r in PAIRS for p in ("mean", "cls", "max", "tokens") for at in (-1, 1)
    ]
    asked += [MaskedLikelihood(c, r, masked=masked) for c, r in PAIRS[:6] for masked in (True, False)]
    asked += [MaskedLikelihood(f"{c} _eos {r}", span=(len(c) + 6, len(c) + 6 + len(r))) for c, r in PAIRS[:6]]
    asked += [MaskedLikelihood(f"{c} _eos {r}", window=Window(7, keep="last")) for c, r in PAIRS[:6]]
    asked += [Classify(c, r, Window(12, 6, 6, together=True), "nup") for c, r in PAIRS]
    return asked + [Continuation(c, " " + r, begin=b) for c, r in PAIRS for b in (True, False)]


def test_both_backends_agree(checkpoints: dict[str, Path], full_pack: Path) -> None:
    asked = questions()
    ours = answer_requests(asked, load_pack(full_pack))
    theirs = answer_requests(asked, Folder(checkpoints))
    for request in asked:
        a, b = ours[request], theirs[request]
        assert numbers(a).size, request
        np.testing.assert_allclose(numbers(a), numbers(b), atol=1e-4, err_msg=str(request))
        if isinstance(a, TokenScores):
            assert a.tokens == b.tokens
        if isinstance(a, dict):
            assert list(a) == list(b)


def test_masked_likelihood_is_that_of_the_whole_model(checkpoints: dict[str, Path], full_pack: Path) -> None:
    module = transformers.BertForMaskedLM.from_pretrained(checkpoints["masked-lm"]).eval()
    request = MaskedLikelihood("do you like tea", "yes , very much")
    answer = answer_requests([request], load_pack(full_pack))[request]
    encoding = load_pack(full_pack).model("masked-lm").tokens.encode(request.text, request.pair, None)
    expected = []
    for place, token in enumerate(encoding.ids):
        if token > 4:
            ids = torch.tensor([encoding.ids])
            ids[0, place] = 4
            with torch.no_grad():
                logits = module(input_ids=ids, token_type_ids=torch.tensor([encoding.type_ids])).logits
            expected.append(float(logits[0, place].log_softmax(-1)[token]))
    np.testing.assert_allclose(answer.log_probs, expected, atol=1e-4)


def test_unmasked_likelihood_is_that_of_one_plain_pass(checkpoints: dict[str, Path], full_pack: Path) -> None:
    module = transformers.BertForMaskedLM.from_pretrained(checkpoints["masked-lm"]).eval()
    request = MaskedLikelihood("do you like tea", "yes , very much", span=(4, 15), masked=False)
    pack = load_pack(full_pack)
    (row,) = pack.model("masked-lm").rows(request)
    answer = answer_requests([request], pack)[request]
    with torch.no_grad():
        logits = module(input_ids=torch.tensor([row.ids]), token_type_ids=torch.tensor([row.types])).logits[0]
    expected = [float(logits[place].log_softmax(-1)[row.ids[place]]) for place in row.places]
    assert answer.tokens == (",", "very", "much")
    np.testing.assert_allclose(answer.log_probs, expected, atol=1e-4)


def test_continuation_is_that_of_one_pass_without_memory(checkpoints: dict[str, Path], full_pack: Path) -> None:
    module = transformers.LlamaForCausalLM.from_pretrained(checkpoints["causal-lm"]).eval()
    pack = load_pack(full_pack)
    tokens = pack.model("causal-lm").tokens
    asked = [Continuation(c, " " + r, begin=b) for c, r in PAIRS[:6] for b in (True, False)]
    asked += [Continuation("", r, begin=b) for r in RESPONSES for b in (True, False)]
    answers = answer_requests(asked, pack)
    for request in asked:
        ids = tokens.plain(request.context + request.response).ids
        ids = [0, *ids] if request.begin else ids
        with torch.no_grad():
            scores = module(torch.tensor([ids])).logits[0].log_softmax(-1)
        every = [float(scores[i, ids[i + 1]]) for i in range(len(ids) - 1)]
        got = answers[request].log_probs
        np.testing.assert_allclose(got, every[len(every) - len(got) :], atol=1e-4)
        whole = len(tokens.plain(request.response).ids)
        assert len(got) == (whole if request.begin or request.context else whole - 1)


@pytest.mark.parametrize("family", ["roberta", "gpt2", "distilbert"])
def test_other_families_equal_plain_transformers(family: str, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    torch.manual_seed(0)
    source = "causal-lm" if family == "gpt2" else "masked-lm"
    size = {"vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    if family == "roberta":
        config = transformers.RobertaConfig(**size, intermediate_size=64, max_position_embeddings=98, type_vocab_size=1)
        module = transformers.RobertaForMaskedLM(config)
    elif family == "distilbert":
        config = transformers.DistilBertConfig(vocab_size=400, dim=32, n_layers=2, n_heads=4, hidden_dim=64)
        module = transformers.DistilBertForMaskedLM(config)
    else:
        config = transformers.GPT2Config(vocab_size=400, n_embd=32, n_layer=2, n_head=4, n_positions=96, bos_token_id=0)
        module = transformers.GPT2LMHeadModel(config)
    for parameter in module.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    module.eval().save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((checkpoints[source] / "tokenizer.json").read_bytes())
    model = open_transformers(source, str(tmp_path), device="cpu")
    asked = [Continuation(c, " " + r) if family == "gpt2" else MaskedLikelihood(r) for c, r in PAIRS[:6]]

    class Only(ModelSource):
        def model(self, role: str):
            return model

    answers = answer_requests(asked, Only())
    for request in asked:
        if isinstance(request, Continuation):
            ids = [0, *model.tokens.plain(request.context + request.response).ids]
            with torch.no_grad():
                scores = module(torch.tensor([ids])).logits[0].log_softmax(-1)
            expected = [float(scores[i, ids[i + 1]]) for i in range(len(ids) - 1)]
        else:
            ids, expected = model.tokens.encode(request.text, None, None).ids, []
            for place in range(1, len(ids) - 1):
                masked = torch.tensor([[*ids[:place], 4, *ids[place + 1 :]]])
                with torch.no_grad():
                    expected.append(float(module(masked).logits[0, place].log_softmax(-1)[ids[place]]))
        got = answers[request].log_probs
        np.testing.assert_allclose(got, expected[len(expected) - len(got) :], atol=1e-4)


def test_pickled_weights_are_refused(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    module = transformers.BertModel.from_pretrained(checkpoints["encoder"])
    torch.save(module.state_dict(), tmp_path / "pytorch_model.bin")
    module.config.save_pretrained(tmp_path)
    with pytest.raises(TurnwiseError, match="pickled weights are refused"):
        open_transformers("encoder", str(tmp_path))


def test_code_of_a_model_is_never_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(marker)!r}, 'w')\n")
    (tmp_path / "config.json").write_text('{"model_type": "evil", "auto_map": {"AutoModel": "evil.Evil"}}')
    with pytest.raises(TurnwiseError):
        open_transformers("encoder", str(tmp_path))
    assert not marker.exists()


def test_no_gpu_is_said_plainly(checkpoints: dict[str, Path]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(TurnwiseError, match="sees no GPU"):
        open_transformers("encoder", str(checkpoints["encoder"]), device="cuda")
