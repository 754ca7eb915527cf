"""Make the folders that the bundled pack is trained from: base models, and the pack's own encoder for torch.

    python tools/pack/bases.py gguf MODEL.gguf OUT_DIR                      a quantised Llama in half precision
    python tools/pack/bases.py half MODEL_DIR OUT_DIR --origin TEXT         a BERT model in half precision
    python tools/pack/bases.py prune MODEL_DIR OUT_DIR --size 16000 FILE... the tokens that dialogues need
    python tools/pack/bases.py encoder OUT_DIR [--models PACK]              a pack's encoder, as it is stored

`gguf` needs the package gguf. `encoder` serves networks over the encoder's vectors that are trained on a GPU: they have
to see the pack's own weights, whole numbers times scales. Each folder holds config.json, model.safetensors and
tokenizer.json, and nothing that is executed when it is read.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from turnwise.files import write_json
from turnwise.models.pack import Pack, load_pack

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
    """Return the name that transformers gives to a GGUF tensor."""
    if name in PLAIN:
        return PLAIN[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{LAYER[part]}.{kind}"


def halves_together(weight: np.ndarray, heads: int) -> np.ndarray:
    """Undo GGUF's interleaving of the two rotary halves of every head."""
    rows, columns = weight.shape
    split = weight.reshape(heads, rows // heads // 2, 2, columns)
    return split.swapaxes(1, 2).reshape(rows, columns)


def tokenizer_of(fields: dict[str, Any]) -> Any:
    """Return the byte-level BPE tokenizer that the file carries (digits are split one by one)."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

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
    """Return the transformers configuration of the model."""
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


def gguf(source: Path, out: Path) -> None:
    """Write a quantised Llama GGUF file as a folder in half precision."""
    from gguf import GGUFReader, dequantize

    reader = GGUFReader(source)
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
    out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    write_json(out / "config.json", config)
    tokenizer_of(fields).save(str(out / "tokenizer.json"))


def half(model: Path, out: Path, origin: str) -> None:
    """Copy a model with its weights in half precision, without what a trunk does not need."""
    out.mkdir(parents=True, exist_ok=True)
    weights = load_file(model / "model.safetensors")
    floats = {name: w for name, w in weights.items() if w.dtype.kind == "f" and "pooler" not in name}
    halves = {name: w.astype(np.float16) for name, w in floats.items()}
    save_file(halves, out / "model.safetensors", metadata={"format": "pt"})
    for name in ("config.json", "tokenizer.json"):
        shutil.copyfile(model / name, out / name)
    write_json(out / "card.json", {"origin": origin, "training": "none: as its authors published it"})


def prune(model: Path, out: Path, files: list[Path], size: int) -> None:
    """Copy a causal language model with a smaller vocabulary."""
    from turnwise.train.causal import smaller_vocabulary, spellings
    from turnwise.train.dialogues import read

    smaller_vocabulary(model, out, spellings(read(files)), size)


ROLE = "encoder"
TABLE = "embeddings.word_embeddings.weight"


class Constants:
    """Hold the constants of a graph, with a matrix of whole numbers kept apart from the scales of its rows."""

    def __init__(self, graph: Any) -> None:
        from onnx import numpy_helper

        self._held = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer if not tensor.external_data
        }
        self._made = {name: node for node in graph.node for name in node.output}

    def plain(self, name: str) -> npt.NDArray[Any]:
        """Return a constant as it is."""
        return self._held[name]

    def table(self, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return whole numbers and the factors that they are multiplied by."""
        numbers, factors = self._made[name].input
        return self._held[self._made[numbers].input[0]], self._held[factors]

    def matrix(self, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return a weight matrix (out, in), which the graph holds lying on its side."""
        numbers, factors = self.table(name)
        return np.ascontiguousarray(numbers.T), factors.reshape(-1)


def encoder_of(pack: Pack) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return the encoder's weights, by the names of a BertModel, and the model's configuration."""
    import onnx

    entry = pack.manifest.role(ROLE)
    graph = onnx.load_model_from_string((pack.folder / entry.file).read_bytes()).graph
    constants, stored = Constants(graph), dict[str, npt.NDArray[Any]]()

    def put(name: str, numbers: npt.NDArray[Any], scales: npt.NDArray[Any] | None = None) -> None:
        exact = np.ascontiguousarray(numbers)
        if scales is not None:
            exact = exact.astype(np.float32) * np.asarray(scales, dtype=np.float32)[:, None]
        stored[name] = exact

    def of(kind: str) -> list[Any]:
        return [node for node in graph.node if node.op_type == kind]

    assert entry.words is not None
    assert entry.words_shape is not None
    content, (rows, width) = (pack.folder / entry.words).read_bytes(), entry.words_shape
    put(
        TABLE,
        np.frombuffer(content, np.int8, rows * width).reshape(rows, width),
        np.frombuffer(content, "<f4", offset=rows * width),
    )
    places, factors = constants.table(of("Slice")[0].input[0])
    put("embeddings.position_embeddings.weight", places, factors.reshape(-1))
    types = next(node.input[0] for node in of("Gather") if node.input[1] == "types")
    put("embeddings.token_type_embeddings.weight", constants.plain(types))
    attention = of("Attention")
    norms = ["embeddings.LayerNorm"]
    lines = []
    for layer, node in enumerate(attention):
        base = f"encoder.layer.{layer}."
        numbers, scales = constants.matrix(node.input[1])
        bias = constants.plain(node.input[2])
        for part, name in enumerate(("query", "key", "value")):
            span = slice(part * width, (part + 1) * width)
            put(f"{base}attention.self.{name}.weight", numbers[span], scales[span])
            put(f"{base}attention.self.{name}.bias", bias[span])
        norms += [f"{base}attention.output.LayerNorm", f"{base}output.LayerNorm"]
        lines += [f"{base}attention.output.dense", f"{base}intermediate.dense", f"{base}output.dense"]
    for name, node in zip(norms, of("LayerNormalization"), strict=True):
        put(f"{name}.weight", constants.plain(node.input[1]))
        put(f"{name}.bias", constants.plain(node.input[2]))
    added = {node.input[0]: node.input[1] for node in of("Add")}
    for name, node in zip(lines, of("MatMul"), strict=True):
        put(f"{name}.weight", *constants.matrix(node.input[1]))
        put(f"{name}.bias", constants.plain(added[node.output[0]]))
    heads = next(a.i for a in attention[0].attribute if a.name == "num_heads")
    epsilon = next(a.f for a in of("LayerNormalization")[0].attribute if a.name == "epsilon")
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": width,
        "intermediate_size": len(stored["encoder.layer.0.intermediate.dense.bias"]),
        "layer_norm_eps": epsilon,
        "max_position_embeddings": len(places),
        "num_attention_heads": heads,
        "num_hidden_layers": len(attention),
        "type_vocab_size": 2,
        "vocab_size": rows,
    }
    return stored, config


def encoder(out: Path, models: str | None) -> None:
    """Write a pack's encoder as a folder that transformers opens, in single precision."""
    pack = load_pack(models)
    weights, config = encoder_of(pack)
    out.mkdir(parents=True, exist_ok=True)
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    write_json(out / "config.json", config)
    shutil.copyfile(pack.folder / (pack.manifest.role(ROLE).tokenizer or ""), out / "tokenizer.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("gguf", "half", "prune", "encoder"):
        command = commands.add_parser(name)
        if name != "encoder":
            command.add_argument("source", type=Path)
        command.add_argument("out", type=Path)
    commands.choices["half"].add_argument("--origin", required=True, help="its name and licence, for the card")
    commands.choices["prune"].add_argument("files", type=Path, nargs="+")
    commands.choices["prune"].add_argument("--size", type=int, default=16_000)
    commands.choices["encoder"].add_argument("--models", help="a pack's folder; the bundled pack when left out")
    given = parser.parse_args()
    if given.command == "gguf":
        gguf(given.source, given.out)
    elif given.command == "half":
        half(given.source, given.out, given.origin)
    elif given.command == "prune":
        prune(given.source, given.out, given.files, given.size)
    else:
        encoder(given.out, given.models)


if __name__ == "__main__":
    main()
