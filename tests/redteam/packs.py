"""Damage packs: every one is refused with one line."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

from tests.redteam.damage import damage
from turnwise.errors import TurnwiseError
from turnwise.models.export.build_pack import PackBuilder
from turnwise.models.export.weights import write_unigrams
from turnwise.models.pack import verify_pack


def _build(out: Path, rng: random.Random) -> None:
    """Write a pack of two tables, which needs no checkpoint, with a calibration beside them."""
    builder = PackBuilder(out)
    for name in ("unigrams", "others"):
        counts = Counter({word: rng.randint(1, 99) for word in ("tea", "rain", "yes", "music", "piano", "like", "i")})
        write_unigrams(out / f"{name}.safetensors", counts, counts)
        builder.roles[name] = {"kind": "table", "file": f"{name}.safetensors", "card": {}}
    (out / "calibration.json").write_text(f'{{"vup": {{"n": 2, "mean": {rng.random()}, "std": 0.5}}}}')
    builder.finish("toy", "1", "none", ["en"])


def attack(rounds: int, rng: random.Random, work: Path) -> Counter[str]:
    """Return how many damaged packs were tried, how many of them were refused, and how many did harm."""
    whole, donor = work / "whole", work / "donor"
    for folder in (whole, donor):
        _build(folder, rng)
        verify_pack(folder)
    counts: Counter[str] = Counter()
    for number in range(rounds):
        folder = work / str(number)
        shutil.copytree(whole, folder)
        if rng.random() < 0.1:
            first, second = (folder / f"{name}.safetensors" for name in ("unigrams", "others"))
            content = first.read_bytes()
            first.write_bytes(second.read_bytes())
            second.write_bytes(content)
            done = "two tables exchanged"
        else:
            done = damage(rng, folder, donor)
        counts["packs damaged"] += 1
        try:
            verify_pack(folder)
        except TurnwiseError as problem:
            counts["refused"] += 1
            counts["HARM more than a line"] += "\n" in str(problem)
        except Exception as problem:
            counts[f"HARM {type(problem).__name__} after {done}: {problem}"] += 1
        else:
            counts[f"HARM accepted after {done}"] += 1
        shutil.rmtree(folder)
    return counts
