"""Files of any length in flat memory: `python -m benchmarks.huge [--rows 200000] [--metrics classic] [--out FILE]`.

Writes a file of made-up chats whose words are as unevenly spread as real ones, scores a tenth of it and all of it with
the command (`--out` and all), and prints rows per second and the peak of resident memory of each. --note says what else
the machine did meanwhile; it stands on the page beside the figures.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

WORDS = 30_000
SCORE = """
import resource, sys
from turnwise.cli.app import app
app(sys.argv[1:], standalone_mode=False)
sys.stderr.write(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")
"""


def write(file: Path, rows: int) -> None:
    """Rows with an id, a context, a response and a reference; word number n is drawn with odds of 1 in n."""
    rng = random.Random(0)
    words = [f"w{number:x}" for number in range(WORDS)]
    odds = list(accumulate(1 / (number + 1) for number in range(WORDS)))
    with file.open("w") as out:
        for number in range(rows):
            said = rng.choices(words, cum_weights=odds, k=30)
            row = {
                "id": f"turn-{number}",
                "context": [" ".join(said[:8]) + "?"],
                "response": " ".join(said[8 : 12 + number % 10]) + ".",
                "references": [" ".join(said[20:]) + "."],
                "system": "abc"[number % 3],
            }
            out.write(json.dumps(row) + "\n")


def measure(file: Path, metrics: str, out: Path) -> tuple[float, float]:
    """Seconds, and MiB at the peak, of scoring a file in a process of its own."""
    began = time.perf_counter()
    command = [sys.executable, "-c", SCORE, "score", str(file), "--metrics", metrics, "--out", str(out)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - began, float(done.stderr.rpartition("peak ")[2])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--metrics", default="classic")
    parser.add_argument("--note", default="")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    found: dict[str, Any] = {"metrics": asked.metrics, "note": asked.note, "runs": []}
    with TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        for rows in (asked.rows // 10, asked.rows):
            write(file, rows)
            seconds, peak = measure(file, asked.metrics, Path(folder) / "out")
            size = file.stat().st_size / 1e6
            print(
                f"{rows:,} rows, {size:,.0f} MB: {rows / seconds:,.0f} a second, {peak:,.0f} MiB at the peak",
                flush=True,
            )
            found["runs"].append({"rows": rows, "megabytes": round(size), "seconds": seconds, "mib": peak})
            if asked.out:
                asked.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
