"""The authors' own release formats, found by name or recognised by their first item."""

from __future__ import annotations

from turnwise.io.base import register
from turnwise.io.corpora import dialogues, turns

register(*turns.READERS, *dialogues.READERS)
