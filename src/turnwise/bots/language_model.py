"""A bot that continues the conversation with a causal language model, with facts at its head where there are some."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from turnwise.bots.base import Prompt
from turnwise.models.generate import MOST_TOKENS, Decoding, Writer


def prompt_text(context: Sequence[str], facts: Sequence[str] = ()) -> str:
    """A conversation as a language model reads it: one turn a line, facts first, the next line to be written.

    >>> prompt_text(["Hi!", "Any pets?"], ["I have a dog."])
    'I have a dog.\\nHi!\\nAny pets?\\n'
    """
    return "".join(" ".join(line.split()) + "\n" for line in (*facts, *context))


class LanguageModelBot:
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

    def close(self) -> None:
        """See `Bot`; there is nothing to give back."""
