"""Training dialogues: reading, splitting without overlap, and decontamination."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from turnwise.errors import TurnwiseError
from turnwise.files import atomic
from turnwise.io.base import Records
from turnwise.io.read import read_unchecked

EVERYBODY = ""


@dataclass(frozen=True, slots=True)
class DialogueTurn:
    """One turn: speaker, text, and the annotated emotion if there is one."""

    speaker: str
    text: str
    emotion: str | None = None


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation. `facts` holds the lines given to each speaker; `EVERYBODY` those given to all.

    `wrong` holds last turns that people wrote to be wrong ones, where a corpus has them.
    """

    id: str
    corpus: str
    turns: tuple[DialogueTurn, ...]
    facts: Mapping[str, tuple[str, ...]]
    wrong: tuple[str, ...] = ()

    def facts_for(self, speaker: str) -> tuple[str, ...]:
        """Return the facts of this speaker and those of everybody."""
        return self.facts.get(speaker, ()) + self.facts.get(EVERYBODY, ())


def read(paths: Iterable[str | Path]) -> list[Dialogue]:
    """Return every dialogue of the files (`.jsonl`, or `.jsonl.xz`), in order; the file's stem names the corpus."""
    return [dialogue for path in paths for dialogue in _read_file(Path(path))]


def _read_file(path: Path) -> Iterator[Dialogue]:
    corpus = path.name.split(".")[0]
    for number, line in lines_of(path):
        yield _parse(line, corpus, f"{path}:{number}")


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a text file, plain or `.xz`, that are not blank."""
    if not path.is_file():
        raise TurnwiseError(f"{path}: no such file. Fix: give .jsonl or .jsonl.xz files")
    open_text = lzma.open if path.suffix == ".xz" else open
    with open_text(path, "rt", encoding="utf-8") as lines:
        try:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, line
        except (UnicodeDecodeError, EOFError, lzma.LZMAError) as problem:
            raise TurnwiseError(f"{path}: cannot be read ({problem}). Fix: give .jsonl or .jsonl.xz in UTF-8") from None


def _parse(line: str, corpus: str, where: str) -> Dialogue:
    try:
        item = json.loads(line)
        turns = tuple(
            DialogueTurn(str(turn.get("speaker", i % 2)), " ".join(str(turn["text"]).split()), turn.get("emotion"))
            for i, turn in enumerate(item["turns"])
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TurnwiseError(f'{where}: not a dialogue ({error}); expected {{"turns": [{{"text": ...}}]}}') from None
    spoken = tuple(turn for turn in turns if turn.text)
    name = f"{corpus}/{item.get('dialogue_id', where)}"
    return Dialogue(name, corpus, spoken, facts_by_speaker(item.get("facts")), _wrong(item))


def _wrong(item: Any) -> tuple[str, ...]:
    """Return the options of a multiple-choice dialogue that are not its answer."""
    options = item.get("options")
    if not isinstance(options, list):
        return ()
    return tuple(str(option) for number, option in enumerate(options) if number != item.get("answer"))


def facts_by_speaker(facts: Any) -> dict[str, tuple[str, ...]]:
    """Return facts in any of their forms (lists, objects with `text`, by speaker or not) as lines per speaker.

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
    """Join consecutive turns of one speaker."""
    merged: list[DialogueTurn] = []
    for turn in dialogue.turns:
        if merged and merged[-1].speaker == turn.speaker:
            merged[-1] = replace(merged[-1], text=f"{merged[-1].text} {turn.text}")
        else:
            merged.append(turn)
    return replace(dialogue, turns=tuple(merged))


def split(dialogues: Sequence[Dialogue], share: float, seed: int = 0) -> tuple[list[Dialogue], list[Dialogue]]:
    """Return (kept, held out), split by a hash of the utterances, so that copies are on the same side."""
    kept: list[Dialogue] = []
    held: list[Dialogue] = []
    for dialogue in dialogues:
        words = "\n".join(turn.text for turn in dialogue.turns).lower()
        digest = hashlib.blake2b(f"{seed}\n{words}".encode(), digest_size=8).digest()
        (held if int.from_bytes(digest, "big") < share * 2**64 else kept).append(dialogue)
    return kept, held


UNKNOWN_LICENCE = "unknown: ask whoever made this corpus"
NOT_STATED = "not stated by its authors; treat as for research only"

