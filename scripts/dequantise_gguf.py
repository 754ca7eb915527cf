"""Turn a quantised Llama GGUF file into a Hugging Face folder of half-precision safetensors.

    python scripts/dequantise_gguf.py MODEL.gguf OUT_DIR

Needs the packages gguf, numpy, safetensors and tokenizers. The output holds config.json, model.safetensors
and tokenizer.json, and nothing that is executed when it is read.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, dequantize
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

PLAIN = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
CONTROL_TOKEN = 3


def hub_name(name: str) -> str:
    """The name that transformers gives to a GGUF tensor."""
    if name in PLAIN:
        return PLAIN[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{LAYER[part]}.{kind}"


def halves_together(weight: np.ndarray, heads: int) -> np.ndarray:
    """Undo GGUF's interleaving of the two rotary halves of every head."""
    rows, columns = weight.shape
    split = weight.reshape(heads, rows // heads // 2, 2, columns)
    return split.swapaxes(1, 2).reshape(rows, columns)


def tokenizer_of(fields: dict[str, Any]) -> Tokenizer:
    """The byte-level BPE tokenizer that the file carries (digits are split one by one)."""
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = fields["tokenizer.ggml.token_type"]
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer


def config_of(fields: dict[str, Any]) -> dict[str, Any]:
    """The transformers configuration of the model."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": fields["llama.attention.head_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "rope_theta": fields["llama.rope.freq_base"],
        "rms_norm_eps": round(fields["llama.attention.layer_norm_rms_epsilon"], 9),
        "max_position_embeddings": fields["llama.context_length"],
        "vocab_size": fields["llama.vocab_size"],
        "tie_word_embeddings": True,
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "hidden_act": "silu",
        "license": fields["general.license"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("gguf", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    reader = GGUFReader(arguments.gguf)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    config = config_of(fields)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    tensors = {}
    for tensor in reader.tensors:
        weight = dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")[-2]
        if part in heads:
            weight = halves_together(weight, heads[part])
        tensors[hub_name(tensor.name)] = np.ascontiguousarray(weight, dtype=np.float16)
    arguments.out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, arguments.out / "model.safetensors", metadata={"format": "pt"})
    (arguments.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tokenizer_of(fields).save(str(arguments.out / "tokenizer.json"))
    print(f"{len(tensors)} tensors, {sum(t.size for t in tensors.values()):,} parameters -> {arguments.out}")


if __name__ == "__main__":
    main()
