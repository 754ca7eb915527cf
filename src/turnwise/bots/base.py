"""What a bot is: something that answers a prompt. What it is told, and how it fails."""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from turnwise.errors import TurnwiseError

T = TypeVar("T")

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
        """Return what a bot is told, without what there is nothing of.

        >>> Prompt(("Hi!",), hidden=("Hello.",)).to_dict()
        {'context': ['Hi!']}
        """
        told = {"context": self.context, "facts": self.facts, "speakers": self.speakers}
        return {key: list(value) for key, value in told.items() if value}


class Bot(ABC):
    """A system under test."""

    name: str

    @abstractmethod
    def reply(self, prompt: Prompt) -> str:
        """Return the next turn. Raises `BotError` if asking again may help."""

    def settle(self) -> None:  # noqa: B027 - most bots have nothing to do
        """Raise `BotError` if the last answer may be that to another prompt."""

    def close(self) -> None:  # noqa: B027
        """Give back whatever it holds."""


class BotError(Exception):
    """Report an answer that did not come or cannot be used.

    `wait` is how long the bot wants to be left alone. `shifted` says that the answer before may belong to another
    prompt: it must be asked for again.
    """

    def __init__(self, reason: str, wait: float | None = None, *, shifted: bool = False) -> None:
        super().__init__(reason)
        self.wait, self.shifted = wait, shifted


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return what a function returns, or raise what it raises; one that takes longer is left behind."""
    outcome: list[tuple[T | None, BaseException | None]] = []

    def run() -> None:
        try:
            outcome.append((call(), None))
        except BaseException as problem:
            outcome.append((None, problem))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise BotError(f"did not answer within {seconds:g} seconds")
    value, problem = outcome[0]
    if problem is not None:
        raise problem
    return value  # type: ignore[return-value]


def answer_in(text: str) -> str:
    """Return the answer in a line of JSON: an object with a response, or a string.

    >>> answer_in('{"response": "Fine."}'), answer_in('"Fine."')
    ('Fine.', 'Fine.')
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise BotError(f"answered with {shown(text)}, which is not JSON") from None
    found = value.get("response") if isinstance(value, dict) else value
    if not isinstance(found, str):
        raise BotError(f'answered with {shown(text)}; write {{"response": "..."}}')
    return found


def shown(text: str) -> str:
    """Return what a bot wrote, on one line and no longer than a message bears."""
    line = " ".join(text.split())
    return repr(line if len(line) <= 80 else f"{line[:80]}…")


def ask(
    bot: Bot,
    prompt: Prompt,
    *,
    retries: int,
    sleep: Callable[[float], None] = time.sleep,
    withdraw: Callable[[BotError], None] = lambda _: None,
) -> str:
    """Return the bot's answer; asked again after a failure, each time after a longer pause.

    The last failure is raised. `withdraw` is called if the answer before may belong to another prompt.
    """
    for attempt in range(retries + 1):
        try:
            answer = bot.reply(prompt).strip()
            if not answer:
                raise BotError("answered with nothing")
            if len(answer) > MOST_CHARACTERS:
                raise BotError(f"answered with {len(answer):,} characters")
            if any("\ud800" <= sign <= "\udfff" for sign in answer):
                raise BotError("answered with half a surrogate pair")
            return answer
        except BotError as failure:
            if failure.shifted:
                withdraw(failure)
            if attempt == retries:
                raise
            pause = FIRST_WAIT * 2**attempt if failure.wait is None else failure.wait
            sleep(min(pause, LONGEST_WAIT))
    raise TurnwiseError(f"retries={retries}: write 0 or more")
