"""Build the WordNet table that turnwise ships: `python scripts/build_wordnet.py DICT_DIR [OUT_DIR]`.

DICT_DIR is the folder of a WordNet 3.0 distribution that holds `index.noun`, `data.noun`, `noun.exc` and
so on (Debian: package wordnet-base, /usr/share/wordnet). The same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import lzma
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

OUT_DIR = Path(__file__).parent.parent / "src" / "turnwise" / "text" / "wordnet"
FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
# Adjectives carry their syntactic position, as in `galore(ip)`; it is not part of the name.
SYNTACTIC_MARKER = re.compile(r"\((?:a|p|ip)\)$")
# The licence stands at the head of every file, each line after its number and two spaces of indent.
LICENCE_LINE = re.compile(r"^  \d+ (.*?)\s*$", re.MULTILINE)


def lines(path: Path) -> Iterator[str]:
    """The entries of a WordNet file, without the licence at its head."""
    return (line for line in path.read_text("ascii").splitlines() if line and not line.startswith("  "))


def read_synsets(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Every synset of a data file: its offset and its names in order."""
    for line in lines(path):
        offset, _, _, count, *rest = line.split(" ")
        yield offset, [SYNTACTIC_MARKER.sub("", name) for name in rest[: 2 * int(count, 16) : 2]]


def read_index(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Every lemma of an index file: the offsets of its synsets in the order of its senses."""
    for line in lines(path):
        lemma, _, synset_count, *rest = line.split()
        yield lemma, rest[-int(synset_count) :]


def build(folder: Path) -> dict[str, list[str]]:
    """The lines of the three files of the table."""
    synsets: list[str] = []
    index: dict[str, list[str]] = defaultdict(list)
    exceptions: list[str] = []
    for pos, suffix in FILES.items():
        number = {}
        for offset, names in read_synsets(folder / f"data.{suffix}"):
            number[offset] = str(len(synsets))
            synsets.append(" ".join(names))
        for lemma, offsets in read_index(folder / f"index.{suffix}"):
            index[lemma] += [pos, *(number[offset] for offset in offsets)]
        bases = {form: rest for form, *rest in map(str.split, lines(folder / f"{suffix}.exc"))}
        exceptions += [" ".join((pos, form, *bases[form])) for form in sorted(bases)]
    # Sorted as whole lines, so that the reader may search them by bisection as they are.
    entries = sorted(" ".join((lemma, *senses)) for lemma, senses in index.items())
    return {"index.txt": entries, "synsets.txt": synsets, "exceptions.txt": exceptions}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dict_dir", type=Path, help="folder with index.noun, data.noun, noun.exc, ...")
    parser.add_argument("out_dir", type=Path, nargs="?", default=OUT_DIR)
    arguments = parser.parse_args()
    for name, content in build(arguments.dict_dir).items():
        packed = lzma.compress("\n".join(content).encode("ascii"), preset=9 | lzma.PRESET_EXTREME)
        (arguments.out_dir / f"{name}.xz").write_bytes(packed)
        print(f"{name}.xz: {len(content):,} lines, {len(packed):,} bytes")
    head = (arguments.dict_dir / "data.noun").read_text("ascii")[:4000]
    licence = "\n".join(LICENCE_LINE.findall(head)) + "\n"
    (arguments.out_dir / "LICENSE.wordnet").write_text(licence)


if __name__ == "__main__":
    main()
