"""Write replies of a causal model to training dialogues, which a teacher labels beside what people said.

A pack judges machines, and the quality of a machine's reply is not known beforehand; but a large model can label it for
a small one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from turnwise.files import write_text
from turnwise.text.inputs import CONTEXT_TOKENS, CONTEXT_TURNS, restyled
from turnwise.train.checkpoint import open_network
from turnwise.train.sampling import Places
from turnwise.train.tasks import ModelReply

TEMPERATURES = (0.4, 0.7, 1.0)
MOST_TOKENS = 40
NUCLEUS = 0.95


def write_replies(path: Path, replies: Sequence[ModelReply]) -> None:
    """One reply a line."""
    write_text(path, (json.dumps(asdict(reply)) + "\n" for reply in replies))


def asked(places: Places, rng: Random) -> ModelReply:
    """A place in a dialogue where a reply is wanted."""
    dialogue, turn = places.draw(rng)
    kept = rng.randint(1, CONTEXT_TURNS) if rng.random() < 0.5 else CONTEXT_TURNS
    before = dialogue.turns[max(0, turn - kept) : turn]
    speaker = dialogue.turns[turn].speaker
    earlier = next((t.text for t in reversed(before) if t.speaker == speaker), "")
    context = restyled([t.text for t in before], rng, 0.1)
    return ModelReply(tuple(context), "", earlier)


class Replier:
    """A causal language model in a folder that writes many replies at once."""

    def __init__(self, folder: Path, device: str) -> None:
        import torch
        from tokenizers import Tokenizer
        from transformers import LlamaForCausalLM

        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        model: Any = open_network(LlamaForCausalLM, folder, dtype=dtype)
        self._model: Any = model.to(device).eval()
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._start = int(self._model.config.bos_token_id)
        self._end = int(self._tokenizer.encode("\n").ids[-1])
        self._device = device

    def __call__(self, contexts: Sequence[Sequence[str]], temperature: float, seed: int) -> list[str]:
        """A reply to each context: one line."""
        import torch

        texts = ["\n".join([*context, ""]) for context in contexts]
        ids = [[self._start, *e.ids[-CONTEXT_TOKENS:]] for e in self._tokenizer.encode_batch_fast(texts)]
        width = max(map(len, ids))
        rows = torch.tensor([[self._start] * (width - len(row)) + row for row in ids], device=self._device)
        real = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids], device=self._device)
        torch.manual_seed(seed)
        with torch.no_grad():
            written = self._model.generate(
                input_ids=rows, attention_mask=real, max_new_tokens=MOST_TOKENS, do_sample=True, top_k=0,
                temperature=temperature, top_p=NUCLEUS, eos_token_id=self._end, pad_token_id=self._end,
            )  # fmt: skip
        lines = self._tokenizer.decode_batch(written[:, width:].tolist())
        return [_whole(line) for line in lines]


def _whole(text: str) -> str:
    r"""The line that was written; of one that was cut off, its whole sentences, if there are any.

    >>> _whole("Yes. So\n"), _whole("Yes, I do. And it is"), _whole("Never")
    ('Yes. So', 'Yes, I do.', 'Never')
    """
    line, end, _ = text.partition("\n")
    whole = len(line) if end else max(line.rfind(mark) for mark in ".!?") + 1
    return (line[:whole] or line).strip()


def replies(replier: Replier, places: Places, seed: int, size: int) -> Iterator[list[ModelReply]]:
    """Replies without end, a batch at a time; what is empty is left out."""
    number = 0
    while True:
        rng = Random(f"{seed}:reply:{number}")
        wanted = [asked(places, rng) for _ in range(size)]
        said = replier([one.context for one in wanted], rng.choice(TEMPERATURES), number)
        yield [ModelReply(one.context, text, one.earlier) for one, text in zip(wanted, said, strict=True) if text]
        number += 1
