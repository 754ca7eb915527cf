"""Checkpoints to measure with: those that are given, or random ones of the bundled pack's shapes.

How long a network takes does not depend on what its weights are. How far two forms of it agree does, so figures on
agreement that are meant to be quoted need trained checkpoints.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from turnwise.models.pack import DEFAULT_PACK, installed_packs

# A space in front of every word, and the specials of BERT: enough of a tokenizer where there is no pack.
LETTERS = [chr(code) for code in range(33, 127)]


@dataclass(frozen=True)
class Shape:
    """The sizes of an encoder and of a causal language model."""

    width: int = 384
    layers: int = 6
    heads: int = 12
    inner: int = 1536
    causal_width: int = 576
    causal_layers: int = 22
    causal_heads: int = 9
    causal_shared: int = 3
    causal_inner: int = 1536


MINI = Shape()
TINY = Shape(32, 2, 2, 64, 32, 2, 4, 2, 64)


def make(folder: Path, shape: Shape = MINI, seed: int = 0) -> Path:
    """A folder of random checkpoints: encoder, masked-lm, nup, causal-lm and maude."""
    rng = np.random.default_rng(seed)
    bert, causal = _tokenizers(folder)
    words = _size(bert)
    trunk = _trunk(rng, words, shape)
    config = {
        "model_type": "bert",
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.inner,
        "max_position_embeddings": 512,
        "vocab_size": words,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    }
    _write(folder / "encoder", trunk, {**config, "architectures": ["BertModel"]}, bert)
    masked = {f"bert.{name}": value for name, value in trunk.items()} | _masked_head(rng, words, shape)
    _write(folder / "masked-lm", masked, {**config, "architectures": ["BertForMaskedLM"]}, bert)
    _write(folder / "nup", trunk, {**config, "architectures": ["BertModel"]}, bert)
    _classifier_head(rng, folder / "nup", shape)
    _causal(rng, folder / "causal-lm", causal, shape)
    _maude(rng, folder / "maude", shape)
    return folder


def _draw(rng: np.random.Generator, *shape: int, scale: float = 0.05) -> Any:
    return rng.normal(0, scale, shape).astype(np.float32)


def _dense(rng: np.random.Generator, name: str, out: int, into: int) -> dict[str, Any]:
    return {f"{name}.weight": _draw(rng, out, into), f"{name}.bias": _draw(rng, out)}


def _norm(rng: np.random.Generator, name: str, width: int) -> dict[str, Any]:
    return {f"{name}.weight": 1 + _draw(rng, width), f"{name}.bias": _draw(rng, width)}


def _trunk(rng: np.random.Generator, words: int, shape: Shape) -> dict[str, Any]:
    width = shape.width
    weights = {
        "embeddings.word_embeddings.weight": _draw(rng, words, width, scale=0.2),
        "embeddings.position_embeddings.weight": _draw(rng, 512, width),
        "embeddings.token_type_embeddings.weight": _draw(rng, 2, width),
        **_norm(rng, "embeddings.LayerNorm", width),
    }
    for layer in range(shape.layers):
        name = f"encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            weights |= _dense(rng, f"{name}attention.self.{part}", width, width)
        weights |= _dense(rng, f"{name}attention.output.dense", width, width)
        weights |= _norm(rng, f"{name}attention.output.LayerNorm", width)
        weights |= _dense(rng, f"{name}intermediate.dense", shape.inner, width)
        weights |= _dense(rng, f"{name}output.dense", width, shape.inner) | _norm(rng, f"{name}output.LayerNorm", width)
    return weights


def _masked_head(rng: np.random.Generator, words: int, shape: Shape) -> dict[str, Any]:
    head = _dense(rng, "transform.dense", shape.width, shape.width) | _norm(rng, "transform.LayerNorm", shape.width)
    return {f"cls.predictions.{name}": value for name, value in {**head, "bias": _draw(rng, words)}.items()}


def _classifier_head(rng: np.random.Generator, folder: Path, shape: Shape) -> None:
    layout: dict[str, Any] = {
        "pooling": "max",
        "activation": "gelu",
        "first_tokens": 160,
        "second_tokens": 64,
        "heads": {head: {"labels": ["other", "next"]} for head in ("nup", "dr-f", "vup")},
    }
    (folder / "heads.json").write_text(json.dumps(layout))
    tensors: dict[str, Any] = {}
    for head in layout["heads"]:
        tensors |= _dense(rng, f"{head}.dense", shape.width, shape.width) | _dense(rng, f"{head}.out", 2, shape.width)
    save_file(tensors, folder / "heads.safetensors")


def _causal(rng: np.random.Generator, folder: Path, tokenizer: Path, shape: Shape) -> None:
    words, width, each = _size(tokenizer), shape.causal_width, shape.causal_width // shape.causal_heads
    weights = {"model.embed_tokens.weight": _draw(rng, words, width), "model.norm.weight": 1 + _draw(rng, width)}
    for layer in range(shape.causal_layers):
        name = f"model.layers.{layer}."
        for part in ("input", "post_attention"):
            weights[f"{name}{part}_layernorm.weight"] = 1 + _draw(rng, width)
        shared = shape.causal_shared * each
        for part, out in (("q", width), ("k", shared), ("v", shared), ("o", width)):
            weights[f"{name}self_attn.{part}_proj.weight"] = _draw(rng, out, width)
        for part in ("gate", "up"):
            weights[f"{name}mlp.{part}_proj.weight"] = _draw(rng, shape.causal_inner, width)
        weights[f"{name}mlp.down_proj.weight"] = _draw(rng, width, shape.causal_inner)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "num_hidden_layers": shape.causal_layers,
        "num_attention_heads": shape.causal_heads,
        "num_key_value_heads": shape.causal_shared,
        "intermediate_size": shape.causal_inner,
        "max_position_embeddings": 1024,
        "vocab_size": words,
        "rms_norm_eps": 1e-5,
        "rope_theta": 100000.0,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
    }
    _write(folder, weights, config, tokenizer)


def _maude(rng: np.random.Generator, folder: Path, shape: Shape) -> None:
    """A head of the released form over the last layer and the one in the middle."""
    down, hidden, dense, layers = 300, 200, 200, (shape.layers // 2, shape.layers)
    weights = {"mix.weight": _draw(rng, down, hidden), **_dense(rng, "down", down, len(layers) * shape.width)}
    for layer, below in enumerate((down, hidden)):
        weights[f"transition.weight_ih_l{layer}"] = _draw(rng, 4 * hidden, below)
        weights[f"transition.weight_hh_l{layer}"] = _draw(rng, 4 * hidden, hidden)
        weights |= {f"transition.bias_{part}_l{layer}": _draw(rng, 4 * hidden) for part in ("ih", "hh")}
    weights |= _dense(rng, "dense", dense, 4 * down) | _dense(rng, "out", 1, dense)
    folder.mkdir(parents=True)
    facts = {"role": "encoder", "layers": ",".join(map(str, layers)), "pooling": "mean"}
    facts |= {"bidirectional": "false", "difference": "absolute"}
    save_file(weights, folder / "maude.safetensors", metadata=facts)
    (folder / "card.json").write_text("{}")


def _write(folder: Path, weights: dict[str, Any], config: dict[str, Any], tokenizer: Path) -> None:
    folder.mkdir(parents=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    shutil.copy(tokenizer, folder / "tokenizer.json")


def _size(tokenizer: Path) -> int:
    from tokenizers import Tokenizer

    return int(Tokenizer.from_file(str(tokenizer)).get_vocab_size())


def _tokenizers(folder: Path) -> tuple[Path, Path]:
    """Return those of the default pack, or simple ones made here if it is not installed."""
    if pack := installed_packs().get(DEFAULT_PACK):
        return pack / "tokenizer.json", pack / "tokenizer-2.json"
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    names = [*special, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    made = Tokenizer(models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))  # noqa: S106
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(special)
    pair = [("[CLS]", 2), ("[SEP]", 3)]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=pair
    )
    letters = ["<unk>", "<s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    causal = Tokenizer(models.BPE({name: i for i, name in enumerate(letters)}, []))
    causal.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    causal.add_special_tokens(["<unk>", "<s>"])
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "bert.json"))
    causal.save(str(folder / "causal.json"))
    return folder / "bert.json", folder / "causal.json"
