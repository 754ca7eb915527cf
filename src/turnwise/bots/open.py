"""What `bot` means: a command, a Python function, an address, or one of the bots that come along."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.bots.base import Bot
from turnwise.bots.http import KEY_VARIABLE
from turnwise.dialogue import Example
from turnwise.errors import TurnwiseError
from turnwise.metrics.registry import split_list

if TYPE_CHECKING:
    from turnwise.models.generate import Writer

FORMS = "command:COMMAND, python:MODULE:FUNCTION, http(s)://ADDRESS, tfidf, dual-encoder or lm"
# The bots that come along, and their options.
BUILT_IN = {
    "tfidf": ("corpus",),
    "dual-encoder": ("corpus",),
    "lm": ("decoding", "k", "p", "temperature", "most", "seed"),
}
# A corpus is kept in memory, and a dual encoder reads all of it before its first answer.
MOST_PAIRS = 20_000


@dataclass(frozen=True)
class BotOptions:
    """What a bot may need besides its name."""

    timeout: float = 60.0
    model: str | None = None
    key_variable: str = KEY_VARIABLE
    models: str | Path | None = None
    device: str = "auto"
    cache: str | Path | None = None
    seed: int = 0


def open_bot(name: str | Bot | Callable[[Mapping[str, Any]], str], own: Iterable[Example], options: BotOptions) -> Bot:
    """Return the bot of a name, or a Python function as a bot. `own` is the default corpus of retrieval bots."""
    if not isinstance(name, str):
        from turnwise.bots.local import ObjectBot, PythonBot

        if isinstance(name, Bot):
            return name
        return ObjectBot(name) if hasattr(name, "reply") else PythonBot(name, options.timeout)
    if name.startswith(("http://", "https://")):
        from turnwise.bots.http import HttpBot

        if options.model is None:
            raise TurnwiseError(f"`bot={name}`: say which model to ask for with `bot_model=NAME`")
        return HttpBot(name, options.model, options.timeout, options.key_variable)
    kind, colon, rest = name.partition(":")
    if colon and kind == "command":
        from turnwise.bots.command import CommandBot

        return CommandBot(rest, options.timeout)
    if colon and kind == "python":
        from turnwise.bots.local import PythonBot, load_function

        return PythonBot(load_function(rest), options.timeout)
    return _built_in(name, own, options)


def mark_of(name: object, options: BotOptions) -> str | None:
    """Return what tells a bot from every other one: all that was said of it. An object in Python says only its name.

    It stands in files that people pass on, and a command may hold what is not for everybody: hence a hash.
    """
    if not isinstance(name, str):
        return None
    facts = [name.strip()]
    if name.startswith(("http://", "https://")):
        facts = [name.rstrip("/").removesuffix("/chat/completions"), str(options.model)]
    elif name.partition("[")[0] in ("lm", "dual-encoder"):
        facts += [str(options.models or ""), str(options.seed) if name.startswith("lm") else ""]
    return blake2b("\x1f".join(facts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def _built_in(name: str, own: Iterable[Example], options: BotOptions) -> Bot:
    kind, bracket, rest = name.partition("[")
    if kind not in BUILT_IN or (bracket and not rest.endswith("]")):
        raise TurnwiseError(f"`bot={name}`: not known; write {FORMS}")
    given: dict[str, str] = {}
    for item in split_list(rest.removesuffix("]")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise TurnwiseError(f"`bot={name}`: option '{item}' has no value; write {item}=VALUE")
        if key not in BUILT_IN[kind]:
            raise TurnwiseError(f"`bot={kind}` has no option '{key}'; its options: {', '.join(BUILT_IN[kind])}")
        given[key] = value
    try:
        return _language_model(given, options) if kind == "lm" else _retrieval(kind, given, own, options)
    except ValueError as problem:
        raise TurnwiseError(f"`bot={name}`: {problem}") from None


def _retrieval(kind: str, given: Mapping[str, str], own: Iterable[Example], options: BotOptions) -> Bot:
    from turnwise.bots.local import DualEncoderBot, QueryReply, TfIdfBot
    from turnwise.io.read import read_rows

    rows = (row.example for row in read_rows(given["corpus"])) if "corpus" in given else iter(own)
    known = (QueryReply(example.context[-1], example.response) for example in rows if example and example.context)
    pairs = list(islice(known, MOST_PAIRS))
    if kind == "tfidf":
        return TfIdfBot(pairs)
    from turnwise.engine.session import Session

    return DualEncoderBot(pairs, Session(options.models, options.device, options.cache).answer)


def _language_model(given: Mapping[str, str], options: BotOptions) -> Bot:
    from turnwise.bots.local import LanguageModelBot
    from turnwise.models.generate import MOST_TOKENS, Decoding

    take, whole = partial(_number, given), partial(_whole, given)
    method: Any = given.get("decoding", "nucleus")
    decoding = Decoding(method, whole("k", 50), take("p", 0.9), take("temperature", 1.0))
    most, seed = whole("most", MOST_TOKENS), whole("seed", options.seed, least=0)
    writer = open_writer(options)
    if writer.room is not None and most > writer.room:
        raise ValueError(f"option most={most}: the model has room for {writer.room} tokens at most")
    return LanguageModelBot(writer, decoding, seed, most)


def open_writer(options: BotOptions) -> Writer:
    """Return the causal language model of the models in use, ready to write."""
    from turnwise.models.generate import Writer
    from turnwise.models.pack import load_models
    from turnwise.models.text import CausalModel

    model = load_models(options.models, options.device).model("causal-lm")
    if not isinstance(model, CausalModel):
        raise TurnwiseError("the model for 'causal-lm' is not a causal language model; give another with `models`")
    return Writer(model)


def _number(given: Mapping[str, str], key: str, default: float) -> float:
    try:
        return float(given.get(key, default))
    except ValueError:
        raise ValueError(f"option {key}={given[key]}: write a number") from None


def _whole(given: Mapping[str, str], key: str, default: int, least: int = 1) -> int:
    number = _number(given, key, default)
    if not (number.is_integer() and number >= least):
        raise ValueError(f"option {key}={given[key]}: write a whole number of at least {least}")
    return int(number)
