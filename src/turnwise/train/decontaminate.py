"""Keep evaluation data out of training: a dialogue that shares an utterance with it is removed and named."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnwise.errors import TurnwiseError
from turnwise.files import atomic
from turnwise.io.problem import Records
from turnwise.io.read import read_unchecked
from turnwise.train.dialogues import Dialogue, lines_of

SHORTEST_MATCH = 6
SPOKEN = ("context", "response", "references", "reference", "turns", "messages")


@dataclass(frozen=True, slots=True)
class Removal:
    """A dialogue that was removed, and an utterance that it shares with the evaluation data."""

    dialogue_id: str
    utterance: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was removed, and out of how many."""

    seen: int
    removed: tuple[Removal, ...] = field(default=())

    def by_corpus(self) -> dict[str, int]:
        """How many dialogues each corpus lost."""
        return dict(Counter(removal.dialogue_id.split("/")[0] for removal in self.removed))

    def summary(self) -> str:
        """One line for people."""
        lost = ", ".join(f"{corpus} {count}" for corpus, count in sorted(self.by_corpus().items()))
        return f"removed {len(self.removed)} of {self.seen} dialogues that overlap with evaluation data" + (
            f" ({lost})" if lost else ""
        )


def fingerprint(utterance: str) -> str | None:
    """What two copies of an utterance share whatever their case, spacing and punctuation; None if too short.

    >>> fingerprint("I do n't think so , do you ?") == fingerprint("I don't think so, do you?")
    True
    >>> fingerprint("How are you?") is None
    True
    """
    words = [word for word in utterance.split() if any(letter.isalnum() for letter in word)]
    if len(words) < SHORTEST_MATCH:
        return None
    return "".join(letter for letter in utterance.lower() if letter.isalnum())


def evaluation_fingerprints(paths: Iterable[str | Path]) -> set[str]:
    """Fingerprints of every utterance in the files: whatever `score` reads, or dialogues."""
    prints: set[str] = set()
    for path in paths:
        for file, records in read_unchecked(path):
            found = {mark for said in _said(file, records) if (mark := fingerprint(said))}
            # Nothing can overlap with such a file, so what it should keep out of training would pass.
            if not found:
                raise TurnwiseError(
                    f"{file}: no utterance of {SHORTEST_MATCH} words or more was found in it; "
                    "give evaluation data in a form that 'turnwise list formats' names, or dialogues with turns"
                )
            prints |= found
    return prints


def _said(file: str, records: Records) -> Iterator[str]:
    for line, record in records:
        if not isinstance(record, Mapping):
            raise TurnwiseError(f"{file}:{line}: {record}")
        yield from utterances(record)


def utterances(item: Mapping[str, Any]) -> list[str]:
    """Everything that was said in one line of a file, in whichever of the known forms.

    >>> utterances({"context": "Hi!\\nTea?", "response": "Yes.", "references": None})
    ['Hi!', 'Tea?', 'Hi!\\nTea?', 'Yes.']
    """
    context = item.get("context")
    # One string may hold the whole context, a turn a line.
    lines = context.split("\n") if isinstance(context, str) else []
    return lines + [text for field in SPOKEN for text in _texts(item.get(field))]


def _texts(value: object) -> list[str]:
    """The texts in a value: itself, those of a list, or what a turn or message holds."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [*_texts(value.get("text")), *_texts(value.get("content"))]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    return []


def clean_files(files: Sequence[Path], evaluation: Iterable[str | Path], out: Path) -> Iterator[tuple[Path, Report]]:
    """Copy files of dialogues into a folder without what overlaps with evaluation files; a report for each."""
    prints = evaluation_fingerprints(evaluation)
    out.mkdir(parents=True, exist_ok=True)
    for file in files:
        target = out / file.name
        if target.exists():
            raise TurnwiseError(f"{target}: exists already; give another folder or remove it")
        seen, removed = 0, []
        write = lzma.open if file.suffix == ".xz" else open
        with atomic(target) as partial, write(partial, "wt", encoding="utf-8") as kept:
            for number, line in lines_of(file):
                item = _item(line, f"{file}:{number}")
                seen += 1
                shared = next((said for said in utterances(item) if fingerprint(said) in prints), None)
                if shared is None:
                    kept.write(line if line.endswith("\n") else line + "\n")
                else:
                    corpus = file.name.split(".")[0]
                    removed.append(Removal(f"{corpus}/{item.get('dialogue_id', number)}", shared))
        yield target, Report(seen, tuple(removed))


def _item(line: str, where: str) -> dict[str, Any]:
    try:
        item = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise TurnwiseError(f"{where}: not JSON ({problem}); write one dialogue a line") from None
    if not isinstance(item, dict) or not any(field in item for field in SPOKEN):
        raise TurnwiseError(f'{where}: not a dialogue; expected {{"turns": [{{"text": ...}}]}}')
    return item


def decontaminate(dialogues: Sequence[Dialogue], prints: set[str]) -> tuple[list[Dialogue], Report]:
    """The dialogues that share no utterance of six or more words with the evaluation data, and the rest."""
    clean: list[Dialogue] = []
    removed: list[Removal] = []
    for dialogue in dialogues:
        shared = next((turn.text for turn in dialogue.turns if fingerprint(turn.text) in prints), None)
        if shared is None:
            clean.append(dialogue)
        else:
            removed.append(Removal(dialogue.id, shared))
    return clean, Report(len(dialogues), tuple(removed))
