"""A pack's encoder as a folder that transformers opens: `python scripts/encoder_to_torch.py --out DIR [--models PACK]`.

Networks over the encoder's vectors are trained where a GPU makes those vectors; they have to be the pack's own. So the
folder holds the weights as the pack has them, whole numbers times scales. --codes writes those numbers to one small
file instead, out of which --from makes the folder on a machine without the pack.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from turnwise.models.heads_numpy import SCALES, unpack_weights
from turnwise.models.pack import Pack, load_pack

ROLE = "encoder"
TABLE = "embeddings.word_embeddings.weight"
Stored = dict[str, npt.NDArray[Any]]


class Constants:
    """The constants of a graph, with a matrix of whole numbers kept apart from the scales of its rows."""

    def __init__(self, graph: Any) -> None:
        from onnx import numpy_helper

        self._held = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer if not tensor.external_data
        }
        self._made = {name: node for node in graph.node for name in node.output}

    def plain(self, name: str) -> npt.NDArray[Any]:
        """A constant as it is."""
        return self._held[name]

    def table(self, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Whole numbers and the factors that they are multiplied by."""
        numbers, factors = self._made[name].input
        return self._held[self._made[numbers].input[0]], self._held[factors]

    def matrix(self, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """A weight matrix (out, in), which the graph holds lying on its side."""
        numbers, factors = self.table(name)
        return np.ascontiguousarray(numbers.T), factors.reshape(-1)


def codes_of(pack: Pack) -> tuple[Stored, dict[str, Any]]:
    """The encoder's weights, by the names of a BertModel, and the model's configuration."""
    import onnx

    entry = pack.manifest.role(ROLE)
    graph = onnx.load_model_from_string((pack.folder / entry.file).read_bytes()).graph
    constants, stored = Constants(graph), dict[str, Any]()

    def put(name: str, numbers: npt.NDArray[Any], scales: npt.NDArray[Any] | None = None) -> None:
        stored[name] = np.ascontiguousarray(numbers)
        if scales is not None:
            stored[name + SCALES] = np.ascontiguousarray(scales, dtype=np.float32)

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


def write_folder(stored: Stored, config: dict[str, Any], tokenizer: bytes, out: Path) -> None:
    """The folder, in single precision."""
    from safetensors.numpy import save, save_file

    out.mkdir(parents=True, exist_ok=True)
    save_file(unpack_weights(save(stored)), out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    (out / "tokenizer.json").write_bytes(tokenizer)


def main() -> None:
    """Write the folder, or the small file."""
    from safetensors.numpy import load, save_file

    from turnwise.models.maude import header

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", help="a pack's folder; the bundled pack when left out")
    parser.add_argument("--codes", type=Path, help="write the whole numbers to this file")
    parser.add_argument("--from", dest="source", type=Path, help="such a file, in place of a pack")
    parser.add_argument("--out", type=Path, help="folder to write")
    args = parser.parse_args()
    if args.source is not None:
        content = args.source.read_bytes()
        facts = header(content)
        stored, config, tokenizer = load(content), json.loads(facts["config"]), facts["tokenizer"].encode()
    else:
        pack = load_pack(args.models)
        stored, config = codes_of(pack)
        tokenizer = (pack.folder / (pack.manifest.role(ROLE).tokenizer or "")).read_bytes()
    if args.codes is not None:
        save_file(stored, args.codes, metadata={"config": json.dumps(config), "tokenizer": tokenizer.decode()})
    if args.out is not None:
        write_folder(stored, config, tokenizer, args.out)


if __name__ == "__main__":
    main()
