"""Damage caches: no wrong answer, no lost row, no error."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from tests.redteam.damage import damage
from turnwise.engine.cache import FILE, Cache

ANSWERS = 400


def _key(number: int) -> bytes:
    return number.to_bytes(2, "big") * 8


def _answer(number: int) -> Any:
    return np.full(number % 40, number, dtype="<f4") if number % 2 else {"yes": number / 7, "no": 1.0}


def _same(one: Any, other: Any) -> bool:
    if isinstance(other, dict):
        return bool(one == other)
    return isinstance(one, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)


def attack(rounds: int, rng: random.Random, work: Path) -> Counter[str]:
    """Return how many damaged caches were tried, and how many did harm."""
    truth = _truth()
    whole, open_ = work / "whole", work / "open"
    cache = Cache(whole)
    for number in range(0, ANSWERS, 20):
        cache.put(dict(list(truth.items())[number : number + 20]))
    # One template as a killed process leaves it, with a journal, and one that was closed.
    shutil.copytree(whole, open_)
    cache.close()
    counts: Counter[str] = Counter()
    for number in range(rounds):
        folder = work / str(number)
        shutil.copytree(rng.choice((whole, open_)), folder)
        damage(rng, folder)
        counts["caches damaged"] += 1
        try:
            counts["HARM wrong answer"] += _use(folder, truth, counts)
        except Exception as problem:
            counts[f"HARM {type(problem).__name__}: {problem}"] += 1
        shutil.rmtree(folder)
    return counts


def attack_crowds(rounds: int, rng: random.Random, work: Path) -> Counter[str]:
    """Let four processes use one damaged cache at a time; return counts as `attack` does."""
    cache, counts = Cache(work / "whole"), Counter[str]()
    cache.put(_truth())
    cache.close()
    with get_context("spawn").Pool(4) as processes:
        for number in range(rounds):
            folder = work / str(number)
            shutil.copytree(work / "whole", folder)
            damage(rng, folder)
            counts["groups of four on a damaged cache"] += 1
            for found in processes.map(_counts_of, [folder] * 4, chunksize=1):
                counts += found
    return counts


def _counts_of(folder: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    try:
        counts["HARM wrong answer"] += _use(folder, _truth(), counts)
    except Exception as problem:
        counts[f"HARM {type(problem).__name__}: {problem}"] += 1
    return counts


def _truth() -> dict[bytes, Any]:
    return {_key(number): _answer(number) for number in range(ANSWERS)}


def _use(folder: Path, truth: dict[bytes, Any], counts: Counter[str]) -> bool:
    cache = Cache(folder)
    try:
        found = cache.get(truth)
        missing = {key: answer for key, answer in truth.items() if key not in found}
        counts["answers served"] += len(found)
        counts["answers computed again"] += len(missing)
        wrong = any(not _same(answer, truth[key]) for key, answer in found.items())
        cache.put(missing)
        # Another process must find everything, or whole damage once more and then everything.
        for _ in range(3):
            with_all = cache.get(truth)
            wrong = wrong or any(not _same(answer, truth[key]) for key, answer in with_all.items())
            if len(with_all) == len(truth):
                break
            cache.put(truth)
        else:
            counts["HARM answers not kept"] += 1
        counts["caches set aside"] += cache.set_aside is not None and cache.path.name != FILE
        return wrong
    finally:
        cache.close()
