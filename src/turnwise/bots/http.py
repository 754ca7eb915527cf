"""A bot behind an HTTP address that speaks the widespread protocol of chat completions."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from turnwise.bots.base import MOST_CHARACTERS, Bot, BotError, Prompt, within
from turnwise.errors import TurnwiseError

KEY_VARIABLE = "TURNWISE_BOT_KEY"
HERE = frozenset({"localhost", "127.0.0.1", "::1"})
# Too many requests, or trouble on their side: worth another try.
PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could carry the key to somebody else."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class HttpBot(Bot):
    """Asks BASE/chat/completions. The key is read from an environment variable and goes nowhere else."""

    def __init__(self, address: str, model: str, timeout: float, key_variable: str = KEY_VARIABLE) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise TurnwiseError(f"`bot={address}`: write an address such as https://example.org/v1")
        if parts.username or parts.password:
            raise TurnwiseError(f"`bot`: no passwords in addresses; put the key into the variable {key_variable}")
        key = os.environ.get(key_variable, "")
        if key and parts.scheme == "http" and parts.hostname not in HERE:
            raise TurnwiseError(
                f"`bot={address}`: the key in {key_variable} would be readable on the way; use https, or unset it"
            )
        self.name = model
        self._address = address.rstrip("/").removesuffix("/chat/completions") + "/chat/completions"
        self._model, self._timeout = model, timeout
        self._headers = {"Content-Type": "application/json", "User-Agent": "turnwise"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        # What is on this machine is not asked through a proxy, which would read the key.
        direct = [urllib.request.ProxyHandler({})] if parts.hostname in HERE else []
        self._opener = urllib.request.build_opener(_NoRedirects, *direct)

    def reply(self, prompt: Prompt) -> str:
        """See `Bot`."""
        body = json.dumps({"model": self._model, "messages": messages(prompt)}).encode()
        request = urllib.request.Request(self._address, body, self._headers, method="POST")  # noqa: S310 - checked above

        def answer() -> bytes:
            with self._opener.open(request, timeout=self._timeout) as response:
                return _read(response, self._timeout)

        try:
            # The limit of a socket is for each piece alone, and headers may come for ever.
            content = within(self._timeout, answer)
        except BotError as problem:
            raise BotError(f"{problem}, at {self._address}") from None
        except urllib.error.HTTPError as problem:
            raise self._refused(problem) from None
        except (OSError, HTTPException) as problem:
            raise BotError(f"{_reason(problem, self._timeout)}, at {self._address}") from None
        if len(content) > MOST_CHARACTERS:
            raise BotError(f"answered with more than {MOST_CHARACTERS:,} bytes")
        return content_of(content)

    def _refused(self, problem: urllib.error.HTTPError) -> Exception:
        body = b""
        with suppress(OSError, HTTPException, BotError):
            body = within(self._timeout, lambda: problem.read(400))
        said = " ".join(body.decode("utf-8", "replace").split())[:160]
        line = f"answered with status {problem.code}" + (f" ({said})" if said else "")
        if problem.code not in PASSING:
            return TurnwiseError(f"`bot`: {self._address} {line}; check the address, the model's name and the key")
        wait = problem.headers.get("Retry-After", "")
        return BotError(f"{line}, at {self._address}", float(wait) if wait.isascii() and wait.isdigit() else None)


def messages(prompt: Prompt) -> list[dict[str, str]]:
    """Return the conversation as chat messages: who is to answer is the assistant, everybody else the user.

    >>> [message["role"] for message in messages(Prompt(("Hi!", "Hello.", "Any pets?"), facts=("I have a dog.",)))]
    ['system', 'user', 'assistant', 'user']
    """
    turns = len(prompt.context)
    if prompt.speakers:
        own = [speaker == prompt.speakers[-1] for speaker in prompt.speakers[:turns]]
    else:
        own = [(turns - place) % 2 == 0 for place in range(turns)]
    told = [{"role": "system", "content": "\n".join(prompt.facts)}] if prompt.facts else []
    roles = {True: "assistant", False: "user"}
    said = zip(own, prompt.context, strict=True)
    return told + [{"role": roles[mine], "content": text} for mine, text in said]


def content_of(content: bytes) -> str:
    """Return the text of the first choice of a completion."""
    try:
        value: Mapping[str, Any] = json.loads(content)
        text = value["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        shown = content[:80].decode("utf-8", "replace")
        raise BotError(f"answered with {shown!r}, which is no chat completion") from None
    if not isinstance(text, str):
        raise BotError("answered without text")
    return text


def _read(response: HTTPResponse, timeout: float) -> bytes:
    """Return what an address answers. A time limit of sockets is for each piece alone, and pieces may come for ever."""
    end = time.monotonic() + timeout
    content = b""
    while len(content) <= MOST_CHARACTERS and (piece := response.read1(1 << 16)):
        content += piece
        if time.monotonic() > end:
            raise TimeoutError
    return content


def _reason(problem: Exception, timeout: float) -> str:
    if isinstance(problem, urllib.error.URLError):
        problem = problem.reason if isinstance(problem.reason, Exception) else problem
    if isinstance(problem, TimeoutError):
        return f"did not answer within {timeout:g} seconds"
    return f"could not be asked ({problem or type(problem).__name__})"
