"""From an installed package to a report for 1,000 examples: `python -m benchmarks.firstrun`.

Prints seconds for the whole command, and the share of them that only starts Python and imports what is needed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

EXAMPLES = Path(__file__).parent.parent / "examples" / "chats.jsonl"
ROWS = 1_000
IMPORTS = (
    "import numpy, polars, altair, vl_convert, jinja2, rich.table, turnwise.cli.app, turnwise.report.page, "
    "turnwise.analyses.evaluate, turnwise.metrics.registry as r; r.entries()"
)


def seconds(*command: str) -> float:
    """Wall-clock time of a command that must succeed."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    return time.perf_counter() - start


def write_rows(file: Path) -> None:
    """The example conversations again and again, each time as new contexts."""
    originals = [json.loads(line) for line in EXAMPLES.read_text().splitlines()]
    rows = []
    for number in range(ROWS):
        row, turn = originals[number % len(originals)], number // len(originals)
        rows.append(row | {"id": f"{row['id']}-{turn}", "context_id": f"{row['context_id']}-{turn}"})
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def main() -> None:
    """Measure and print."""
    with TemporaryDirectory() as folder:
        file, report = Path(folder) / "rows.jsonl", Path(folder) / "report.html"
        write_rows(file)
        whole = seconds("-m", "turnwise", "score", str(file), "--metrics", "classic", "--report", str(report))
        imports = seconds("-c", IMPORTS)
        answer = seconds("-m", "turnwise", "--help")
        print(f"score {ROWS} examples with the classic metrics and write the report: {whole:.1f} s")
        print(f"of which starting and importing: {imports:.1f} s ({imports / whole:.0%})")
        print(f"turnwise --help: {answer:.2f} s; report: {report.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
