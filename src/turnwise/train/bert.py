"""Training BERT trunks: classifiers that may share one, and the masked language model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from turnwise.text.inputs import context_text, restyled
from turnwise.train.config import Config
from turnwise.train.dialogues import Dialogue, merge_runs
from turnwise.train.encode import IGNORED, Encoder, LinesEncoder, PairEncoder, Sequences, mask_tokens, pad
from turnwise.train.loop import Batch
from turnwise.train.network import is_causal
from turnwise.train.sampling import Places
from turnwise.train.tasks import UNKNOWN, Labelled, Task

if TYPE_CHECKING:
    from turnwise.train.teachers import Teachers

READ = ("input_ids", "token_type_ids", "attention_mask")


def encoder_of(config: Config) -> PairEncoder:
    """The tokenizer of the BERT model to start from, with the configured lengths."""
    return PairEncoder(config.base / "tokenizer.json", config.context_tokens, config.response_tokens)


def pairs_of(folder: Path, config: Config) -> Encoder:
    """How the model in a folder, BERT or causal, reads a pair of texts."""
    lengths = config.context_tokens, config.response_tokens
    if not is_causal(folder):
        return PairEncoder(folder / "tokenizer.json", *lengths)
    described = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return LinesEncoder(folder / "tokenizer.json", described["bos_token_id"], described["eos_token_id"], *lengths)


class Classification:
    """Batches of one task at a time, the task drawn by its share; teachers, if there are any, say how sure to be."""

    def __init__(self, tasks: Sequence[Task], config: Config, teachers: Teachers | None = None) -> None:
        self.tasks, self._config, self._encode = tasks, config, pairs_of(config.base, config)
        self._shares = [config.shares.get(task.name, 1.0) for task in tasks]
        self._teachers = teachers

    def batch(self, index: int) -> list[Batch]:
        if self._teachers and self._config.taught:
            # A large teacher is what costs time: batches come again, and what it said to them is remembered.
            index %= self._config.taught
        rng = self._config.drawing(index)
        task = rng.choices(self.tasks, self._shares)[0]
        drawn = [task.draw(rng) for _ in range(self._config.batch)]
        chunks = list(encoded(drawn, self._encode, task.name, self._config.chunks))
        if self._teachers:
            for place, chunk in enumerate(chunks):
                rows = [drawn[i] for i in chunk["order"]]
                chunk |= self._teachers.reads(rows, task.name, f"{index}:{place}")
        return chunks

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits = logits_of(model, batch).float()
        known = (batch["labels"] != UNKNOWN).sum().clamp(min=1)
        loss: Tensor = nn.functional.cross_entropy(logits, batch["labels"], ignore_index=UNKNOWN, reduction="sum")
        loss = loss / known
        if self._teachers is None or not self._teachers.knows(batch["head"]):
            return loss
        wanted = self._teachers.answer(batch, batch["head"])
        distance = nn.functional.kl_div(logits.log_softmax(-1), wanted, log_target=True, reduction="batchmean")
        return (1 - self._config.teacher_share) * loss + self._config.teacher_share * distance


def logits_of(model: nn.Module, batch: Batch) -> Tensor:
    """The logits of one chunk."""
    logits: Tensor = model(batch["head"], *(batch[name] for name in READ))
    return logits


def encoded(
    rows: Sequence[Labelled], encode: Encoder, head: str, chunks: int = 1, in_order: bool = False
) -> Iterator[Batch]:
    """The rows as tensors: in chunks of similar length so that little is spent on padding, or as they come in one."""
    sequences = encode([row.first for row in rows], [row.second for row in rows])
    for part in [list(range(len(rows)))] if in_order else by_length(sequences.ids, chunks):
        yield {
            "head": head,
            "rows": len(part),
            "order": part,
            "labels": torch.tensor([rows[i].label for i in part]),
            **tensors(Sequences([sequences.ids[i] for i in part], [sequences.segments[i] for i in part]), encode.pad),
        }


def by_length(ids: Sequence[Sequence[int]], chunks: int) -> list[list[int]]:
    """Indices sorted by length and cut into that many chunks.

    >>> by_length([[1, 1, 1], [1], [1, 1], [1]], 2)
    [[1, 3], [2, 0]]
    """
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    size = -(-len(order) // max(1, chunks))
    return [order[start : start + size] for start in range(0, len(order), size)]


def tensors(sequences: Sequences, padding: int) -> dict[str, Tensor]:
    """What a BERT model reads."""
    return {
        "input_ids": torch.from_numpy(pad(sequences.ids, padding)),
        "token_type_ids": torch.from_numpy(pad(sequences.segments, 0)),
        "attention_mask": torch.from_numpy(pad([[1] * len(ids) for ids in sequences.ids], 0)),
    }


class Masking:
    """Masked utterances: alone, or after up to three turns before them."""

    def __init__(self, dialogues: Sequence[Dialogue], config: Config) -> None:
        pool = [merge_runs(dialogue) for dialogue in dialogues]
        self._places = Places(pool, first=0, power=config.corpus_power, weights=config.corpus_weights)
        self._config, self._encode = config, encoder_of(config)
        encode = self._encode
        self._special = frozenset({encode.cls, encode.sep, encode.pad, encode.mask})

    def texts(self, rng: Random) -> tuple[str | None, str]:
        """(context or none, utterance)."""
        dialogue, turn = self._places.draw(rng)
        before = [t.text for t in dialogue.turns[max(0, turn - rng.randint(0, 3)) : turn]]
        *before, text = restyled([*before, dialogue.turns[turn].text], rng, self._config.restyle)
        return (context_text(before) if before else None), text

    def batch(self, index: int) -> list[Batch]:
        rng = self._config.drawing(index)
        drawn = [self.texts(rng) for _ in range(self._config.batch)]
        sequences = self._encode([first for first, _ in drawn], [second for _, second in drawn])
        size = self._encode.tokenizer.get_vocab_size()
        masked = [mask_tokens(ids, self._special, self._encode.mask, size, rng) for ids in sequences.ids]
        chunks = []
        for part in by_length(sequences.ids, self._config.chunks):
            inputs = Sequences([masked[i][0] for i in part], [sequences.segments[i] for i in part])
            targets = torch.from_numpy(pad([masked[i][1] for i in part], IGNORED))
            chunks.append({"rows": len(part), "targets": targets, **tensors(inputs, self._encode.pad)})
        return chunks

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        chosen = batch["targets"] != IGNORED
        logits = model(batch["input_ids"], batch["token_type_ids"], batch["attention_mask"], chosen)
        return nn.functional.cross_entropy(logits.float(), batch["targets"][chosen])


@torch.no_grad()
def probabilities(model: nn.Module, rows: Sequence[Labelled], encode: Encoder, head: str, size: int = 256) -> Tensor:
    """The probability of every label for every row, in the order of the rows."""
    model.eval()
    device = next(model.parameters()).device
    answers: Tensor | None = None
    for batch in encoded(rows, encode, head, chunks=-(-len(rows) // size)):
        moved: Mapping[str, Any] = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in batch.items()}
        chances = logits_of(model, dict(moved)).float().softmax(dim=-1).cpu()
        if answers is None:
            answers = torch.empty(len(rows), chances.shape[1])
        answers[torch.tensor(batch["order"])] = chances
    if answers is None:
        raise ValueError("there is nothing to ask")
    return answers
