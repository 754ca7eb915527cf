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
        # As hashes, for there may be millions of dialogues; a name only where a dialogue had to be given another.
        self._ids: set[int] = set()
        self._renamed: dict[int, str | None] = {}

    def told_apart(self, rows: Iterable[Row], file: str) -> Iterator[Row]:
        """The rows of the next file, which is called so; those that go on with a dialogue of an earlier one say so."""
        mine: dict[int, tuple[int, str | None, bool]] = {}
        for row in rows:
            example = row.example
            if example is None or example.dialogue_id is None:
                yield row
                continue
            name = hash((example.system, example.dialogue_id))
            if name not in mine:
                # Whoever spoke first, these are the first words.
                dialogue = hash((name, (*example.context, example.response)[0]))
                goes_on = dialogue in self._renamed
                new = f"{example.dialogue_id} ({file})" if name in self._ids else None
                mine[name] = dialogue, self._renamed[dialogue] if goes_on else new, goes_on
            _, other, goes_on = mine[name]
            if other is not None:
                example = replace(example, dialogue_id=other)
            yield row if other is None and not goes_on else replace(row, example=example, goes_on=goes_on)
        self._ids |= mine.keys()
        self._renamed |= {dialogue: other for dialogue, other, _ in mine.values()}
