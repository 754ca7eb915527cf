"""How fast and how faithful is the encoder of a pack, beside torch in fp32 on the same weights and texts?

    python -m benchmarks.encoder CHECKPOINT [--texts FILE.jsonl[.xz]] [--count 512] [--rounds 3]

CHECKPOINT is a folder with a BERT model (config.json, model.safetensors, tokenizer.json). Tokenising counts for
both sides. Rounds are interleaved and the fastest of each kind is taken, so that a busy machine slows all alike;
where it is very busy, read the ratio of processor seconds with TURNWISE_THREADS=1 instead of the clock's.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from turnwise.engine.answer import answer_requests
from turnwise.models.export.build import build_pack
from turnwise.models.onnx.session import thread_count
from turnwise.models.pack import Pack
from turnwise.models.requests import Embed


def read_pairs(path: Path, count: int) -> list[tuple[str, str]]:
    """Context (two turns) and response pairs from a file of dialogues, in a fixed random order."""
    opener = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    pairs = []
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            turns = [turn["text"] for turn in json.loads(line)["turns"]]
            pairs += [(" ".join(turns[max(0, i - 2) : i]), turns[i]) for i in range(1, len(turns), 3)]
    order = np.random.default_rng(0).permutation(len(pairs))[:count]
    return [pairs[i] for i in order]


def with_torch(folder: Path, threads: int, longest_first: bool) -> Callable[[Sequence[tuple[str, str]]], np.ndarray]:
    """Mean-pooled vectors by transformers in batches of 32, as a plain script computes them."""
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoModel

    torch.set_num_threads(threads)
    module = AutoModel.from_pretrained(folder, dtype=torch.float32, use_safetensors=True).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding()

    @torch.inference_mode()
    def embed(pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        order = list(range(len(pairs)))
        if longest_first:
            order.sort(key=lambda i: -len(pairs[i][0]) - len(pairs[i][1]))
        found: dict[int, np.ndarray] = {}
        for start in range(0, len(order), 32):
            part = order[start : start + 32]
            encoded = tokenizer.encode_batch([pairs[i] for i in part])
            ids, mask, types = (
                torch.tensor([getattr(e, name) for e in encoded]) for name in ("ids", "attention_mask", "type_ids")
            )
            states = module(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state
            mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            found |= dict(zip(part, mean.numpy(), strict=True))
        return np.stack([found[i] for i in range(len(pairs))])

    return embed


def with_pack(pack: Pack) -> Callable[[Sequence[tuple[str, str]]], np.ndarray]:
    """The same vectors by the engine."""

    def embed(pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        requests = [Embed(a, b) for a, b in pairs]
        answers = answer_requests(requests, pack)
        return np.stack([answers[request] for request in requests])

    return embed


def fidelity(vectors: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    """Mean and least cosine with the true vectors, and Spearman's rho of all cosines between texts."""
    a, b = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (vectors, truth))
    own = (a * b).sum(axis=1)
    upper = np.triu_indices(len(a), 1)
    return float(own.mean()), float(own.min()), float(spearmanr((a @ a.T)[upper], (b @ b.T)[upper]).statistic)


def main() -> None:
    """Measure and print."""
    data = os.environ.get("TURNWISE_DATA", "")
    options = argparse.ArgumentParser(description="Encoder throughput and fidelity against torch.")
    options.add_argument("checkpoint", type=Path)
    options.add_argument("--texts", type=Path, default=Path(data) / "train" / "dailydialog_valid.jsonl.xz")
    options.add_argument("--count", type=int, default=512)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    if not asked.texts.is_file():
        options.error(f"{asked.texts}: no such file; give --texts a file of dialogues, or set TURNWISE_DATA")
    pairs, threads = read_pairs(asked.texts, asked.count), thread_count()
    with tempfile.TemporaryDirectory() as folder:
        packs = {
            "pack, full precision": build_pack(
                [asked.checkpoint], Path(folder) / "full", name="full", licence="none", fineness=None
            ),
            "pack, as shipped": build_pack([asked.checkpoint], Path(folder) / "small", name="small", licence="none"),
        }
        runs = {
            "torch fp32, batch 32": with_torch(asked.checkpoint, threads, longest_first=False),
            "torch fp32, batch 32, sorted": with_torch(asked.checkpoint, threads, longest_first=True),
            **{name: with_pack(pack) for name, pack in packs.items()},
        }
        seconds, busy = (dict.fromkeys(runs, float("inf")) for _ in range(2))
        vectors: dict[str, np.ndarray] = {}
        for run in runs.values():
            run(pairs[:32])
        for _ in range(asked.rounds):
            for name, run in runs.items():
                started, worked = time.perf_counter(), time.process_time()
                vectors[name] = run(pairs)
                seconds[name] = min(seconds[name], time.perf_counter() - started)
                busy[name] = min(busy[name], time.process_time() - worked)
        plain = "torch fp32, batch 32"
        truth = vectors[plain]
        print(f"{len(pairs)} texts, {threads} threads, best of {asked.rounds} interleaved rounds")
        heads = ("texts/s", "ratio", "cpu", "MB", "zipped", "cosine", "least", "rank")
        print(" " * 30, *(f"{head:>{width}}" for head, width in zip(heads, (8, 6, 6, 6, 7, 8, 8, 8), strict=True)))
        for name in runs:
            mean, least, rank = fidelity(vectors[name], truth)
            size = zipped = 0.0
            if name in packs:
                contents = [path.read_bytes() for path in packs[name].folder.iterdir()]
                size, zipped = (sum(map(len, c)) / 1e6 for c in (contents, [zlib.compress(c) for c in contents]))
            rate = len(pairs) / seconds[name]
            print(
                f"{name:30} {rate:8.1f} {seconds[plain] / seconds[name]:6.2f} {busy[plain] / busy[name]:6.2f} "
                f"{size:6.1f} {zipped:7.1f} "
                f"{mean:8.5f} {least:8.5f} {rank:8.5f}"
            )
        alone = np.stack([with_pack(packs["pack, as shipped"])([pair])[0] for pair in pairs[:64]])
        print(f"batched against one at a time: {np.abs(alone - vectors['pack, as shipped'][:64]).max():.1e} at most")


if __name__ == "__main__":
    main()
