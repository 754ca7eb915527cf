"""Dialogue ids of several files: which dialogues go on in another file, and which only bear the same name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from turnwise.dialogue import Row


class DialoguesOfFiles:
    """Keeps dialogues of different files apart, unless they are one: equal id, equal system, equal first words.

    A part of a corpus may end in the middle of a dialogue. But files that number their dialogues from 0 share all ids
    and no dialogue: the later file's are renamed, `7 (part-2)`.
    """

    def __init__(self) -> None:
        # As hashes, for there may be millions of dialogues.
        self._openings: dict[int, int] = {}

    def told_apart(self, rows: Iterable[Row], file: str) -> Iterator[Row]:
        """The rows of the next file, which is called so; those that go on with a dialogue of an earlier one say so."""
        mine: dict[int, int] = {}
        same: dict[int, bool] = {}
        for row in rows:
            example = row.example
            if example is None or example.dialogue_id is None:
                yield row
                continue
            dialogue = hash((example.system, example.dialogue_id))
            opening = hash(example.context[:1])
            if dialogue not in self._openings:
                mine.setdefault(dialogue, opening)
                yield row
            elif same.setdefault(dialogue, self._openings[dialogue] == opening):
                yield replace(row, goes_on=True)
            else:
                yield replace(row, example=replace(example, dialogue_id=f"{example.dialogue_id} ({file})"))
        self._openings |= mine