# By the beginning of a corpus's file name; the longest match wins.
LICENCES = {
    "cmu_dog": NOT_STATED,
    "commonsense_dialogues": "CC BY-NC 4.0",
    "dailydialog": "CC BY-NC-SA 4.0",
    "dialogre_friends": "non-commercial research; transcripts belong to their owners",
    "dialogrpt_refs": NOT_STATED,
    "dream": "non-commercial research",
    "emorynlp_friends": "annotations Apache-2.0; transcripts belong to their owners",
    "empatheticdialogues": "CC BY-NC 4.0",
    "esconv": "CC BY-NC 4.0",
    "friends_transcripts": "transcripts belong to their owners",
    "image_chat": NOT_STATED,
    "meld": "annotations GPL-3.0; transcripts belong to their owners",
    "msc": NOT_STATED,
    "multiwoz": "MIT",
    "mutual": NOT_STATED,
    "opendialkg": "CC BY-NC 4.0",
    "personachat": NOT_STATED,
    "sgd": "CC BY-SA 4.0",
    "star": NOT_STATED,
    "swda": "CC BY-NC-SA 3.0",
    "synthetic_personachat": "CC BY 4.0",
    "taskmaster4": "CC BY 4.0",
    "topicalchat": "CDLA-Sharing-1.0",
    "twitter_conv": "texts belong to their authors",
    "wizard_of_internet": NOT_STATED,
    "wizard_of_wikipedia": NOT_STATED,
    "anli": "CC BY-NC 4.0",
    "breaking_nli": "CC BY-SA 4.0",
    "rte": NOT_STATED,
    "sick": "CC BY-NC-SA 3.0",
}


def licence_of(corpus: str) -> str:
    """Return the licence of a corpus.

    >>> licence_of("dailydialog_train")
    'CC BY-NC-SA 4.0'
    """
    named = [name for name in LICENCES if corpus.startswith(name)]
    return LICENCES[max(named, key=len)] if named else UNKNOWN_LICENCE


SHORTEST_MATCH = 6
SPOKEN = ("context", "response", "references", "reference", "turns", "messages")


@dataclass(frozen=True, slots=True)
class Removal:
    """A dialogue that was removed, and an utterance that it shares with the evaluation data."""

    dialogue_id: str
    utterance: str


@dataclass(frozen=True, slots=True)
class Decontamination:
    """What was removed, and out of how many."""

    seen: int
    removed: tuple[Removal, ...] = field(default=())

    def by_corpus(self) -> dict[str, int]:
        """Return how many dialogues each corpus lost."""
        return dict(Counter(removal.dialogue_id.split("/")[0] for removal in self.removed))

    def summary(self) -> str:
        """Return a summary in one line."""
        lost = ", ".join(f"{corpus} {count}" for corpus, count in sorted(self.by_corpus().items()))
        return f"removed {len(self.removed)} of {self.seen} dialogues that overlap with evaluation data" + (
            f" ({lost})" if lost else ""
        )


def fingerprint(utterance: str) -> str | None:
    """Return an utterance without case, spacing and punctuation; None if it is too short.

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
    """Return fingerprints of every utterance in the files: whatever `score` reads, or dialogues."""
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
    """Return all utterances in one line of a file, in any of the known forms.

    >>> utterances({"context": "Hi!\\nTea?", "response": "Yes.", "references": None})
    ['Hi!', 'Tea?', 'Hi!\\nTea?', 'Yes.']
    """
    context = item.get("context")
    # One string may hold the whole context, a turn a line.
    lines = context.split("\n") if isinstance(context, str) else []
    return lines + [text for field in SPOKEN for text in _texts(item.get(field))]


def _texts(value: object) -> list[str]:
    """Return the texts in a value: itself, those of a list, or what a turn or message holds."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [*_texts(value.get("text")), *_texts(value.get("content"))]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    return []


def clean_files(
    files: Sequence[Path], evaluation: Iterable[str | Path], out: Path
) -> Iterator[tuple[Path, Decontamination]]:
    """Copy files of dialogues into a folder without what overlaps with evaluation files; a report for each."""
    prints = evaluation_fingerprints(evaluation)
    out.mkdir(parents=True, exist_ok=True)
    for file in files:
        target = out / file.name
        if target.exists():
            raise TurnwiseError(f"{target}: exists already. Fix: give another folder or remove it")
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
        yield target, Decontamination(seen, tuple(removed))


def _item(line: str, where: str) -> dict[str, Any]:
    try:
        item = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise TurnwiseError(f"{where}: not JSON ({problem}). Fix: write one dialogue a line") from None
    if not isinstance(item, dict) or not any(field in item for field in SPOKEN):
        raise TurnwiseError(f'{where}: not a dialogue; expected {{"turns": [{{"text": ...}}]}}')
    return item


def decontaminate(dialogues: Sequence[Dialogue], prints: set[str]) -> tuple[list[Dialogue], Decontamination]:
    """Return the dialogues without an utterance of six or more words of the evaluation data, and a report."""
    clean: list[Dialogue] = []
    removed: list[Removal] = []
    for dialogue in dialogues:
        shared = next((turn.text for turn in dialogue.turns if fingerprint(turn.text) in prints), None)
        if shared is None:
            clean.append(dialogue)
        else:
            removed.append(Removal(dialogue.id, shared))
    return clean, Decontamination(len(dialogues), tuple(removed))
