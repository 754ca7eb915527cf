"""Reading and checking JSON Lines in flat memory: `python -m benchmarks.reading [--rows 1000000]`.

Prints rows per second and how much memory a reader that keeps nothing has taken at its peak, for a tenth of the rows
and for all of them: what grows between the two is the eight bytes or so that each id costs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

READ = """
import resource, sys, time
from turnwise.io.read import read_rows
began = time.process_time()
rows = sum(1 for row in read_rows([sys.argv[1]]) if row.error is None)
print(rows, time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def write(file: Path, rows: int) -> None:
    """Short examples, each with an id of its own."""
    with file.open("w") as out:
        for number in range(rows):
            row = {
                "id": f"turn-{number}",
                "context": ["How was your day?"],
                "response": f"Fine, I walked {number} steps.",
            }
            out.write(json.dumps(row) + "\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        for rows in (asked.rows // 10, asked.rows):
            write(file, rows)
            done = subprocess.run([sys.executable, "-c", READ, file], check=True, capture_output=True, text=True)
            count, seconds, peak = map(float, done.stdout.split())
            print(f"{count:,.0f} rows: {count / seconds:,.0f} a second of one core, {peak:.0f} MiB at the peak")


if __name__ == "__main__":
    main()
