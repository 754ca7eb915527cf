"""Dialogues to train on: reading them, and splitting them so that nothing is on both sides."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from turnwise.errors import TurnwiseError

EVERYBODY = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """What somebody said, with the emotion that people heard in it where that is known."""

    speaker: str
    text: str
    emotion: str | None = None


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation. `facts` holds the lines that each speaker knows; `EVERYBODY` those that all know.

    `wrong` holds last turns that people wrote to be wrong ones, where a corpus has them.
    """

    id: str
    corpus: str
    turns: tuple[Turn, ...]
    facts: Mapping[str, tuple[str, ...]]
    wrong: tuple[str, ...] = ()

    def facts_for(self, speaker: str) -> tuple[str, ...]:
        """What this speaker may talk about."""
        return self.facts.get(speaker, ()) + self.facts.get(EVERYBODY, ())


def read(paths: Iterable[str | Path]) -> list[Dialogue]:
    """Every dialogue of the files (`.jsonl`, or `.jsonl.xz`), in order; the file's stem names the corpus."""
    return [dialogue for path in paths for dialogue in _read_file(Path(path))]


def _read_file(path: Path) -> Iterator[Dialogue]:
    corpus = path.name.split(".")[0]
    for number, line in lines_of(path):
        yield _parse(line, corpus, f"{path}:{number}")


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a text file, plain or `.xz`, that hold anything."""
    if not path.is_file():
        raise TurnwiseError(f"{path}: no such file; give .jsonl or .jsonl.xz files")
    open_text = lzma.open if path.suffix == ".xz" else open
    with open_text(path, "rt", encoding="utf-8") as lines:
        try:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, line
        except (UnicodeDecodeError, EOFError, lzma.LZMAError) as problem:
            raise TurnwiseError(f"{path}: cannot be read ({problem}); give .jsonl or .jsonl.xz in UTF-8") from None


def _parse(line: str, corpus: str, where: str) -> Dialogue:
    try:
        item = json.loads(line)
        turns = tuple(
            Turn(str(turn.get("speaker", i % 2)), " ".join(str(turn["text"]).split()), turn.get("emotion"))
            for i, turn in enumerate(item["turns"])
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TurnwiseError(f'{where}: not a dialogue ({error}); expected {{"turns": [{{"text": ...}}]}}') from None
    spoken = tuple(turn for turn in turns if turn.text)
    name = f"{corpus}/{item.get('dialogue_id', where)}"
    return Dialogue(name, corpus, spoken, facts_by_speaker(item.get("facts")), _wrong(item))


def _wrong(item: Any) -> tuple[str, ...]:
    """The options of a multiple-choice dialogue that are not its answer."""
    options = item.get("options")
    if not isinstance(options, list):
        return ()
    return tuple(str(option) for number, option in enumerate(options) if number != item.get("answer"))


def facts_by_speaker(facts: Any) -> dict[str, tuple[str, ...]]:
    """Facts in any of their forms (lists, objects with `text`, by speaker or not) as lines per speaker.

    >>> facts_by_speaker({"A": [{"text": "Cats purr."}, "I ski."]})
    {'A': ('Cats purr.', 'I ski.')}
    >>> facts_by_speaker([["One."], "Two."])
    {'': ('One.', 'Two.')}
    """
    if not facts:
        return {}
    if isinstance(facts, dict) and "text" not in facts:
        return {str(speaker): tuple(_lines(lines)) for speaker, lines in facts.items()}
    return {EVERYBODY: tuple(_lines(facts))}


def _lines(facts: Any) -> Iterator[str]:
    if isinstance(facts, str):
        if facts.strip():
            yield " ".join(facts.split())
    elif isinstance(facts, dict):
        yield from _lines(facts.get("text"))
    elif isinstance(facts, list | tuple):
        for fact in facts:
            yield from _lines(fact)


def merge_runs(dialogue: Dialogue) -> Dialogue:
    """Join what one speaker says in a row, so that every turn answers somebody else."""
    merged: list[Turn] = []
    for turn in dialogue.turns:
        if merged and merged[-1].speaker == turn.speaker:
            merged[-1] = replace(merged[-1], text=f"{merged[-1].text} {turn.text}")
        else:
            merged.append(turn)
    return replace(dialogue, turns=tuple(merged))


def split(dialogues: Sequence[Dialogue], share: float, seed: int = 0) -> tuple[list[Dialogue], list[Dialogue]]:
    """(kept, held out), decided by a hash of what was said, so that copies land on the same side."""
    kept: list[Dialogue] = []
    held: list[Dialogue] = []
    for dialogue in dialogues:
        words = "\n".join(turn.text for turn in dialogue.turns).lower()
        digest = hashlib.blake2b(f"{seed}\n{words}".encode(), digest_size=8).digest()
        (held if int.from_bytes(digest, "big") < share * 2**64 else kept).append(dialogue)
    return kept, held
