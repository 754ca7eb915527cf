"""How busy is a GPU kept? `python -m benchmarks.gpu [--checkpoints DIR] [--size mini|base] [--out FILE.json]`

Scores the same conversations by usr-mlm, nup (USR's and USL-H's retrieval), maude and coherence through torch and
transformers, in bf16 on a GPU, and prints examples per second, achieved TFLOP/s, and the latter as a share of what a
large matrix product reaches on the same device. DIR holds checkpoints as `turnwise train` writes them (folders
encoder, masked-lm, nup, causal-lm, maude); without it random ones of the bundled pack's shapes are made, or larger
ones with --size base. Needs torch, transformers, tokenizers and safetensors; no network, no onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.chats import every_turn, several_responses
from benchmarks.checkpoints import TINY, Shape, make
from turnwise.dialogue import Example
from turnwise.engine.local import judge_examples
from turnwise.engine.run import answer_requests
from turnwise.metrics.registry import load_metric
from turnwise.models.checkpoints import HEADS, ROLES, CheckpointModels
from turnwise.models.protocols import Row

SIZES = {"mini": Shape(), "base": Shape(768, 12, 12, 3072, 768, 12, 12, 12, 3072), "tiny": TINY}
METRICS = {"usr-mlm": "masked-lm", "usr-dr-c": "nup", "maude": "encoder", "coherence": "causal-lm"}


class Counted:
    """A source of models that counts the floating-point operations of what they are asked to run."""

    def __init__(self, source: CheckpointModels, shape: dict[str, dict[str, Any]]) -> None:
        self._source, self._shape, self.operations = source, shape, 0.0
        self.rows = 0
        self._opened: dict[str, Any] = {}

    roles = property(lambda self: self._source.roles)

    def label(self, roles: Any) -> str:
        return self._source.label(roles)

    def model(self, role: str) -> Any:
        if role not in self._opened:
            model = self._opened[role] = self._source.model(role)
            run, sizes = model.run, self._shape[METRICS_ROLE.get(role, role)]

            def counted(rows: Sequence[Row]) -> list[Any]:
                self.operations += operations(rows, sizes)
                self.rows += len(rows)
                return run(rows)

            model.run = counted
        return self._opened[role]


METRICS_ROLE = {"maude": "encoder"}


def operations(rows: Sequence[Row], sizes: dict[str, Any]) -> float:
    """Multiplications and additions that these rows need: true tokens only, so padding counts as waste."""
    width, inner, layers, words = (sizes[k] for k in ("width", "inner", "layers", "words"))
    prefixes = {row.prefix for row in rows}
    lengths = [len(row.ids) for row in rows] + [len(prefix) for prefix in prefixes]
    tokens = sum(lengths)
    products = 2 * (width * width * (2 + 2 * sizes["shared"]) + sizes["matrices"] * width * inner) * layers * tokens
    seen = sum(n * n for n in lengths) + sum(len(row.ids) * len(row.prefix) for row in rows)
    asked = sum(len(row.places) for row in rows) if sizes["kind"] == "masked-lm" else 0
    asked = sum(len(row.wanted) for row in rows) if sizes["kind"] == "causal-lm" else asked
    return float(products + 4 * width * layers * seen + 2 * asked * width * words)


def sizes_of(folder: Path) -> dict[str, dict[str, Any]]:
    """What a count of operations has to know of every checkpoint."""
    found: dict[str, dict[str, Any]] = {}
    for config in folder.glob("*/config.json"):
        c = json.loads(config.read_text())
        heads = c["num_attention_heads"]
        llama = c["model_type"] == "llama"
        layout = config.with_name(HEADS)
        roles = list(json.loads(layout.read_text())["heads"]) if layout.is_file() else [ROLES[c["architectures"][0]][0]]
        sizes = {
            "width": c["hidden_size"],
            "inner": c["intermediate_size"],
            "layers": c["num_hidden_layers"],
            "words": c["vocab_size"],
            "shared": c.get("num_key_value_heads", heads) / heads,
            "matrices": 3 if llama else 2,
            "kind": "causal-lm" if llama else "masked-lm" if "MaskedLM" in c["architectures"][0] else "encoder",
        }
        found |= dict.fromkeys(roles, sizes)
    return found


def peak(device: str, size: int = 8192, rounds: int = 20) -> float:
    """Operations per second of a large matrix product on the device, in the precision that models run in."""
    import torch

    kind = torch.bfloat16 if device == "cuda" else torch.float32
    # A product of a few milliseconds, often: on a shared machine the best of them was not disturbed.
    size, rounds = (size, rounds) if device == "cuda" else (768, 10 * rounds)
    a, b = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
    best = float("inf")
    for _ in range(rounds):
        _wait(device)
        began = time.perf_counter()
        a @ b
        _wait(device)
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best


def _wait(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def measure(request: str, examples: Sequence[Example], models: Counted, device: str, rounds: int) -> dict[str, float]:
    """The best of some rounds over all examples; what models remember of a round is forgotten before the next."""
    metric, best, done = load_metric(request), float("inf"), 0.0
    judge_examples(examples[:64], {"it": metric}, lambda asked: answer_requests(asked, models))
    for _ in range(rounds):
        for opened in models._opened.values():
            for memory in ("_vectors", "_states"):
                if hasattr(opened, memory):
                    getattr(opened, memory)._held.clear()
        models.operations = 0.0
        _wait(device)
        began = time.perf_counter()
        judged = judge_examples(examples, {"it": metric}, lambda asked: answer_requests(asked, models))
        _wait(device)
        seconds = time.perf_counter() - began
        if seconds < best:
            best, done = seconds, models.operations
    assert all(np.isfinite(scores["it"].value) for scores in judged)
    return {"examples_per_second": len(examples) / best, "tflops": done / best / 1e12, "seconds": best}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure and print."""
    import torch

    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--checkpoints", type=Path, help="a folder of checkpoints; random ones when left out")
    options.add_argument("--size", choices=SIZES, default="mini", help="the shape of random checkpoints")
    options.add_argument("--count", type=int, default=4096)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--out", type=Path)
    asked = options.parse_args(arguments)
    with TemporaryDirectory() as scratch:
        folder = asked.checkpoints or make(Path(scratch) / "models", SIZES[asked.size])
        name = torch.cuda.get_device_name() if asked.device == "cuda" else "CPU"
        limit = peak(asked.device)
        found: dict[str, Any] = {"device": name, "peak_tflops": limit / 1e12, "count": asked.count, "metrics": {}}
        found |= {"torch": torch.__version__, "checkpoints": "given" if asked.checkpoints else f"random, {asked.size}"}
        print(f"{name}: {limit / 1e12:.1f} TFLOP/s in a large matrix product", flush=True)
        models = Counted(CheckpointModels(folder, asked.device), sizes_of(folder))
        turns, answers = every_turn(asked.count), several_responses(-(-asked.count // 5))[: asked.count]
        for request in METRICS:
            examples = answers if request.startswith("coherence") else turns
            one = measure(request, examples, models, asked.device, asked.rounds)
            found["metrics"][request] = one
            share = one["tflops"] * 1e12 / limit
            rate = f"{one['examples_per_second']:10,.0f} examples/s"
            print(f"{request:26} {rate} {one['tflops']:8.2f} TFLOP/s {share:6.1%} of the peak", flush=True)
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")
    return found


if __name__ == "__main__":
    main()
