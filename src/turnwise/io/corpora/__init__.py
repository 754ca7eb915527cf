"""The authors' own release formats, found by name or recognised by their first item."""

from __future__ import annotations

from turnwise.io.corpora import dialogues, turns
from turnwise.io.reader import register

register(*turns.READERS, *dialogues.READERS)
