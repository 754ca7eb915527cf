"""Put what `turnwise reproduce` wrote among the pages: `python scripts/publish_results.py OUT`.

Copies Markdown, JSON and figures of the papers that were run into docs/results/reproduce, in place of what was there of
them; pages of other papers stay. The HTML pages, and what the command keeps to go on with, stay in OUT.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "docs" / "results" / "reproduce"


def publish(source: Path, target: Path = TARGET) -> list[str]:
    """Replace the pages by those of the run, and say which."""
    names = sorted(page.stem for page in source.glob("*.md"))
    (target / "figures").mkdir(parents=True, exist_ok=True)
    for name in names:
        for old in (target / "figures").glob(f"{name}-*.svg"):
            old.unlink()
        for pattern in (f"{name}.md", f"{name}.json", f"figures/{name}-*.svg"):
            for file in sorted(source.glob(pattern)):
                shutil.copyfile(file, target / file.relative_to(source))
    return names


def main() -> None:
    """Publish the folder that is named on the command line."""
    source = Path(sys.argv[1])
    names = publish(source)
    if not names:
        sys.exit(f"{source}: no pages; run 'turnwise reproduce all --out {source}' first")
    sys.stdout.write(f"published: {', '.join(names)}\n")


if __name__ == "__main__":
    main()
