"""What our own path costs beside the models, and how the cost grows: with rows, with length, on a second run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.chats import every_turn
from benchmarks.sides import Ours
from turnwise.analyses.evaluate import score_part
from turnwise.cli.scoring import MOST_KEPT
from turnwise.dialogue import Example
from turnwise.engine.answer import answer_requests
from turnwise.engine.cache import Cache
from turnwise.engine.score import judge_examples
from turnwise.errors import TurnwiseError
from turnwise.io.write import example_to_dict
from turnwise.metrics.registry import load_metric
from turnwise.models.pack import Pack
from turnwise.options import Run

METRICS = ("usr-mlm", "usr-dr-c", "maude", "coherence")
SCORE = """
import json, resource, sys, time
began = time.perf_counter()
from turnwise.cli.app import app
app(sys.argv[1:], standalone_mode=False)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
try:
    # A process that was just started has its parent's peak in ru_maxrss; this one is its own.
    peak = next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
except OSError:
    pass
sys.stderr.write(json.dumps({"seconds": time.perf_counter() - began, "mib": peak}))
"""


def together(pack: Pack, checkpoints: Path, count: int) -> dict[str, float]:
    """All metrics at once: the time of everything, over that of the forward passes alone."""
    ours, examples = Ours(pack, checkpoints), every_turn(count)
    metrics = {name: load_metric(name) for name in METRICS}

    def run(some: Sequence[Example]) -> float:
        ours.forget()
        began = time.perf_counter()
        judge_examples(some, metrics, lambda asked: answer_requests(asked, ours))
        return time.perf_counter() - began

    run(examples[:2])
    seconds = run(examples)
    return {"examples": count, "seconds": seconds, "in_models": ours.in_model, "overhead": seconds / ours.in_model}


def from_cache(pack: Pack, folder: Path, count: int) -> dict[str, float]:
    """Examples per second of a second run, by metric: every answer is there already."""
    found, examples = {}, every_turn(count)
    for name in METRICS:
        metric, cache = {"it": load_metric(name)}, Cache(folder / name)

        def run(metric: Any = metric, cache: Cache = cache) -> float:
            began = time.perf_counter()
            judge_examples(examples, metric, lambda asked: answer_requests(asked, pack, cache=cache))
            return time.perf_counter() - began

        run()
        found[name] = count / min(run() for _ in range(3))
        cache.close()
    return found


def growth(pack: Pack, checkpoints: Path, sizes: Sequence[int], request: str) -> dict[int, float]:
    """Milliseconds per example as there are more of them: the same number, if cost is linear.

    All are made up, since there are too few real ones for the largest size, and other texts would cost otherwise.
    """
    ours, examples = Ours(pack, checkpoints), every_turn(max(sizes), real=False)
    ours.scores(request, examples[:2])
    found = {}
    for size in sizes:
        ours.forget()
        began = time.perf_counter()
        ours.scores(request, examples[:size])
        found[size] = 1000 * (time.perf_counter() - began) / size
    return found


def whole_run(sizes: Sequence[int]) -> dict[int, float]:
    """Milliseconds per example of a run with all classic metrics: scores, what they add up to, and intervals."""
    examples = [replace(example, id=str(number)) for number, example in enumerate(every_turn(max(sizes)))]
    score_part(examples[:100], "classic", Run(), most=MOST_KEPT)
    found = {}
    for size in sizes:
        began = time.perf_counter()
        score_part(examples[:size], "classic", Run(), most=MOST_KEPT).result(seed=0)
        found[size] = 1000 * (time.perf_counter() - began) / size
    return found


def lengths(pack: Pack, checkpoints: Path, words: Sequence[int], count: int, request: str) -> dict[int, float]:
    """Milliseconds per example as responses grow longer."""
    ours, found = Ours(pack, checkpoints), {}
    pool = " ".join(example.response for example in every_turn(400)).split()
    for size in words:
        cut = [" ".join(pool[n * 7 % len(pool) :][:size]) for n in range(count)]
        examples = [replace(e, response=text or "yes") for e, text in zip(every_turn(count), cut, strict=True)]
        ours.scores(request, examples[:2])
        ours.forget()
        began = time.perf_counter()
        ours.scores(request, examples)
        found[size] = 1000 * (time.perf_counter() - began) / count
    return found


def command(metrics: str, rows: int, folder: Path, models: Path | None) -> dict[str, float]:
    """Seconds and peak memory of the command itself, in a process of its own, with nothing cached."""
    file = folder / f"{rows}.jsonl"
    made = (example_to_dict(replace(e, id=str(n), facts=("Tea is a drink.",))) for n, e in enumerate(every_turn(rows)))
    file.write_text("".join(json.dumps(row) + "\n" for row in made))
    asked = [sys.executable, "-c", SCORE, "score", str(file), "--metrics", metrics, "--cache", "off"]
    asked += ["--models", str(models)] if models else []
    began = time.perf_counter()
    done = subprocess.run(asked, check=False, capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"})
    whole = time.perf_counter() - began
    if done.returncode:
        raise TurnwiseError(f"turnwise score --metrics {metrics} failed: {done.stderr.strip().splitlines()[-1]}")
    return {"rows": rows, "seconds": whole, "mib": json.loads(done.stderr[done.stderr.rindex("{") :])["mib"]}
