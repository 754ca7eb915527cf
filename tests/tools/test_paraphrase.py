"""Paraphrasers: synonyms, a language model shown how to rewrite, and translation there and back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from paraphrase import BackTranslation, Paraphraser, Rewriter, Synonyms, open_marian

from turnwise.errors import TurnwiseError


def test_synonyms_change_words_and_leave_what_has_none() -> None:
    paraphraser: Paraphraser = Synonyms()
    assert paraphraser.say_again(["she bought a small car .", "oh !"]) == ["she purchased a small car .", "oh !"]


def test_a_rewriter_takes_the_best_that_is_new() -> None:
    class Writer:
        def beams(self, prompt: str, count: int) -> list[Any]:
            assert prompt.endswith("said: hi there !\nin other words:")
            return [SimpleNamespace(text="Hi there !"), SimpleNamespace(text="hello !")][:count]

    assert Rewriter(Writer()).say_again(["hi there !"]) == ["hello !"]  # type: ignore[arg-type]


def test_back_translation_goes_there_and_back() -> None:
    pytest.importorskip("torch")
    said: list[str | Path] = []

    class Tokens:
        def __call__(self, texts: list[str], **_: Any) -> dict[str, Any]:
            return {"texts": texts}

        def batch_decode(self, written: list[str], **_: Any) -> list[str]:
            return written

    def open_model(name: str | Path) -> tuple[Any, Any]:
        def generate(texts: list[str], num_beams: int) -> list[str]:
            said.append(name)
            assert num_beams == 5
            return [f"{name}({text})" for text in texts]

        return Tokens(), SimpleNamespace(generate=generate)

    texts = [str(number) for number in range(5)]
    again = BackTranslation(("there", "back"), batch=2, open_model=open_model).say_again(texts)
    assert again == [f"back(there({number}))" for number in range(5)]
    assert said == ["there"] * 3 + ["back"] * 3


def test_models_that_are_not_there_are_named(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(TurnwiseError, match="nowhere"):
        BackTranslation((tmp_path / "nowhere", tmp_path / "nowhere"))


def test_pickled_translation_models_are_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    sizes = dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim"), 8)
    config = transformers.MarianConfig(
        vocab_size=4, encoder_layers=1, decoder_layers=1, encoder_attention_heads=1, decoder_attention_heads=1,
        pad_token_id=3, decoder_start_token_id=3, **sizes,
    )  # fmt: skip
    config.save_pretrained(tmp_path)
    torch.save(transformers.MarianMTModel(config).state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(TurnwiseError, match=r"no file named model\.safetensors"):
        open_marian(tmp_path)
