"""Bots in this process: a Python function, retrieval by words or by meaning, and a causal language model."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from turnwise.bots.base import Bot, BotError, Prompt, within
from turnwise.errors import TurnwiseError
from turnwise.models.generate import MOST_TOKENS, Decoding, Writer
from turnwise.models.requests import Embed
from turnwise.text.inputs import TfIdf

if TYPE_CHECKING:
    from turnwise.engine.score import Ask

Function = Callable[[Mapping[str, Any]], str]
# A dual encoder reads this many turns; the last ones say what is talked about.
TURNS = 2


class PythonBot(Bot):
    """Calls a function. One that takes too long is given up, though nothing can stop it."""

    def __init__(self, function: Function, timeout: float, name: str | None = None) -> None:
        self.name: str = name or str(getattr(function, "__name__", "bot"))
        self._function, self._timeout = function, timeout

    def reply(self, prompt: Prompt) -> str:
        """See `Bot`."""
        try:
            answer = within(self._timeout, lambda: self._function(prompt.to_dict()))
        except BotError:
            raise
        except (Exception, SystemExit) as problem:
            raise BotError(f"raised {type(problem).__name__}: {problem}") from None
        if not isinstance(answer, str):
            raise BotError(f"returned {type(answer).__name__}; return the answer as a string")
        return answer


class ObjectBot(Bot):
    """Wrap an object of somebody else's that has `name` and `reply`."""

    def __init__(self, bot: Any) -> None:
        self.name, self._bot = str(getattr(bot, "name", type(bot).__name__)), bot

    def reply(self, prompt: Prompt) -> str:
        """See `Bot`."""
        answer: str = self._bot.reply(prompt)
        return answer

    def close(self) -> None:
        """See `Bot`."""
        if hasattr(self._bot, "close"):
            self._bot.close()


def load_function(where: str) -> Function:
    """Return the function that `module:function` names; modules are also looked for in the working folder."""
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


@dataclass(frozen=True, slots=True)
class QueryReply:
    """A query and what was answered."""

    query: str
    response: str


def _plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


class _Responses:
    """What may be answered; where each response is, however it is spelt, is found out once and not at every prompt."""

    def __init__(self, pairs: Sequence[QueryReply]) -> None:
        self._pairs = pairs
        self._places: dict[str, list[int]] = defaultdict(list)
        for place, pair in enumerate(pairs):
            self._places[_plain(pair.response)].append(place)

    def best(self, scores: npt.NDArray[np.floating], prompt: Prompt) -> str:
        """Return the response with the highest score that is not known to be true here."""
        allowed = np.ones(len(self._pairs), dtype=np.bool_)
        for text in prompt.hidden:
            allowed[self._places.get(_plain(text), [])] = False
        if not allowed.any():
            raise TurnwiseError("the bot's corpus has no response but the true one; give it another with corpus=FILE")
        return self._pairs[int(np.where(allowed, scores, -np.inf).argmax())].response


class TfIdfBot(Bot):
    """Answers as the query that shares most of the rare words of this one was answered."""

    name = "tfidf"

    def __init__(self, pairs: Sequence[QueryReply]) -> None:
        self._pairs = _checked(pairs)
        self._responses = _Responses(pairs)
        self._tfidf = TfIdf(pair.query for pair in pairs)
        self._places: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for place, pair in enumerate(pairs):
            for word, weight in self._tfidf.vector(pair.query).items():
                self._places[word].append((place, weight))

    def reply(self, prompt: Prompt) -> str:
        """See `Bot`."""
        scores = np.zeros(len(self._pairs))
        for word, weight in self._tfidf.vector(prompt.context[-1]).items():
            for place, other in self._places.get(word, ()):
                scores[place] += weight * other
        return self._responses.best(scores, prompt)


class DualEncoderBot(Bot):
    """Answers with the response whose vector is closest to that of the context."""

    name = "dual-encoder"

    def __init__(self, pairs: Sequence[QueryReply], ask: Ask) -> None:
        self._pairs, self._ask = _checked(pairs), ask
        self._responses = _Responses(pairs)
        self._vectors: npt.NDArray[np.float64] | None = None

    def _embed(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        requests = [Embed(text) for text in texts]
        answers = self._ask(requests)
        vectors = np.array([answers[request] for request in requests], dtype=np.float64)
        units: npt.NDArray[np.float64] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return units

    def reply(self, prompt: Prompt) -> str:
        """See `Bot`."""
        if self._vectors is None:
            self._vectors = self._embed([pair.response for pair in self._pairs])
        (asked,) = self._embed([" ".join(prompt.context[-TURNS:])])
        return self._responses.best(self._vectors @ asked, prompt)


def _checked(pairs: Sequence[QueryReply]) -> Sequence[QueryReply]:
    if not pairs:
        raise TurnwiseError("the bot's corpus has no row with a context and a response; give another with corpus=FILE")
    return pairs


def prompt_text(context: Sequence[str], facts: Sequence[str] = ()) -> str:
    """Return a conversation as a language model reads it: one turn a line, facts first, the next line to be written.

    >>> prompt_text(["Hi!", "Any pets?"], ["I have a dog."])
    'I have a dog.\\nHi!\\nAny pets?\\n'
    """
    return "".join(" ".join(line.split()) + "\n" for line in (*facts, *context))


class LanguageModelBot(Bot):
    """Answers by greedy, top-k or nucleus decoding. The same prompt always gets the same answer."""

    name = "lm"

    def __init__(self, writer: Writer, decoding: Decoding, seed: int = 0, most: int = MOST_TOKENS) -> None:
        self._writer, self._decoding, self._seed, self._most = writer, decoding, seed, most

    def reply(self, prompt: Prompt) -> str:
        """See `Bot`."""
        text = prompt_text(prompt.context, prompt.facts)
        digest = int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big")
        rng = np.random.default_rng([self._seed, digest])
        return self._writer.sample(text, self._decoding, rng, self._most).text
