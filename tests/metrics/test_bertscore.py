"""BERTScore: equal to the package `bert-score` on the same tiny models, and what it does at the edges."""

from __future__ import annotations

import contextlib
import doctest
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import turnwise as tw
from tests.metrics.toy_models import Toy
from turnwise.analyses.config import composite_of
from turnwise.dialogue import Example
from turnwise.engine.answer import answer_requests
from turnwise.engine.cache import pack_answer, unpack_answer
from turnwise.engine.score import judge_examples
from turnwise.errors import TurnwiseError
from turnwise.metrics.bertscore import match, weigh
from turnwise.metrics.registry import load_metric
from turnwise.metrics.signature import signature
from turnwise.models.kinds import ModelSource
from turnwise.models.pack import Pack
from turnwise.models.requests import Embed, Pieces

PAGE = Path(__file__).parents[2] / "docs" / "metrics" / "bertscore.md"
BERT = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
ROBERTA = {"cls_token": "<s>", "sep_token": "</s>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
ROWS = [
    ("I like tea.", ["we love tea very much", "no"]),
    ("why not?", ["why not?"]),
    ("hello 你 [UNK] there", ["how are you", "hello, piano!", "yes yes yes"]),
    (" do you play the piano ", ["i do not play the piano."]),
    ("tea " * 120, ["the cats hate the dogs " * 30]),
]
PARTS = ("precision", "recall", "f1")


@pytest.fixture(scope="session")
def encoder(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy encoder, with what the package wants beside it."""
    folder = Path(shutil.copytree(checkpoints["encoder"], tmp_path_factory.mktemp("package") / "encoder"))
    facts = {"tokenizer_class": "BertTokenizer", "model_max_length": 96, **BERT}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts))
    return folder


def package(folder: Path, rows: list[tuple[str, list[str]]], **options: Any) -> np.ndarray:
    """Precision, recall and F1 of each row by the package itself."""
    bert_score = pytest.importorskip("bert_score", reason="pip install bert-score to compare with it")
    responses, references = zip(*rows, strict=True)
    # By its name alone: the package takes any model with "t5" in its address for a T5.
    with contextlib.chdir(folder.parent):
        found = bert_score.score(
            list(responses), list(references), model_type=folder.name, device="cpu", nthreads=0, **options
        )
    return np.stack([column.numpy() for column in found], axis=1)


def examples(rows: list[tuple[str, list[str]]]) -> list[Example]:
    return [Example(response, references=tuple(references)) for response, references in rows]


def triples(scores: list[Any]) -> np.ndarray:
    return np.array([[score.parts[part] for part in PARTS] for score in scores])


# --- against the package --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_it_equals_the_package(layer: int, encoder: Path, toy: Toy) -> None:
    request = f"bertscore[layer={layer}]"
    ours = triples([judged[request] for judged in toy.judge(request, *examples(ROWS))])
    assert ours == pytest.approx(package(encoder, ROWS, num_layers=layer), abs=1e-5)


def test_the_last_layer_is_the_default(toy: Toy) -> None:
    row = examples(ROWS)[0]
    assert toy.score("bertscore", row) == toy.score("bertscore[layer=3]", row)


def test_rare_tokens_weigh_as_in_the_package(encoder: Path, toy_pack: Pack) -> None:
    rows = [{"response": response, "references": references} for response, references in ROWS]
    request = "bertscore[idf=batch,layer=2]"
    result = tw.evaluate(rows, metrics=[request, "bertscore[layer=2]"], models=toy_pack.folder, cache="off")
    ours = triples([item.scores[request] for item in result.judged])
    assert ours == pytest.approx(package(encoder, ROWS, num_layers=2, idf=True), abs=1e-5)
    assert ours != pytest.approx(triples([item.scores["bertscore[layer=2]"] for item in result.judged]), abs=1e-3)


def test_a_baseline_stretches_as_in_the_package(encoder: Path, toy: Toy, tmp_path: Path) -> None:
    file = tmp_path / "baseline.tsv"
    file.write_text("LAYER,P,R,F\n0,0.1,0.1,0.1\n1,0.31,0.32,0.33\n2,0.5,0.45,0.4\n")
    options = {"rescale_with_baseline": True, "lang": "en", "baseline_path": str(file)}
    theirs = package(encoder, ROWS, num_layers=1, **options)
    for baseline in (str(file), "0.31/0.32/0.33"):
        request = f"bertscore[layer=1,baseline={baseline}]"
        ours = triples([judged[request] for judged in toy.judge(request, *examples(ROWS))])
        assert ours == pytest.approx(theirs, abs=1e-5)


@pytest.fixture(scope="session")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tiny RoBERTa, with a tokenizer that puts a space before a text and one that does not."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    merges = [("Ġ", "t"), ("Ġt", "e"), ("Ġte", "a"), ("l", "i"), ("k", "e"), ("li", "ke"), ("Ġ", "like")]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = ["<s>", "<pad>", "</s>", *letters, *("".join(pair) for pair in merges)]
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.RobertaConfig(vocab_size=len(names), max_position_embeddings=100, type_vocab_size=1, **sizes)
    model = transformers.RobertaModel(config)
    folders = {}
    for name, spaced in (("plain", False), ("spaced", True)):
        folder = folders[name] = tmp_path_factory.mktemp(name)
        model.save_pretrained(folder)
        tokenizer = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, merges))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
        tokenizer.add_special_tokens(["<s>", "<pad>", "</s>"])
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=spaced)
        tokenizer.save(str(folder / "tokenizer.json"))
        facts = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 98, **ROBERTA}
        (folder / "tokenizer_config.json").write_text(json.dumps(facts))
    return folders


def test_byte_level_models_read_a_text_as_if_a_space_stood_before_it(roberta: dict[str, Path]) -> None:
    from turnwise.models.sources import open_transformers

    class Source(ModelSource):
        roles = ("encoder",)
        opened = open_transformers("encoder", str(roberta["plain"]), device="cpu")

        def model(self, role: str) -> Any:
            return self.opened

    rows = [("tea", ["like tea", "tea"]), ("like it", ["I like tea."])]
    metrics = {"bertscore": load_metric("bertscore")}
    judged = judge_examples(examples(rows), metrics, lambda requests: answer_requests(requests, Source()))
    ours = triples([scores["bertscore"] for scores in judged])
    assert ours == pytest.approx(package(roberta["spaced"], rows, num_layers=2), abs=1e-5)


# --- what is asked ---------------------------------------------------------------------------------------------


def test_a_text_is_embedded_once(toy: Toy) -> None:
    rows = examples([("i like tea", ["tea", "why ?"]), ("tea", ["i like tea"]), ("why ?", ["why ?"])])
    toy.judge(["bertscore", "bertscore[of=recall]", "bertscore[baseline=.1/.1/.1]"], *rows)
    assert sorted(request.text for request in toy.asked) == [" i like tea", " tea", " why ?"]  # type: ignore[union-attr]


def test_pieces_have_the_tokens_of_the_template(toy_pack: Pack) -> None:
    request = Embed("I like ☃", pooling="pieces", layer=1)
    pieces = answer_requests([request], toy_pack)[request]
    assert isinstance(pieces, Pieces)
    assert pieces.tokens == ("[CLS]", "i", "like", "[UNK]", "[SEP]")
    assert pieces.added == (True, False, False, False, True)
    own = answer_requests([other := Embed("I like", pooling="tokens", layer=1)], toy_pack)[other]
    assert pieces.vectors.shape == (5, np.shape(own)[1])
    again = unpack_answer(b"key", pack_answer(b"key", pieces))
    assert isinstance(again, Pieces)
    assert (again.tokens, again.added) == (pieces.tokens, pieces.added)
    np.testing.assert_array_equal(again.vectors, pieces.vectors)


def test_scores_come_from_the_cache_unchanged(toy_pack: Pack, tmp_path: Path) -> None:
    rows = [{"response": response, "references": references} for response, references in ROWS]
    first, second = (
        tw.evaluate(rows, metrics="bertscore", models=toy_pack.folder, cache=tmp_path).turns["bertscore"].to_list()
        for _ in range(2)
    )
    assert first == second


# --- edges -----------------------------------------------------------------------------------------------------


def test_a_text_equals_itself_and_sides_can_be_swapped(toy: Toy) -> None:
    itself = toy.score("bertscore", Example("i like tea .", references=("I like tea.",)))
    assert itself.parts == pytest.approx(dict.fromkeys(PARTS, 1.0))
    there = toy.score("bertscore", Example("do you like cats", references=("i hate music",)))
    back = toy.score("bertscore", Example("i hate music", references=("do you like cats",)))
    assert there.parts["precision"] == pytest.approx(back.parts["recall"])
    assert there.value == pytest.approx(back.value)


def test_each_number_is_the_best_over_the_references(toy: Toy) -> None:
    def parts(*references: str) -> Any:
        return toy.score("bertscore", Example("why do you like cats", references=references)).parts

    one, other = parts("why why why"), parts("you hate the cats and dogs very much")
    assert parts("why why why", "you hate the cats and dogs very much") == {
        name: max(one[name], other[name]) for name in PARTS
    }


def test_nothing_to_judge(toy: Toy) -> None:
    assert toy.score("bertscore", Example("", references=("tea",))).value == 0.0
    assert toy.score("bertscore", Example("tea", references=(" ", ""))).note.code == "score.no_reference_words"
    assert toy.score("bertscore", Example("tea")).note.code == "score.no_references"
    assert toy.score("bertscore", Example("tea", references=("", "tea"))).value == pytest.approx(1.0)


def test_tokens_that_all_references_have_weigh_nothing() -> None:
    text = Pieces(("tea",), (False,), np.ones((1, 2), dtype=np.float32))
    assert weigh(match(text, text)) == pytest.approx((1.0, 1.0, 1.0))
    assert weigh(match(text, text), {"tea": 0.0}) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ("bertscore[of=f2]", "f1, precision, recall"),
        ("bertscore[baseline=0.8]", "3 numbers"),
        ("bertscore[baseline=1/0/0]", "less than 1"),
        ("bertscore[baseline=none.csv]", "cannot be read"),
    ],
)
def test_a_request_that_cannot_be_met_is_answered_in_one_line(request_: str, words: str) -> None:
    with pytest.raises(TurnwiseError) as caught:
        load_metric(request_)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_baseline_file_has_the_layer_and_is_named_in_the_signature(tmp_path: Path) -> None:
    file = tmp_path / "base.csv"
    file.write_text("LAYER,P,R,F\n4,0.1,0.2,0.3\n")
    request = f"bertscore[layer=4,baseline={file}]"
    assert "|baseline:base.csv#" in signature(request, load_metric(request), full=True)
    floor = load_metric(request).floor
    file.write_text(file.read_text().replace("0.", "0.0"))
    assert load_metric(request).floor < floor
    with pytest.raises(TurnwiseError, match="no layer -1; set layer to one of 4"):
        load_metric(f"bertscore[baseline={file}]")
    file = tmp_path / "other.csv"
    file.write_text("P,R\n1,2\n")
    with pytest.raises(TurnwiseError, match="LAYER,P,R,F"):
        load_metric(f"bertscore[layer=4,baseline={file}]")


def test_a_layer_that_is_not_there(toy: Toy) -> None:
    with pytest.raises(TurnwiseError, match=r"bertscore\[layer=7\]: the encoder has layers 0 to 3, and no layer 7"):
        toy.score("bertscore[layer=7]", examples(ROWS)[0])


def test_published_forms_name_their_model(toy: Toy) -> None:
    paper, released = load_metric("bertscore:paper"), load_metric("bertscore:released")
    assert released.options() == {
        **{"of": "f1", "encoder": "encoder-roberta-large", "layer": 17, "idf": "none", "baseline": ()}
    }
    assert paper.options() == released.options() | {"of": "recall"}
    with pytest.raises(TurnwiseError, match="no model for 'encoder-roberta-large'"):
        toy.score("bertscore:released", examples(ROWS)[0])


def test_no_part_of_a_composite_waits_for_the_run() -> None:
    part = {"metric": "bertscore[idf=batch]", "weight": 1.0}
    with pytest.raises(ValueError, match="cannot wait for the whole run"):
        composite_of({"name": "mine", "parts": [part]})


def test_the_pages_examples_run() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
