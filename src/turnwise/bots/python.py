"""A bot that is a Python function: it is given a prompt as a dict and returns the answer as text."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from turnwise.bots.base import BotError, Prompt
from turnwise.errors import TurnwiseError

Function = Callable[[Mapping[str, Any]], str]


class PythonBot:
    """Calls a function. One that takes too long is given up, though nothing can stop it."""

    def __init__(self, function: Function, timeout: float, name: str | None = None) -> None:
        self.name: str = name or str(getattr(function, "__name__", "bot"))
        self._function, self._timeout = function, timeout

    def reply(self, prompt: Prompt) -> str:
        """See `Bot`."""
        outcome: list[Any] = []

        def call() -> None:
            try:
                outcome.append(self._function(prompt.to_dict()))
            except (Exception, SystemExit) as problem:
                outcome.append(BotError(f"raised {type(problem).__name__}: {problem}"))

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(self._timeout)
        if not outcome:
            raise BotError(f"did not answer within {self._timeout:g} seconds")
        if isinstance(outcome[0], BotError):
            raise outcome[0]
        if not isinstance(outcome[0], str):
            raise BotError(f"returned {type(outcome[0]).__name__}; return the answer as a string")
        return outcome[0]

    def close(self) -> None:
        """See `Bot`; there is nothing to give back."""


def load_function(where: str) -> Function:
    """The function that `module:function` names; modules are also looked for in the working folder."""
    module, colon, name = where.partition(":")
    if not (module and colon and name):
        raise TurnwiseError(f"`bot=python:{where}`: write python:MODULE:FUNCTION")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as problem:
        # A module is somebody's own program, and may fail in any way.
        raise TurnwiseError(f"`bot=python:{where}`: cannot be loaded ({type(problem).__name__}: {problem})") from None
    if not callable(found):
        raise TurnwiseError(f"`bot=python:{where}`: {name} is a {type(found).__name__}, not a function")
    function: Function = found
    return function
