"""Tiny random models and a handful of dialogues, made on the spot."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

SMALL: dict[str, Any] = {"batch": 16, "steps": 12, "validate": 30, "held_out": 0.2, "device": "cpu"}
TOPICS = {
    "tea": ["i like hot tea .", "do you drink tea every day ?", "yes , i drink green tea .", "tea is good for you ."],
    "dog": ["i have two dogs .", "are your dogs big ?", "no , my dogs are small .", "dogs run in the park ."],
    "trip": ["we went to paris .", "did you enjoy the trip ?", "yes , paris was great .", "paris is far away ."],
}


def dialogues(path: Path, count: int = 60, seed: int = 0) -> Path:
    """Write dialogues that stay on one of three topics."""
    rng = Random(seed)
    lines = []
    for number in range(count):
        topic = rng.choice(sorted(TOPICS))
        said = [f"{text} really {rng.randrange(100)}" for text in rng.sample(TOPICS[topic], 4)]
        turns = [
            {
                "speaker": "AB"[i % 2],
                "text": text,
                "emotion": "happiness" if "yes" in text or "like" in text else "no_emotion",
            }
            for i, text in enumerate(said)
        ]
        lines.append(json.dumps({"dialogue_id": number, "turns": turns, "facts": {"A": TOPICS[topic][:2]}}))
    path.write_text("\n".join(lines) + "\n")
    return path


def bert(folder: Path, positions: int = 512) -> Path:
    """A random BERT with a WordPiece vocabulary of letters and words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertModel

    words = sorted({word for texts in TOPICS.values() for text in texts for word in text.split()})
    letters = [chr(code) for code in range(33, 127)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters), *words]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=positions,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def llama(folder: Path) -> Path:
    """A random Llama with a byte-level BPE learnt from the topics."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<start>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text for texts in TOPICS.values() for text in texts] * 20, trainer)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=True,
        bos_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def run(room: Path, objective: str, out: str, base: str, **options: Any) -> dict[str, Any]:
    """Train on the dialogues of a folder, from a model in it; the card."""
    from turnwise import train

    return train.train_model(
        objective, data=[room / "toy.jsonl"], out=room / out, base=room / base, **(SMALL | options)
    )
