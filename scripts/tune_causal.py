"""Tune the bundled pack's causal language model: `python scripts/tune_causal.py NAME BASE --data DIR --out DIR ...`.

As it was run for the bundled model, on one GPU:

    python scripts/tune_causal.py X30 SMOLLM2 --minutes 2.6 --learning-rate 2e-4
    python scripts/tune_causal.py D22 OUT/X30 --layers 22 --levels 7 --minutes 9 --learning-rate 6e-4 --teacher OUT/X30

SMOLLM2 is SmolLM2-135M with a pruned vocabulary (scripts/prepare_base.py). Texts are packed into blocks of 128 tokens.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from train_pack import training_split

from turnwise.text.inputs import restyled
from turnwise.train.causal import load, settle_quantised, start_quantised
from turnwise.train.checkpoint import save_model
from turnwise.train.dialogues import Dialogue

BLOCK, START = 128, 1
RESTYLE, TEACHER_SHARE = 0.15, 0.5
# DailyDialog's dialogues are seen four times as often as others.
AGAIN = 3


def render(dialogue: Dialogue, rng: Random) -> list[str]:
    """A dialogue as texts: mostly every utterance with its answer as one sentence, else a stretch of it."""
    turns = restyled([turn.text for turn in dialogue.turns], rng, RESTYLE)
    kind = rng.random()
    if kind < 0.6:
        return [f"{first} {second}" for first, second in pairwise(turns)] or turns
    if kind < 0.65:
        return turns
    start = rng.randrange(len(turns))
    separator = "\n" if rng.random() < 0.5 else " "
    return [separator.join(turns[start if kind < 0.8 else 0 :])]


def batches(dialogues: list[Dialogue], tokenizer: Tokenizer, rows: int, rng: Random) -> Iterator[Tensor]:
    """Blocks of tokens without end; a begin-of-text token before each text, a newline behind it."""
    newline = tokenizer.encode("\n").ids
    pool = dialogues + [d for d in dialogues if d.corpus.startswith("dailydialog")] * AGAIN
    while True:
        rng.shuffle(pool)
        for first in range(0, len(pool), 4000):
            texts = [text for dialogue in pool[first : first + 4000] for text in render(dialogue, rng)]
            rng.shuffle(texts)
            ids = [i for e in tokenizer.encode_batch_fast(texts) for i in (START, *e.ids, *newline)]
            blocks = torch.tensor(ids[: len(ids) // BLOCK * BLOCK]).view(-1, BLOCK)
            blocks = blocks[torch.randperm(len(blocks))]
            yield from (blocks[k : k + rows] for k in range(0, len(blocks) - rows + 1, rows))


def step_loss(model: nn.Module, teacher: nn.Module | None, ids: Tensor) -> Tensor:
    """The loss of every next token; half of it is the distance from the teacher's distribution where there is one."""
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=ids.is_cuda):
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1].flatten(0, 1)
    logits = logits.float()
    loss = nn.functional.cross_entropy(logits, ids[:, 1:].flatten())
    if teacher is None:
        return loss
    with torch.no_grad():
        wanted = teacher(input_ids=ids, use_cache=False).logits[:, :-1].flatten(0, 1).float().log_softmax(-1)
    distance = nn.functional.kl_div(logits.log_softmax(-1), wanted, log_target=True, reduction="batchmean")
    return (1 - TEACHER_SHARE) * loss + TEACHER_SHARE * distance


def main() -> None:
    """Tune, and write the model as transformers reads it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("name")
    parser.add_argument("base", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--levels", type=int)
    parser.add_argument("--teacher", type=Path)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--rows", type=int, default=128, help="blocks in a batch")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(42)
    model = load(args.base, args.layers).to(device)
    if args.levels:
        start_quantised(model, args.levels)
    teacher = load(args.teacher, dtype=torch.bfloat16).to(device).train(False) if args.teacher else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.0, betas=(0.9, 0.98))
    fast, judge = torch.compile(model.train()), torch.compile(teacher) if teacher else None
    kept, _ = training_split(args.data)
    tokenizer = Tokenizer.from_file(str(args.base / "tokenizer.json"))
    began = None
    for step, ids in enumerate(batches(kept, tokenizer, args.rows, Random(42))):
        done = (time.monotonic() - began) / (args.minutes * 60) if began else 0.0
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = args.learning_rate * min(1, (step + 1) / 100) * (1 - done)
        loss = step_loss(fast, judge, ids.to(device))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step == 4:
            began = time.monotonic()  # compiled
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    if args.levels:
        settle_quantised(model)
    weights = {name: value for name, value in model.state_dict().items() if name != "lm_head.weight"}
    described = {**model.config.to_dict(), "architectures": ["LlamaForCausalLM"], "dtype": "float16"}
    save_model(args.out / args.name, weights, described, args.base / "tokenizer.json")


if __name__ == "__main__":
    main()
