"""Keep evaluation data out of training: a dialogue that shares an utterance with it is removed and named."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnwise.errors import TurnwiseError
from turnwise.train.dialogues import Dialogue, lines_of

SHORTEST_MATCH = 6


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
    """Fingerprints of every utterance in the files: rated examples, chat messages or dialogues."""
    prints: set[str] = set()
    for path in map(Path, paths):
        for _, line in lines_of(path):
            prints.update(filter(None, map(fingerprint, utterances(json.loads(line)))))
    return prints


def utterances(item: dict[str, Any]) -> list[str]:
    """Everything that was said in one line of a file, in whichever of the known forms."""
    said = [*item.get("context", []), item.get("response"), *item.get("references", [])]
    said.append(item.get("reference"))
    said += [turn.get("text") for turn in item.get("turns", [])]
    said += [message.get("content") for message in item.get("messages", [])]
    return [text for text in said if isinstance(text, str)]


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
        with write(target, "wt", encoding="utf-8") as kept:
            for number, line in lines_of(file):
                item = json.loads(line)
                seen += 1
                shared = next((said for said in utterances(item) if fingerprint(said) in prints), None)
                if shared is None:
                    kept.write(line if line.endswith("\n") else line + "\n")
                else:
                    corpus = file.name.split(".")[0]
                    removed.append(Removal(f"{corpus}/{item.get('dialogue_id', number)}", shared))
        yield target, Report(seen, tuple(removed))


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
