"""How busy is a GPU kept? `python -m benchmarks.gpu [--checkpoints DIR] [--size mini,base] [--out FILE.json]`

Scores the same conversations by usr and its parts, maude and coherence through torch and transformers, in bf16 on a
GPU, and prints examples and tokens per second, achieved TFLOP/s, the latter as a share of what a large matrix product
reaches on the same device, and what the networks reach alone, fed with the same batches. DIR holds checkpoints as
`turnwise train` writes them (folders encoder, masked-lm, nup, causal-lm, maude); without it random ones of the bundled
pack's shapes are made, or of BERT's and larger ones with --size base. Each metric is given as many examples as it
scores in --seconds. Needs torch, transformers, tokenizers and safetensors; no network, no onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.chats import every_turn, several_responses
from benchmarks.checkpoints import TINY, Shape, make
from turnwise.dialogue import Example
from turnwise.engine.answer import answer_requests
from turnwise.engine.score import judge_examples
from turnwise.engine.session import relaxed_gc
from turnwise.metrics.registry import load_metric
from turnwise.models.kinds import ModelSource, TokenRow
from turnwise.models.sources import HEADS, CheckpointModels

SIZES = {"mini": Shape(), "base": Shape(768, 12, 12, 3072, 768, 12, 12, 12, 3072), "tiny": TINY}
METRICS = ("usr-mlm", "usr-dr-c", "usr", "maude", "coherence")
FACTS = ("Tea is the drink that most people in the world know, after water.",)
# Examples that are scored to find out how many can be scored in time.
TRIED = 512
# Examples whose scores are held against those of the CPU.
COMPARED = 32


class Counted(ModelSource):
    """A source of models that keeps what they are asked to run, to be counted when the clock has stopped."""

    def __init__(self, source: Any, shape: dict[str, dict[str, Any]]) -> None:
        self._source, self._shape = source, shape
        self.opened: dict[str, Any] = {}
        self.asked: list[tuple[str, Sequence[TokenRow]]] = []

    roles = property(lambda self: self._source.roles)

    def label(self, roles: Any) -> str:
        return self._source.label(roles)

    def model(self, role: str) -> Any:
        if role not in self.opened:
            model = self.opened[role] = self._source.model(role)
            begin = model.begin

            def counted(rows: Sequence[TokenRow]) -> Any:
                self.asked.append((role, rows))
                return begin(rows)

            model.begin = counted
        return self.opened[role]

    def forget(self) -> None:
        """Let go of what was counted, and of what models remember of texts that they have read."""
        self.asked = []
        for model in self.opened.values():
            for memory in ("_vectors", "_states"):
                if hasattr(model, memory):
                    getattr(model, memory)._held.clear()

    @property
    def operations(self) -> float:
        """Floating-point operations of all batches."""
        return sum(operations(rows, self._shape[READ_BY.get(role, role)]) for role, rows in self.asked)

    @property
    def tokens(self) -> int:
        """Tokens of all batches, without padding; a context that is read for several responses counts once."""
        return sum(sum(_lengths(rows)) for _, rows in self.asked)


# The head of maude is small; its work is the encoder's.
READ_BY = {"maude": "encoder"}


def _lengths(rows: Sequence[TokenRow]) -> list[int]:
    return [len(row.ids) for row in rows] + [len(prefix) for prefix in {row.prefix for row in rows}]


def operations(rows: Sequence[TokenRow], sizes: dict[str, Any]) -> float:
    """Multiplications and additions that these rows need: true tokens only, so padding counts as waste."""
    width, inner, layers, words = (sizes[k] for k in ("width", "inner", "layers", "words"))
    lengths = _lengths(rows)
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
        kind = "causal-lm" if llama else "masked-lm" if "MaskedLM" in c["architectures"][0] else "encoder"
        roles = list(json.loads(layout.read_text())["heads"]) if layout.is_file() else [kind]
        sizes = {
            "width": c["hidden_size"],
            "inner": c["intermediate_size"],
            "layers": c["num_hidden_layers"],
            "words": c["vocab_size"],
            "shared": c.get("num_key_value_heads", heads) / heads,
            "matrices": 3 if llama else 2,
            "kind": kind,
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


def measure(request: str, examples: Sequence[Example], models: Counted, device: str, seconds: float) -> dict[str, Any]:
    """As many of the examples as can be scored in half the time, twice: the better of both."""
    metric = {"it": load_metric(request)}

    def run(some: Sequence[Example]) -> float:
        models.forget()
        _wait(device)
        began = time.perf_counter()
        with relaxed_gc():
            judged = judge_examples(some, metric, lambda asked: answer_requests(asked, models))
        _wait(device)
        took = time.perf_counter() - began
        assert all(np.isfinite(float("nan") if (v := scores["it"].value) is None else v) for scores in judged)
        return took

    run(examples[:64])
    tried = examples[:TRIED]
    rate = len(tried) / min(run(tried) for _ in range(2))
    some = examples[: max(len(tried), int(rate * seconds / 2))]
    took = min(run(some) for _ in range(2))
    done, tokens = models.operations, models.tokens
    found = {"examples": len(some), "seconds": took, "examples_per_second": len(some) / took}
    found |= {"tokens_per_second": tokens / took, "tflops": done / took / 1e12}
    if (alone := _alone(models, device)) is not None:
        found["tflops_alone"] = done / alone / 1e12
    return found


def _alone(models: Counted, device: str) -> float | None:
    """Seconds of the networks with nothing around them: the same batches, one after the other."""
    asked = list(models.asked)
    if not all(hasattr(models.opened[role], "begin") for role, _ in asked):
        return None
    _wait(device)
    began = time.perf_counter()
    for wait in [models.opened[role].begin(rows) for role, rows in asked]:
        wait()
    return time.perf_counter() - began


def _held_against_cpu(request: str, examples: Sequence[Example], models: Counted, plain: CheckpointModels) -> Any:
    """How far scores in bf16 are from those of the same weights in fp32 on the CPU, and how far those lie apart."""
    metric = {"it": load_metric(request)}
    here, there = (
        np.array([one["it"].value for one in judge_examples(examples, metric, partial(answer_requests, source=source))])
        for source in (plain, models)
    )
    return {"largest_difference": float(np.abs(here - there).max()), "spread": float(here.std())}


def _sized(size: str, asked: argparse.Namespace, folder: Path, limit: float) -> dict[str, Any]:
    """All metrics with checkpoints of one size."""
    import torch

    models = Counted(CheckpointModels(folder, asked.device), sizes_of(folder))
    turns, answers = every_turn(asked.count), several_responses(-(-asked.count // 5))[: asked.count]
    with_facts = [replace(example, facts=FACTS) for example in turns]
    # Only small models: large ones take long to open and run on the CPU.
    plain = CheckpointModels(folder, "cpu") if asked.device == "cuda" and size != "base" else None
    found = {}
    for request in METRICS:
        examples = answers if request == "coherence" else with_facts if request == "usr" else turns
        try:
            one = measure(request, examples, models, asked.device, asked.seconds)
        except Exception as problem:  # the other metrics are still worth their figures
            traceback.print_exc()
            found[request] = {"error": f"{type(problem).__name__}: {problem}"}
            continue
        if plain is not None:
            one |= _held_against_cpu(request, examples[:COMPARED], models, plain)
        if asked.device == "cuda":
            one["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
            torch.cuda.reset_peak_memory_stats()
        found[request] = one
        rates = f"{one['examples_per_second']:9,.0f} examples/s {one['tokens_per_second']:12,.0f} tokens/s"
        share = f"{one['tflops']:8.2f} TFLOP/s {one['tflops'] * 1e12 / limit:6.1%} of the peak"
        alone = f", networks alone {one['tflops_alone']:8.2f}" if "tflops_alone" in one else ""
        apart = f"; {one['largest_difference']:.1e} from fp32 at most" if plain is not None else ""
        print(f"{size:5} {request:10} {rates} {share}{alone}  ({one['examples']:,} examples{apart})", flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure and print; what is measured is written after each size."""
    import torch
    import transformers

    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--checkpoints", type=Path, help="a folder of checkpoints; random ones when left out")
    options.add_argument("--size", default="mini", help=f"shapes of random checkpoints, of {', '.join(SIZES)}")
    options.add_argument("--count", type=int, default=65_536, help="examples at most")
    options.add_argument("--seconds", type=float, default=5.0, help="to score in, for each metric and size")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--out", type=Path)
    asked = options.parse_args(arguments)
    began = time.perf_counter()
    name = torch.cuda.get_device_name() if asked.device == "cuda" else "CPU"
    limit = peak(asked.device)
    found: dict[str, Any] = {"device": name, "peak_tflops": limit / 1e12, "sizes": {}}
    found |= {"torch": torch.__version__, "transformers": transformers.__version__}
    found["checkpoints"] = "given" if asked.checkpoints else "random"
    print(f"{name}: {limit / 1e12:.1f} TFLOP/s in a large matrix product", flush=True)
    for size in ["given"] if asked.checkpoints else asked.size.split(","):
        with TemporaryDirectory() as scratch:
            folder = asked.checkpoints or make(Path(scratch) / "models", SIZES[size])
            print(f"{time.perf_counter() - began:5.0f} s: checkpoints are there ({size})", flush=True)
            found["sizes"][size] = _sized(size, asked, folder, limit)
            print(f"{time.perf_counter() - began:5.0f} s", flush=True)
        if asked.out:
            asked.out.write_text(json.dumps(found, indent=1) + "\n")
    return found


if __name__ == "__main__":
    main()
