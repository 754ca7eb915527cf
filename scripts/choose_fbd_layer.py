"""Choose the vectors of fbd and prd: `python scripts/choose_fbd_layer.py --data DIR --models PACK`.

Reads train/ dialogues alone, so that no rated corpus has a say. Reddit threads there have several people's answers to
one context: one person's answers stand for the references, another's for a system, and a growing share of the latter
is spoilt in four ways. A good choice of role, layer and pooling makes the distance grow with every step by much more
than it varies from one sample of contexts to the next, whichever way answers are spoilt: choices are ranked by the way
that they see worst. Both metrics read the same vectors, so that asking for both costs no more than one. Clustering
takes long: only choices that fbd finds nearly as good as its best are held against prd, and of those the one is taken
whose worst way by either metric is best.
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from turnwise.dialogue import Example
from turnwise.engine.batching import batches
from turnwise.metrics.fbd import FrechetBertDistance
from turnwise.models.pack import load_pack
from turnwise.models.protocols import Embed, Pooling
from turnwise.models.tasks import pool
from turnwise.models.tokens import rectangle
from turnwise.stats.frechet import frechet
from turnwise.stats.prd import clustered
from turnwise.text.corrupt import TRANSFORMS, perturbed

FILE = "train/dialogrpt_refs_reddit.jsonl.xz"
POOLINGS: tuple[Pooling, ...] = ("cls", "mean", "max")
RATIOS = (0.0, 0.2, 0.4)
SEEDS = 3
# As many contexts as rated corpora have.
SAMPLE = 100
LONGEST = 40
# How far below the best by fbd a choice may lie, and how often prd clusters.
NEARLY = 0.2
PRD_RUNS = 3

Choice = tuple[str, int, Pooling]
Variant = tuple[str, int, float]


@dataclass(frozen=True)
class Answered:
    """A context with two people's answers."""

    context: tuple[str, ...]
    one: str
    other: str


def read(data: Path, count: int) -> list[Answered]:
    """Contexts whose two answers are no longer than conversation is, in a seeded order."""
    with lzma.open(data / FILE, "rt", encoding="utf-8") as lines:
        threads: list[dict[str, Any]] = [json.loads(line) for line in lines]
    Random(0).shuffle(threads)
    found = []
    for thread in threads:
        said = [turn["text"] for turn in thread["turns"]]
        if len(said) > 1 and thread["alt_responses"]:
            item = Answered(tuple(said[:-1]), said[-1], thread["alt_responses"][0])
            if max(len(item.one.split()), len(item.other.split())) <= LONGEST:
                found.append(item)
    return found[:count]


def every_vector(pack: Any, role: str, pairs: Sequence[tuple[tuple[str, ...], str]]) -> dict[Choice, np.ndarray]:
    """The vectors of (context, answer) pairs from every layer, in every pooling; the model runs once."""
    model = pack.model(role)
    session = model.network.session
    layers = [output.name for output in session.get_outputs() if output.name.startswith("layer_")]
    metric = FrechetBertDistance(name="fbd", role=role)
    asked = [metric.requests(Example(answer, context))[0] for context, answer in pairs]
    assert all(isinstance(request, Embed) for request in asked)
    rows = [model.rows(request)[0] for request in asked]
    found: dict[Choice, list[Any]] = {
        (role, layer, pooling): [None] * len(rows) for layer in range(-len(layers), 0) for pooling in POOLINGS
    }
    for batch in batches(rows, model.budget):
        filled = rectangle([rows[i].ids for i in batch], [rows[i].types for i in batch])
        states = session.run(layers, {"ids": filled.ids, "mask": filled.mask, "types": filled.types})
        for place, row in enumerate(batch):
            for layer, pooling in itertools.product(range(-len(layers), 0), POOLINGS):
                vector = pool(states[layer][place, : len(rows[row].ids)], pooling, ())
                found[role, layer, pooling][row] = vector
    return {choice: np.array(vectors, dtype=np.float64) for choice, vectors in found.items()}


