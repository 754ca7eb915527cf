"""One training loop for every objective: timed or counted, averaged, resumable, on one device or many."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from turnwise.train import checkpoint
from turnwise.train.config import Config

Batch = dict[str, Any]
logger = logging.getLogger(__name__)


class Objective(Protocol):
    """What the loop needs to know about an objective."""

    def batch(self, index: int) -> list[Batch]:
        """The batch with this number, in chunks; a pure function of the number and the seed."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The mean loss of one chunk."""


class _Numbered(Dataset[list[Batch]]):
    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    def __getitem__(self, index: int) -> list[Batch]:
        return self._objective.batch(index)


def fit(
    model: nn.Module,
    objective: Objective,
    config: Config,
) -> dict[str, Any]:
    """Train the model in place, leave the averaged weights in it, and return what happened.

    The learning rate rises for a share of the run and then falls linearly to nothing; the run is measured in
    minutes where they are given, in steps otherwise.
    """
    accelerator = _accelerator(config)
    prepared, optimizer = accelerator.prepare(model, _optimizer(model, config, accelerator))
    inner = accelerator.unwrap_model(prepared)
    average = {name: value.detach().clone() for name, value in checkpoint.trainable(inner).items()}
    where = checkpoint.load_state(config.out / "state", inner, optimizer, average)
    where = where or {"step": 0, "seconds": 0.0, "losses": []}
    began, saved = time.monotonic() - where["seconds"], time.monotonic()
    window = torch.zeros(2, device=accelerator.device)
    prepared.train()
    step = int(where["step"])
    for chunks in _batches(objective, config, accelerator, step):
        progress = _progress(config, step, time.monotonic() - began)
        if progress >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = config.rate * _schedule(progress, config.warmup)
        rows = sum(chunk["rows"] for chunk in chunks)
        for chunk in chunks:
            with accelerator.autocast():
                loss = objective.loss(prepared, _to(chunk, accelerator.device))
            accelerator.backward(loss * (chunk["rows"] / rows))
            window[0] += loss.detach().float() * chunk["rows"]
            window[1] += chunk["rows"]
        accelerator.clip_grad_norm_(prepared.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        _follow(average, inner, min(config.average, step / (step + 10)))
        if step % 100 == 0:
            mean = float(window[0] / window[1])
            where["losses"].append([step, round(mean, 5)])
            window.zero_()
            logger.info("%s step %d loss %.4f at %.0f s", config.objective, step, mean, time.monotonic() - began)
        if time.monotonic() - saved > config.save_every and accelerator.is_main_process:
            saved = time.monotonic()
            where |= {"step": step, "seconds": saved - began}
            checkpoint.save_state(config.out / "state", inner, optimizer, average, where)
    with torch.no_grad():
        for name, value in checkpoint.trainable(inner).items():
            value.copy_(average[name])
    inner.eval()
    last = float(window[0] / window[1]) if window[1] > 0 else None
    return {
        "steps": step,
        "seconds": round(time.monotonic() - began, 1),
        "losses": where["losses"],
        "last_loss": last,
        "device": str(accelerator.device),
        "processes": accelerator.num_processes,
    }


def beside(config: Config) -> tuple[str, torch.dtype]:
    """Where a model stands that only advises a run, and how precisely it computes."""
    on_gpu = torch.cuda.is_available() and config.device != "cpu"
    return ("cuda", torch.bfloat16) if on_gpu else ("cpu", torch.float32)


def _accelerator(config: Config) -> Accelerator:
    on_cpu = config.device == "cpu" or not torch.cuda.is_available()
    torch.manual_seed(config.seed)
    if not on_cpu:
        torch.backends.cuda.matmul.allow_tf32 = True
    return Accelerator(
        cpu=on_cpu,
        mixed_precision="no" if on_cpu else "bf16",
        # A batch trains one head, so the others have no gradient in that step.
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )


def _optimizer(model: nn.Module, config: Config, accelerator: Accelerator) -> torch.optim.Optimizer:
    weights = list(checkpoint.trainable(model).values())
    groups = [
        {"params": [w for w in weights if w.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [w for w in weights if w.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.rate, fused=accelerator.device.type == "cuda")


def _batches(objective: Objective, config: Config, accelerator: Accelerator, start: int) -> Iterator[list[Batch]]:
    """The batches from this step on; with several processes, each takes its own numbers."""
    last = start + 10_000_000 if config.minutes else config.steps + 1
    numbers = range(
        start * accelerator.num_processes + accelerator.process_index,
        last * accelerator.num_processes,
        accelerator.num_processes,
    )
    loader = DataLoader(
        _Numbered(objective),
        batch_size=None,
        sampler=numbers,
        num_workers=config.workers,
        prefetch_factor=4 if config.workers else None,
        pin_memory=accelerator.device.type == "cuda",
    )
    yield from loader


def _progress(config: Config, step: int, seconds: float) -> float:
    return seconds / 60 / config.minutes if config.minutes else step / config.steps


def _schedule(progress: float, warmup: float) -> float:
    """Linear up, then linear down to nothing.

    >>> _schedule(0.05, 0.1), round(_schedule(0.55, 0.1), 6)
    (0.5, 0.5)
    """
    rising = progress / warmup if warmup else 1.0
    return max(min(rising, (1 - progress) / (1 - warmup)), 0.0)


def _to(batch: Batch, device: torch.device) -> Batch:
    return {k: v.to(device, non_blocking=True) if isinstance(v, Tensor) else v for k, v in batch.items()}


@torch.no_grad()
def _follow(average: dict[str, Tensor], model: nn.Module, decay: float) -> None:
    """Move the running average of the weights a little towards where they are now."""
    weights = checkpoint.trainable(model)
    torch._foreach_lerp_([average[name] for name in weights], [w.detach() for w in weights.values()], 1 - decay)
