"""Write src/turnwise/reproduce/published.csv: `python tools/published.py --data DIR`.

Takes the tidy tables of the five papers and of the DialEvalMetrics collection from DIR/published, adds the few numbers
that the papers give in their text, and keeps of the remarks those that a reader of a cell needs.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Iterator
from pathlib import Path

VERSION = 1
FIELDS = ("paper", "table", "corpus", "level", "quality", "metric", "statistic", "value", "note")
TARGET = Path(__file__).parents[1] / "src" / "turnwise" / "reproduce" / "published.csv"
COLLECTION = "dialevalmetrics"
LEVELS = {"Turn-Level": "turn", "System-Level": "system", "Dialog-Level": "dialogue"}
STATISTICS = {"P": "pearson", "S": "spearman"}
# Said once for a whole table, or of no use beside a cell.
COMMON = re.compile(
    r"^(p(<|>=)\.\d+|italic p>=\.05 unknown|mean over annotator pairs|metric column holds the system rated|"
    r"rated data call it .*|unit is a group of five responses|repeats Table \d+|absolute value|example, one response.*|"
    r"case study, one response|Cohen's kappa, pairwise|human score composed with the hierarchy|"
    r"(Semantic|Syntactic) (Positive|Negative)|trained on .* negatives.*|zero-shot, trained on PersonaChat|"
    r"printed as .*|A/B test.*|ties excluded|Shapiro-Wilk .*|the released code .*|the text of Appendix C .*|"
    r"one rater held out against the mean of the others|calibrated scores of See .*|level per .*|"
    r"mean over the eight qualities|the Systems column cannot .*)$"
)
IN_THE_TEXT = (
    ("usr", "regression", "Topical-Chat", "human", "Overall", "Regression on five qualities", "spearman", "0.9654", ""),
    ("usr", "f1-trick", "Topical-Chat", "other", "word F-1", "always the ten commonest words", "percent", "25.6", ""),
    ("holistic", "independence", "DailyDialog", "turn", "context_coherence", "Fluency", "pearson", "0.42", ""),
)


def remarks(note: str) -> str:
    """What of a note belongs to its cell."""
    return "; ".join(part for part in note.split("; ") if part and not COMMON.match(part))


def papers(folder: Path) -> Iterator[tuple[str, ...]]:
    """The five papers' tables."""
    with (folder / "paper_tables.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield (*(row[name] for name in FIELDS[:-1]), remarks(row["note"]))


def collection(folder: Path) -> Iterator[tuple[str, ...]]:
    """What others got with the authors' models."""
    with (folder / "dialevalmetrics_results.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            level, statistic = LEVELS[row["level"]], STATISTICS[row["correlation"]]
            value = row["value"]
            if not value:
                continue
            yield COLLECTION, "", row["dataset"], level, "", row["metric"], statistic, value, ""


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with published/")
    folder = parser.parse_args().data / "published"
    with TARGET.open("w", newline="", encoding="utf-8") as file:
        file.write(f"# version {VERSION}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows([*papers(folder), *IN_THE_TEXT, *collection(folder)])


if __name__ == "__main__":
    main()
