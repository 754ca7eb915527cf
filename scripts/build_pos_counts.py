"""Build the table of how often a word is which part of speech: `python scripts/build_pos_counts.py DICT_DIR [OUT_DIR]`.

DICT_DIR is the folder of a WordNet 3.0 distribution that holds `cntlist.rev` (Debian: package wordnet-base,
/usr/share/wordnet): how often each sense occurs in texts that people annotated. Only words that can be several
parts of speech are kept, or look like a form of another word. The same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import lzma
from collections import Counter, defaultdict
from pathlib import Path

OUT_DIR = Path(__file__).parent.parent / "src" / "turnwise" / "text" / "augment"
FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
# The digit after the percent sign of a sense key; 5 is an adjective that belongs to another one.
# A word with such an ending may also be a form of another word, as "tired" is of "tire".
ENDINGS = ("ed", "ing", "er", "est", "s")
KINDS = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}


def ambiguous(folder: Path) -> set[str]:
    """The lemmas that are in more than one of WordNet's indexes, or may be a form of another."""
    found: Counter[str] = Counter()
    for suffix in FILES.values():
        lines = (folder / f"index.{suffix}").read_text("ascii").splitlines()
        found.update({line.split(" ", 1)[0] for line in lines if not line.startswith("  ")})
    words = {lemma: indexes for lemma, indexes in found.items() if "_" not in lemma}
    return {lemma for lemma, indexes in words.items() if indexes > 1 or lemma.endswith(ENDINGS)}


def build(folder: Path) -> list[str]:
    """Lines of a lemma and its counts, such as `like v82 a14`."""
    wanted = ambiguous(folder)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for line in (folder / "cntlist.rev").read_text("ascii").splitlines():
        key, _, count = line.split()
        lemma, _, rest = key.partition("%")
        if lemma in wanted:
            counts[lemma][KINDS[rest[0]]] += int(count)
    return [
        " ".join([lemma, *(f"{kind}{counts[lemma][kind]}" for kind in FILES if counts[lemma][kind])])
        for lemma in sorted(counts)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dict_dir", type=Path, help="folder with cntlist.rev and index.noun, ...")
    parser.add_argument("out_dir", type=Path, nargs="?", default=OUT_DIR)
    arguments = parser.parse_args()
    content = build(arguments.dict_dir)
    packed = lzma.compress("\n".join(content).encode("ascii"), preset=9 | lzma.PRESET_EXTREME)
    (arguments.out_dir / "counts.txt.xz").write_bytes(packed)
    print(f"counts.txt.xz: {len(content):,} lines, {len(packed):,} bytes")


if __name__ == "__main__":
    main()
