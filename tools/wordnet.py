"""Build the WordNet tables that turnwise ships: `python tools/wordnet.py DICT_DIR [OUT_DIR]`.

DICT_DIR is the folder of a WordNet 3.0 distribution that holds `index.noun`, `data.noun`, `noun.exc`, `cntlist.rev`
and so on (Debian: package wordnet-base, /usr/share/wordnet). OUT_DIR is `src/turnwise/text` by default. Written are the
synsets, and how often each word is which part of speech in annotated texts. The same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import lzma
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

OUT_DIR = Path(__file__).parents[1] / "src" / "turnwise" / "text"
FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
# Adjectives carry their syntactic position, as in `galore(ip)`; it is not part of the name.
SYNTACTIC_MARKER = re.compile(r"\((?:a|p|ip)\)$")
# The licence stands at the head of every file, each line after its number and two spaces of indent.
LICENCE_LINE = re.compile(r"^  \d+ (.*?)\s*$", re.MULTILINE)
# A word with such an ending may also be a form of another word, as "tired" is of "tire".
ENDINGS = ("ed", "ing", "er", "est", "s")
# The digit after the percent sign of a sense key; 5 is an adjective that belongs to another one.
KINDS = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}


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


def ambiguous(folder: Path) -> set[str]:
    """Return the lemmas that are in more than one of WordNet's indexes, or may be a form of another."""
    found = Counter(lemma for suffix in FILES.values() for lemma, _ in read_index(folder / f"index.{suffix}"))
    return {word for word, indexes in found.items() if "_" not in word and (indexes > 1 or word.endswith(ENDINGS))}


def part_of_speech_counts(folder: Path) -> list[str]:
    """Return lines of an ambiguous lemma and its counts, such as `like v82 a14`."""
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


def write(path: Path, content: Sequence[str]) -> None:
    """Write lines as an .xz file."""
    packed = lzma.compress("\n".join(content).encode("ascii"), preset=9 | lzma.PRESET_EXTREME)
    path.write_bytes(packed)
    print(f"{path.name}: {len(content):,} lines, {len(packed):,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dict_dir", type=Path, help="folder with index.noun, data.noun, noun.exc, cntlist.rev, ...")
    parser.add_argument("out_dir", type=Path, nargs="?", default=OUT_DIR)
    arguments = parser.parse_args()
    tables = arguments.out_dir / "wordnet"
    for name, content in build(arguments.dict_dir).items():
        write(tables / f"{name}.xz", content)
    write(arguments.out_dir / "augment" / "counts.txt.xz", part_of_speech_counts(arguments.dict_dir))
    head = (arguments.dict_dir / "data.noun").read_text("ascii")[:4000]
    (tables / "LICENSE.wordnet").write_text("\n".join(LICENCE_LINE.findall(head)) + "\n")


if __name__ == "__main__":
    main()
