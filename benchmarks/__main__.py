"""Every figure on speed, measured side by side in one run: `python -m benchmarks`.

    python -m benchmarks [--checkpoints DIR] [--count 110] [--rounds 2] [--out docs/results] [--quick] [--smoke]

DIR holds trained checkpoints in folders (encoder, masked-lm, nup, causal-lm, maude), or is `bundled` for the bundled
pack's own weights; without it random ones of the same shapes are measured, and figures on agreement are marked so.
Writes speed.json and speed.md. --quick takes fewer texts: a look at every figure in half the time.
--smoke takes tiny networks and few texts, and fails where scores disagree: for correctness only; its times mean
nothing. --page measures nothing and writes the page anew, with what benchmarks.gpu and benchmarks.huge found since.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks import limits
from benchmarks.checkpoints import MINI, TINY, make
from benchmarks.gpu import peak
from benchmarks.page import page
from benchmarks.peers import beside_packages
from benchmarks.sides import compared, packs
from benchmarks.trained import write
from turnwise.errors import TurnwiseError
from turnwise.models.onnx.session import thread_count
from turnwise.models.pack import Pack, installed_packs, load_pack

PEERS = ("bert_score", "sentence_transformers", "minicons")
GPU, HUGE = "speed-gpu.json", "speed-huge.json"
BUNDLED = Path("bundled")
BEGAN = time.perf_counter()


def measure(asked: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """All figures."""
    threads = thread_count()
    torch.set_num_threads(threads)
    smoke, quick = bool(asked.smoke), bool(asked.quick)
    count, rounds = (22, 1) if smoke else (66, 2) if quick else (asked.count, asked.rounds)
    shipped = load_pack() if asked.checkpoints == BUNDLED else None
    if shipped is not None:
        checkpoints = write(shipped, scratch / "models")
    else:
        checkpoints = asked.checkpoints or make(scratch / "models", TINY if smoke else MINI)
    made = packs(checkpoints, scratch / "packs", shipped)
    # Measured between the parts, and the best counts: a machine may be busy for minutes.
    limits_seen = [peak("cpu")]
    found: dict[str, Any] = {
        "asked": [
            *(f"--{name}" for name in ("smoke", "quick") if getattr(asked, name)),
            *([f"--checkpoints {asked.checkpoints.name}"] if asked.checkpoints else []),
            *([] if smoke or quick else [f"--count {count}", f"--rounds {rounds}"]),
            *([] if smoke or quick else [f"--sizes {','.join(map(str, asked.sizes))}"]),
        ],
        "machine": {"processor": _processor(), "threads": threads},
        "weights": "trained" if asked.checkpoints else "random",
        "absent": [name for name in PEERS if not find_spec(name)],
    }
    _say("side by side")
    sides = compared(checkpoints, made, scratch, count, rounds)
    _say("beside other packages")
    sides += beside_packages(checkpoints, made["fp32"], scratch, count, rounds)
    limits_seen.append(peak("cpu"))
    found["sides"] = [{**asdict(s), "ratio": s.ratio, "bar": s.bar, "agrees": s.agrees, "met": s.met} for s in sides]
    # As it is used without being told otherwise: computing in fp32.
    pack = Pack(made["int8"].folder)
    _say("all metrics together")
    found["together"] = limits.together(pack, checkpoints, count)
    _say("from the cache")
    found["cache"] = limits.from_cache(pack, scratch / "cache", 22 if smoke else 200 if quick else 1_000)
    _say("growth")
    sizes = (11, 22) if smoke else (100, 400, 1_600) if quick else asked.sizes
    found["growth"] = {
        "maude": limits.growth(pack, checkpoints, sizes, "maude"),
        "usr-dr-c, int8": limits.growth(made["int8"], checkpoints, sizes, "usr-dr-c"),
    }
    found["rows"] = {"classic, all": limits.whole_run((11, 22) if smoke else (1_000, 10_000, 100_000))}
    words = (4, 8) if smoke else (5, 10, 20, 40)
    found["lengths"] = {name: limits.lengths(pack, checkpoints, words, count, name) for name in ("usr-mlm", "usr-dr-c")}
    _say("the command")
    folder = scratch / "files"
    folder.mkdir()
    asks = {"usr-mlm,usr-dr-c": (10,) if smoke else (10, 200), "classic": (10,) if smoke else (1_000, 20_000)}
    found["command"] = {m: [limits.command(m, n, folder, pack.folder) for n in rows] for m, rows in asks.items()}
    if installed_packs() and not smoke:
        runs = [limits.command("usr", 10, folder, None) for _ in range(3)]
        found["start_up"] = min(run["seconds"] for run in runs)
    limits_seen.append(peak("cpu"))
    found["machine"]["peak_gflops"] = max(limits_seen) / 1e9
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    options.add_argument("--checkpoints", type=Path)
    options.add_argument("--count", type=int, default=110)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--sizes", type=lambda text: tuple(map(int, text.split(","))), default=(250, 1_000, 4_000))
    options.add_argument("--out", type=Path, default=Path("docs/results"))
    options.add_argument("--quick", action="store_true")
    options.add_argument("--smoke", action="store_true")
    options.add_argument("--page", action="store_true")
    asked = options.parse_args(arguments)
    try:
        if asked.page:
            found = json.loads((asked.out / "speed.json").read_text())
        else:
            with TemporaryDirectory() as folder:
                found = measure(asked, Path(folder))
    except TurnwiseError as problem:
        sys.stderr.write(f"benchmarks: {problem}\n")
        return 2
    # What was measured on a GPU, or of a huge file, stays: benchmarks.gpu and benchmarks.huge make it.
    others = [json.loads(file.read_text()) if (file := asked.out / name).is_file() else None for name in (GPU, HUGE)]
    written = page(found, *others)
    print(written)
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "speed.json").write_text(json.dumps(found, indent=1) + "\n")
    (asked.out / "speed.md").write_text(written)
    wrong = [side for side in found["sides"] if side["weights"] == "fp32" and not side["agrees"]]
    for side in wrong:
        sys.stderr.write(f"benchmarks: {side['metric']} differs by {side['difference']:.1e} from {side['against']}\n")
    return 1 if wrong else 0


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
    return names[0] if names else platform.processor()


def _say(what: str) -> None:
    sys.stderr.write(f"{time.perf_counter() - BEGAN:6.0f} s  {what} ...\n")


if __name__ == "__main__":
    sys.exit(main())
