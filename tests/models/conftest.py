"""Tiny random checkpoints, laid out as the training code lays out real ones. They need neither torch nor a network."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

LINE = "i you we like love hate music dogs cats tea very much do not the a piano play hello yes no why how are"
WORDS = LINE.split()
WIDTH, LAYERS, HEADS, INNER, PLACES = 32, 3, 4, 64, 96


def bert_tokenizer() -> Tokenizer:
    letters = [chr(c) for c in range(97, 123)] + list(".,?!'_0123456789")
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{x}" for x in letters), *WORDS]
    vocabulary = {name: i for i, name in enumerate(dict.fromkeys(names))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    return tokenizer


def byte_tokenizer() -> Tokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "t"), ("Ġt", "e"), ("Ġte", "a"), ("l", "i"), ("k", "e"), ("li", "ke")]
    names = ["<|endoftext|>", *letters, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def bert_weights(words: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    table = np.random.default_rng(99)

    def draw(*shape: int, scale: float = 0.15) -> np.ndarray:
        return rng.normal(0, scale, shape).astype(np.float32)

    def norm(name: str) -> dict[str, np.ndarray]:
        return {f"{name}.weight": 1 + draw(WIDTH), f"{name}.bias": draw(WIDTH)}

    def dense(name: str, out: int, into: int) -> dict[str, np.ndarray]:
        return {f"{name}.weight": draw(out, into), f"{name}.bias": draw(out)}

    weights = {
        "embeddings.word_embeddings.weight": table.normal(0, 0.3, (words, WIDTH)).astype(np.float32),
        "embeddings.position_embeddings.weight": draw(PLACES, WIDTH),
        "embeddings.token_type_embeddings.weight": draw(2, WIDTH),
        **norm("embeddings.LayerNorm"),
    }
    for i in range(LAYERS):
        name = f"encoder.layer.{i}."
        for part in ("query", "key", "value"):
            weights |= dense(f"{name}attention.self.{part}", WIDTH, WIDTH)
        weights |= dense(f"{name}attention.output.dense", WIDTH, WIDTH) | norm(f"{name}attention.output.LayerNorm")
        weights |= dense(f"{name}intermediate.dense", INNER, WIDTH) | dense(f"{name}output.dense", WIDTH, INNER)
        weights |= norm(f"{name}output.LayerNorm")
    return weights


def masked_lm_weights(words: int, seed: int) -> dict[str, np.ndarray]:
    trunk = {f"bert.{name}": value for name, value in bert_weights(words, seed).items()}
    rng = np.random.default_rng(seed + 1)
    head = {
        "transform.dense.weight": rng.normal(0, 0.2, (WIDTH, WIDTH)),
        "transform.dense.bias": rng.normal(0, 0.2, WIDTH),
        "transform.LayerNorm.weight": 1 + rng.normal(0, 0.2, WIDTH),
        "transform.LayerNorm.bias": rng.normal(0, 0.2, WIDTH),
        "bias": rng.normal(0, 0.2, words),
    }
    return trunk | {f"cls.predictions.{name}": value.astype(np.float32) for name, value in head.items()}


def llama_weights(words: int, seed: int, layers: int = 3, shared: int = 2, heads: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    width = WIDTH // heads

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.15, shape).astype(np.float32)

    weights = {"model.embed_tokens.weight": draw(words, WIDTH) * 4, "model.norm.weight": 1 + draw(WIDTH)}
    for i in range(layers):
        name = f"model.layers.{i}."
        weights |= {f"{name}{part}_layernorm.weight": 1 + draw(WIDTH) for part in ("input", "post_attention")}
        for part, out in (("q", heads * width), ("k", shared * width), ("v", shared * width), ("o", WIDTH)):
            weights[f"{name}self_attn.{part}_proj.weight"] = draw(out, WIDTH)
        weights |= {f"{name}mlp.{part}_proj.weight": draw(INNER, WIDTH) for part in ("gate", "up")}
        weights[f"{name}mlp.down_proj.weight"] = draw(WIDTH, INNER)
    return weights


def write(folder: Path, weights: dict[str, np.ndarray], config: dict[str, object], tokenizer: Tokenizer) -> Path:
    folder.mkdir(parents=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def bert_config(architecture: str, words: int) -> dict[str, object]:
    return {
        "architectures": [architecture],
        "model_type": "bert",
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "max_position_embeddings": PLACES,
        "vocab_size": words,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    }


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of an encoder, a masked LM, a trunk with three heads, one with a head alone, and a causal LM."""
    root = tmp_path_factory.mktemp("checkpoints")
    tokenizer = bert_tokenizer()
    words = tokenizer.get_vocab_size()
    folders = {
        "encoder": write(root / "encoder", bert_weights(words, 1), bert_config("BertModel", words), tokenizer),
        "masked-lm": write(
            root / "masked-lm", masked_lm_weights(words, 2), bert_config("BertForMaskedLM", words), tokenizer
        ),
    }
    labels = {
        "vup": ["broken", "valid"],
        "nli": ["contradiction", "neutral", "entailment"],
        "emotion": ["none", "some"],
    }
    for name, heads, pooling in (("shared", list(labels), "max"), ("nup", ["nup"], "mean")):
        folder = write(root / name, bert_weights(words, 3), bert_config("BertModel", words), tokenizer)
        of = {head: {"labels": labels.get(head, ["other", "next"])} for head in heads}
        layout = {"pooling": pooling, "activation": "gelu", "first_tokens": 20, "second_tokens": 12, "heads": of}
        (folder / "heads.json").write_text(json.dumps(layout))
        rng = np.random.default_rng(7)
        tensors = {}
        for head in heads:
            for part, out in (("dense", WIDTH), ("out", len(of[head]["labels"]))):
                tensors[f"{head}.{part}.weight"] = rng.normal(0, 0.4, (out, WIDTH)).astype(np.float32)
                tensors[f"{head}.{part}.bias"] = rng.normal(0, 0.4, out).astype(np.float32)
        save_file(tensors, folder / "heads.safetensors")
        (folder / "card.json").write_text(json.dumps({"data": "random numbers", "seed": 3}))
        folders[name] = folder
    bytes_ = byte_tokenizer()
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": WIDTH,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": INNER,
        "max_position_embeddings": 128,
        "vocab_size": bytes_.get_vocab_size(),
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
    }
    folders["causal-lm"] = write(root / "causal-lm", llama_weights(bytes_.get_vocab_size(), 5), config, bytes_)
    return folders


TEXTS = ["I like tea.", "do you play the piano?", "no, I love cats very much!", "yes yes yes", "why not?"]


@pytest.fixture(scope="session")
def full_pack(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack in full precision, with every role."""
    return _build(checkpoints, tmp_path_factory.mktemp("full") / "pack", fineness=None)


@pytest.fixture(scope="session")
def small_pack(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack in the compressed form, with every role."""
    return _build(checkpoints, tmp_path_factory.mktemp("small") / "pack", fineness={"words": 16})


def _build(checkpoints: dict[str, Path], out: Path, fineness: dict[str, float] | None) -> Path:
    from turnwise.models.export.build_pack import build_pack

    build_pack(
        list(checkpoints.values()),
        out,
        name="tiny",
        licence="none",
        texts=TEXTS,
        texts_card={"n": 5},
        fineness=fineness,
    )
    return out
