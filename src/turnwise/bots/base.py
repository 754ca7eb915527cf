"""What a bot is: something that answers a prompt. What it is told, and how it fails."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from turnwise.errors import TurnwiseError

# A longer answer is a broken bot, and would fill the memory before anybody could look at it.
MOST_CHARACTERS = 1_000_000
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation that waits for its next turn.

    `speakers` names the speaker of every context turn and of the answer. `hidden` are answers that are known: a bot
    that looks things up must not find them, and no bot is told them.
    """

    context: tuple[str, ...]
    facts: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """What a bot is told, without what there is nothing of.

        >>> Prompt(("Hi!",), hidden=("Hello.",)).to_dict()
        {'context': ['Hi!']}
        """
        told = {"context": self.context, "facts": self.facts, "speakers": self.speakers}
        return {key: list(value) for key, value in told.items() if value}


class Bot(Protocol):
    """A system under test."""

    name: str

    def reply(self, prompt: Prompt) -> str:
        """The next turn. Raises `BotError` where asking again may help."""

    def close(self) -> None:
        """Give back whatever it holds."""


class BotError(Exception):
    """An answer that did not come or cannot be used. `wait` is how long the bot wants to be left alone."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


def answer_in(text: str) -> str:
    """The answer in a line of JSON: an object with a response, or a string.

    >>> answer_in('{"response": "Fine."}'), answer_in('"Fine."')
    ('Fine.', 'Fine.')
    """
    try:
        value = json.loads(text)
    except ValueError:
        raise BotError(f"answered with {shown(text)}, which is not JSON") from None
    found = value.get("response") if isinstance(value, dict) else value
    if not isinstance(found, str):
        raise BotError(f'answered with {shown(text)}; write {{"response": "..."}}')
    return found


def shown(text: str) -> str:
    """What a bot wrote, on one line and no longer than a message bears."""
    line = " ".join(text.split())
    return repr(line if len(line) <= 80 else f"{line[:80]}…")


def ask(bot: Bot, prompt: Prompt, *, retries: int, sleep: Callable[[float], None] = time.sleep) -> str:
    """The bot's answer; asked again after a failure, each time after a longer pause. The last failure is raised."""
    for attempt in range(retries + 1):
        try:
            answer = bot.reply(prompt).strip()
            if not answer:
                raise BotError("answered with nothing")
            if len(answer) > MOST_CHARACTERS:
                raise BotError(f"answered with {len(answer):,} characters")
            return answer
        except BotError as failure:
            if attempt == retries:
                raise
            pause = FIRST_WAIT * 2**attempt if failure.wait is None else failure.wait
            sleep(min(pause, LONGEST_WAIT))
    raise TurnwiseError(f"retries={retries}: write 0 or more")