def fbd(said: np.ndarray, real: np.ndarray) -> float:
    """The Fréchet distance."""
    return frechet(said, real).value()


def prd(said: np.ndarray, real: np.ndarray) -> float:
    """What the largest F of precision and recall lacks of 1."""
    return 1 - clustered(said, real, runs=PRD_RUNS).curve().score()


def steps(
    distance: Callable[[np.ndarray, np.ndarray], float],
    vectors: np.ndarray,
    real: Sequence[int],
    variants: dict[Variant, list[int]],
    draws: int,
) -> list[float]:
    """By transform, how much the distance grows at a step of the ratio, in standard deviations over samples."""
    rng = np.random.default_rng(0)
    samples = [rng.choice(len(real), SAMPLE, replace=False) for _ in range(draws)]
    found = []
    for transform in TRANSFORMS:
        grown = []
        for number, sample in enumerate(samples):
            # Each ratio with a seed of its own: no two stand for the same system.
            said = [variants[transform, (number + i) % SEEDS, ratio] for i, ratio in enumerate(RATIOS)]
            distances = [distance(vectors[np.array(v)[sample]], vectors[np.array(real)[sample]]) for v in said]
            grown += np.diff(distances).tolist()
        spread = float(np.std(grown))
        found.append(float(np.mean(grown)) / spread if spread > 0 else 0.0)
    return found


def main() -> None:
    """Measure every choice and print them, best last."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("TURNWISE_DATA"), help="the folder with train/")
    parser.add_argument("--models", type=Path, help="a pack's folder; the bundled pack when left out")
    parser.add_argument("--roles", default="encoder,nup-trunk")
    parser.add_argument("--contexts", type=int, default=1200)
    parser.add_argument("--draws", type=int, default=60)
    asked = parser.parse_args()
    items = read(Path(asked.data), asked.contexts)
    places: dict[tuple[tuple[str, ...], str], int] = {}

    def place(item: Answered, answer: str) -> int:
        return places.setdefault((item.context, answer), len(places))

    real = [place(item, item.other) for item in items]
    variants: dict[Variant, list[int]] = {}
    for transform, seed, ratio in itertools.product(TRANSFORMS, range(SEEDS), RATIOS):
        said = perturbed([item.one for item in items], transform, ratio, seed)
        variants[transform, seed, ratio] = [place(item, text) for item, text in zip(items, said, strict=True)]
    pack = load_pack(asked.models)
    found = {c: v for role in asked.roles.split(",") for c, v in every_vector(pack, role, list(places)).items()}
    print(f"{len(items)} contexts, samples of {SAMPLE}, ratios {', '.join(map(str, RATIOS))}: growth over its spread")
    measured = {choice: steps(fbd, vectors, real, variants, asked.draws) for choice, vectors in found.items()}
    show("fbd", measured)
    best = max(map(min, measured.values()))
    near = {choice: by for choice, by in measured.items() if min(by) >= best - NEARLY}
    clusters = {choice: steps(prd, found[choice], real, variants, asked.draws) for choice in near}
    show("prd", clusters)
    role, layer, pooling = max(near, key=lambda choice: min(*near[choice], *clusters[choice]))
    print(f"chosen: fbd[role={role},layer={layer},pooling={pooling}]")


def show(metric: str, measured: dict[Choice, list[float]]) -> None:
    """A table of choices, best last."""
    print(f"{metric:12} {'layer':>5} {'pooling':8}", *(f"{name:>10}" for name in (*TRANSFORMS, "worst")))
    for (role, layer, pooling), by in sorted(measured.items(), key=lambda item: min(item[1])):
        print(f"{role:12} {layer:5} {pooling:8}", *(f"{value:10.2f}" for value in (*by, min(by))), flush=True)


if __name__ == "__main__":
    main()
