"""What the causal language model in use answers, greedily: slow to write, so it is kept with the models' answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from turnwise.bots.language_model import prompt_text
from turnwise.engine.cache import open_cache
from turnwise.models.generate import Writer
from turnwise.models.pack import load_models
from turnwise.models.text import CausalModel
from turnwise.reproduce.room import Room

ROLE = "causal-lm"
LONGEST_REPLY = 30


def replies_to(room: Room, contexts: Sequence[Sequence[str]]) -> list[str] | None:
    """One reply to each context; None where no model can write."""
    if ROLE not in room.roles:
        return None
    source = load_models(room.models, room.device)
    fingerprint = source.fingerprint(ROLE)
    prompts = [prompt_text(context) for context in contexts]
    keys = [_key(fingerprint, prompt) for prompt in prompts]
    cache = open_cache(room.cache)
    found = {key: _text(np.asarray(answer)) for key, answer in ({} if cache is None else cache.get(keys)).items()}
    if missing := {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in found}:
        model = source.model(ROLE)
        if not isinstance(model, CausalModel):
            return None
        writer = Writer(model)
        for key, prompt in missing.items():
            found[key] = writer.sample(prompt, most=LONGEST_REPLY).text
            if cache is not None:
                cache.put({key: _numbers(found[key])})
    if cache is not None:
        cache.close()
    return [found[key] for key in keys]


def _key(fingerprint: str, prompt: str) -> bytes:
    text = json.dumps([fingerprint, "greedy reply", prompt, LONGEST_REPLY])
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).digest()


def _numbers(text: str) -> NDArray[np.float32]:
    """A text as the cache can hold it: the code point of every character.

    >>> _text(_numbers("na, so was – 🙂"))
    'na, so was – 🙂'
    """
    return np.array([ord(character) for character in text], dtype=np.float32)


def _text(numbers: NDArray[np.float32]) -> str:
    return "".join(chr(int(number)) for number in numbers)
