"""Replies that a causal model wrote to training dialogues: a teacher is asked about them beside what people said.

Those whom a pack will judge are machines, and how good a machine's reply is nobody knows beforehand; but a large model
can say it to a small one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from turnwise.text.inputs import CONTEXT_TOKENS, CONTEXT_TURNS, restyled
from turnwise.train.checkpoint import open_network
from turnwise.train.dialogues import lines_of

if TYPE_CHECKING:
    from turnwise.train.sampling import Places

TEMPERATURES = (0.4, 0.7, 1.0)
MOST_TOKENS = 40
NUCLEUS = 0.95


@dataclass(frozen=True, slots=True)
class Reply:
    """What was said, what a model replied, and what the one whose place it took had said last, if anything."""

    context: tuple[str, ...]
    response: str
    earlier: str = ""


@lru_cache(maxsize=2)
def read_replies(path: Path | None) -> tuple[Reply, ...]:
    """The replies in a file; none where there is no file."""
    if path is None:
        return ()
    rows = (json.loads(line) for _, line in lines_of(path))
    return tuple(Reply(tuple(row["context"]), row["response"], row["earlier"]) for row in rows)


def write_replies(path: Path, replies: Sequence[Reply]) -> None:
    """One reply a line."""
    path.write_text("".join(json.dumps(asdict(reply)) + "\n" for reply in replies), encoding="utf-8")


def asked(places: Places, rng: Random) -> Reply:
    """A place in a dialogue where a reply is wanted."""
    dialogue, turn = places.draw(rng)
    kept = rng.randint(1, CONTEXT_TURNS) if rng.random() < 0.5 else CONTEXT_TURNS
    before = dialogue.turns[max(0, turn - kept) : turn]
    speaker = dialogue.turns[turn].speaker
    earlier = next((t.text for t in reversed(before) if t.speaker == speaker), "")
    context = restyled([t.text for t in before], rng, 0.1)
    return Reply(tuple(context), "", earlier)


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


def replies(replier: Replier, places: Places, seed: int, size: int) -> Iterator[list[Reply]]:
    """Replies without end, a batch at a time; what is empty is left out."""
    number = 0
    while True:
        rng = Random(f"{seed}:reply:{number}")
        wanted = [asked(places, rng) for _ in range(size)]
        said = replier([one.context for one in wanted], rng.choice(TEMPERATURES), number)
        yield [Reply(one.context, text, one.earlier) for one, text in zip(wanted, said, strict=True) if text]
        number += 1
