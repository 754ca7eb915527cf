"""Put what `turnwise reproduce` wrote among the pages: `python scripts/publish_results.py OUT`.

Copies Markdown, JSON and figures into docs/results/reproduce; the HTML pages and what the command keeps to go on with
stay where they are.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "docs" / "results" / "reproduce"


def main() -> None:
    """Replace the pages by those of the run."""
    source = Path(sys.argv[1])
    if not any(source.glob("*.md")):
        sys.exit(f"{source}: no pages; run 'turnwise reproduce all --out {source}' first")
    shutil.rmtree(TARGET, ignore_errors=True)
    (TARGET / "figures").mkdir(parents=True)
    for pattern in ("*.md", "*.json", "figures/*.svg"):
        for file in sorted(source.glob(pattern)):
            shutil.copyfile(file, TARGET / file.relative_to(source))


if __name__ == "__main__":
    main()
