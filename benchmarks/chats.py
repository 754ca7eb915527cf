"""Conversations to measure with: those of a file, or made-up ones of the same lengths."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from turnwise.dialogue import Example

WORDS = (
    "i you we they like love have saw read play walk dog cat book music tea park city often never really today what "
    "why do did not is was are the a of to in and but so much very good bad new old think know want go come see say"
).split()
DATA = "train/dailydialog_valid.jsonl.xz"


def dialogues(count: int, turns: int = 12, seed: int = 0, real: bool = True) -> list[list[str]]:
    """Dialogues of so many turns: real ones where TURNWISE_DATA has them, if wanted, then made-up ones."""
    found: list[list[str]] = []
    file = Path(os.environ.get("TURNWISE_DATA", "-")) / DATA
    if real and file.is_file():
        from turnwise.train.dialogues import read

        found = [[turn.text for turn in dialogue.turns] for dialogue in read([file])]
        found = [said[:turns] for said in found if len(said) >= turns]
        Random(seed).shuffle(found)
    rng = Random(seed)
    while len(found) < count:
        found.append([" ".join(rng.choices(WORDS, k=rng.randint(4, 20))) + "." for _ in range(turns)])
    return found[:count]


def every_turn(count: int, turns: int = 12, seed: int = 0, real: bool = True) -> list[Example]:
    """So many examples: each turn of a dialogue after all that came before it."""
    said = dialogues(-(-count // (turns - 1)), turns, seed, real)
    made = [
        Example(one[place], tuple(one[:place]), (one[place - 1],), dialogue_id=str(number))
        for number, one in enumerate(said)
        for place in range(1, len(one))
    ]
    return made[:count]


def several_responses(contexts: int, responses: int = 5, turns: int = 5, seed: int = 0) -> list[Example]:
    """Several responses to each context, of which one was really given."""
    said = dialogues(contexts + responses, turns, seed)
    pool = [one[-1] for one in said]
    return [
        Example(pool[number + other], (" ".join(said[number][:-1]),), (pool[number],), context_id=str(number))
        for number in range(contexts)
        for other in range(responses)
    ]
