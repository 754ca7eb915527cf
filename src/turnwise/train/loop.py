"""The training loop. `optimise` takes the steps; `fit` and `fit_epochs` decide how long, and which weights stay.

`fit` follows an objective's numbered batches for minutes or steps, averages the weights, resumes, and runs on one
device or many. `fit_epochs` passes over examples, such as vectors that were computed beforehand, validates after each
pass and keeps the best epoch. All its draws come from generators that the recipe's seed starts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from turnwise.interrupts import check, deferred, is_asked
from turnwise.train import checkpoint
from turnwise.train.config import Config

Batch = dict[str, Any]
Indices = npt.NDArray[np.int64]
M = TypeVar("M", bound=nn.Module)
logger = logging.getLogger(__name__)


def optimise(
    model: nn.Module,
    batches: Iterable[Sequence[tuple[Any, int]]],
    cost: Callable[[Any], Tensor],
    optimizer: torch.optim.Optimizer,
    rate: Callable[[], float | None],
    clip: float,
    backward: Callable[[Tensor], object] = Tensor.backward,
) -> Iterator[list[tuple[Tensor, int]]]:
    """Take a step for each batch of (chunk, examples) and yield its (mean loss, examples), until `rate` returns None.

    `cost` returns the mean loss of a chunk. `rate` is the factor of each group's learning rate `base`.
    """
    for chunks in batches:
        factor = rate()
        if factor is None:
            return
        for group in optimizer.param_groups:
            group["lr"] = group["base"] * factor
        rows = sum(count for _, count in chunks)
        losses = []
        for chunk, count in chunks:
            loss = cost(chunk)
            backward(loss * (count / rows))
            losses.append((loss.detach(), count))
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
        yield losses


def moved(batch: Any, device: str | torch.device) -> Any:
    """Return a mapping with its tensors on a device; any other kind of batch is there already."""
    if not isinstance(batch, dict):
        return batch
    return {k: v.to(device, non_blocking=True) if isinstance(v, Tensor) else v for k, v in batch.items()}


# --- numbered batches -------------------------------------------------------------------------------------


class Objective(Protocol):
    """What `fit` requires of an objective."""

    def batch(self, index: int) -> list[Batch]:
        """Return the batch with this number, in chunks; a pure function of the number and the seed."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the mean loss of one chunk."""


class _Numbered(Dataset[list[Batch]]):
    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    def __getitem__(self, index: int) -> list[Batch]:
        return self._objective.batch(index)


def fit(model: nn.Module, objective: Objective, config: Config) -> dict[str, Any]:
    """Train the model in place, leave the averaged weights in it, and return a record of the run.

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

    def rate() -> float | None:
        seconds = time.monotonic() - began
        progress = seconds / 60 / config.minutes if config.minutes else step / config.steps
        return _schedule(progress, config.warmup) if progress < 1 else None

    def cost(chunk: Batch) -> Tensor:
        with accelerator.autocast():
            return objective.loss(prepared, moved(chunk, accelerator.device))

    batches = ([(c, c["rows"]) for c in chunks] for chunks in _batches(objective, config, accelerator, step))
    with deferred():
        for losses in optimise(prepared, batches, cost, optimizer, rate, 1.0, accelerator.backward):
            for loss, rows in losses:
                window[0] += loss.float() * rows
                window[1] += rows
            step += 1
            _follow(average, inner, min(config.average, step / (step + 10)))
            if step % 100 == 0:
                mean = float(window[0] / window[1])
                where["losses"].append([step, round(mean, 5)])
                window.zero_()
                logger.info("%s step %d loss %.4f at %.0f s", config.objective, step, mean, time.monotonic() - began)
            stop = is_asked()
            if (time.monotonic() - saved > config.save_every or stop) and accelerator.is_main_process:
                saved = time.monotonic()
                where |= {"step": step, "seconds": saved - began}
                checkpoint.save_state(config.out / "state", inner, optimizer, average, where)
            if stop:
                # The state that was just saved is where the same command goes on.
                check()
    with torch.no_grad():
        for name, value in checkpoint.trainable(inner).items():
            value.copy_(average[name])
    inner.eval()
    return {
        "steps": step,
        "seconds": round(time.monotonic() - began, 1),
        "losses": where["losses"],
        "last_loss": float(window[0] / window[1]) if window[1] > 0 else None,
        "device": str(accelerator.device),
        "processes": accelerator.num_processes,
    }


def beside(config: Config) -> tuple[str, torch.dtype]:
    """Return the device and precision of a model that only advises a run."""
    on_gpu = torch.cuda.is_available() and config.device != "cpu"
    return ("cuda", torch.bfloat16) if on_gpu else ("cpu", torch.float32)


def _accelerator(config: Config) -> Accelerator:
    on_cpu = beside(config)[0] == "cpu"
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
        {"params": [w for w in weights if w.ndim > 1], "weight_decay": config.weight_decay, "base": config.rate},
        {"params": [w for w in weights if w.ndim <= 1], "weight_decay": 0.0, "base": config.rate},
    ]
    return torch.optim.AdamW(groups, lr=config.rate, fused=accelerator.device.type == "cuda")


def _batches(objective: Objective, config: Config, accelerator: Accelerator, start: int) -> Iterator[list[Batch]]:
    """Yield the batches from this step on; with several processes, each takes its own numbers."""
    last = start + 10_000_000 if config.minutes else config.steps + 1
    count = accelerator.num_processes
    yield from DataLoader(
        _Numbered(objective),
        batch_size=None,
        sampler=range(start * count + accelerator.process_index, last * count, count),
        num_workers=config.workers,
        prefetch_factor=4 if config.workers else None,
        pin_memory=accelerator.device.type == "cuda",
    )


def _schedule(progress: float, warmup: float) -> float:
    """Return the factor of the learning rate, which rises linearly and then falls linearly to 0.

    >>> _schedule(0.05, 0.1), round(_schedule(0.55, 0.1), 6)
    (0.5, 0.5)
    """
    rising = progress / warmup if warmup else 1.0
    return max(min(rising, (1 - progress) / (1 - warmup)), 0.0)


@torch.no_grad()
def _follow(average: dict[str, Tensor], model: nn.Module, decay: float) -> None:
    """Move the running average of the weights a little towards their present values."""
    weights = checkpoint.trainable(model)
    torch._foreach_lerp_([average[name] for name in weights], [w.detach() for w in weights.values()], 1 - decay)


# --- epochs over examples ---------------------------------------------------------------------------------


class Examples(Protocol):
    """What a network learns from, cut into batches by number."""

    def __len__(self) -> int: ...

    def batch(self, places: Indices, rng: np.random.Generator) -> Any:
        """Return the examples at these places, as the loss takes them; draws for them come from `rng` alone."""


@dataclass(frozen=True)
class Columns:
    """Examples that are rows of arrays of equal length; a batch is a mapping of tensors by the arrays' names."""

    arrays: Mapping[str, npt.NDArray[Any]]

    def __post_init__(self) -> None:
        if len({len(array) for array in self.arrays.values()}) != 1:
            raise ValueError("columns: expected arrays that are equally long")

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def batch(self, places: Indices, rng: np.random.Generator) -> dict[str, Tensor]:
        """Return the rows at these places."""
        return {name: torch.from_numpy(np.asarray(array[places])) for name, array in self.arrays.items()}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to train. It stops after `epochs`, after `minutes`, or after `patience` epochs that did not help."""

    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    batch: int = 128
    epochs: int = 50
    patience: int = 5
    clip: float = 0.5
    minutes: float | None = None
    seed: int = 0
    device: str = "cpu"
    # With `decay` the rate falls to 0 over all epochs; `encoder_rate` is the rate of an encoder inside the network.
    decay: bool = False
    encoder_rate: float | None = None


@dataclass(frozen=True)
class Fitted:
    """The losses and seconds of each epoch, and which epoch's weights were kept."""

    epochs: list[dict[str, float]] = field(default_factory=list)
    best: int = 0
    # What else was measured on what was held out.
    found: Mapping[str, Any] = field(default_factory=dict)

    @property
    def loss(self) -> float:
        """Return the validation loss of the kept weights."""
        return self.epochs[self.best]["validation"]

    def record(self) -> dict[str, Any]:
        """Return the run as JSON can hold it."""
        return {"epochs": len(self.epochs), "kept": self.best, "loss": round(self.loss, 5), "history": self.epochs}


def fit_epochs(
    model: nn.Module, loss: Callable[[Any, Any], Tensor], training: Examples, validation: Examples, recipe: Recipe
) -> Fitted:
    """Train the network in place and leave the weights of its best epoch in it.

    `loss(model, batch)` is the mean over the batch's examples. The draws for validation are the same every time,
    so that its losses can be compared.
    """
    model.to(recipe.device)
    optimizer = torch.optim.AdamW(_groups(model, recipe), weight_decay=recipe.weight_decay)
    steps, seconds = recipe.epochs * -(-len(training) // recipe.batch), 60 * (recipe.minutes or 0)
    began, step = time.monotonic(), 0

    def out_of_time() -> bool:
        return recipe.minutes is not None and time.monotonic() > began + seconds

    def rate() -> float:
        late = (time.monotonic() - began) / seconds if seconds else 0.0
        return 1 - min(1.0, max(step / max(steps, 1), late)) if recipe.decay else 1.0

    torch.manual_seed(recipe.seed)
    rng = np.random.default_rng(recipe.seed)
    fitted, kept = Fitted(), _copy(model)
    for epoch in range(recipe.epochs):
        started = time.monotonic()
        model.train()
        order, total, seen = rng.permutation(len(training)), torch.zeros((), device=recipe.device), 0
        parts = (order[start : start + recipe.batch] for start in range(0, len(order), recipe.batch))
        batches = ([(moved(training.batch(part, rng), recipe.device), len(part))] for part in parts)
        for ((cost, rows),) in optimise(model, batches, lambda batch: loss(model, batch), optimizer, rate, recipe.clip):
            step += 1
            total += cost * rows
            seen += rows
            if out_of_time():
                break
        learnt = float(total) / seen
        found = mean_loss(model, loss, validation, batch=recipe.batch, seed=recipe.seed, device=recipe.device)
        took = round(time.monotonic() - started, 2)
        fitted.epochs.append({"training": round(learnt, 5), "validation": round(found, 5), "seconds": took})
        logger.info("epoch %d: training %.4f, validation %.4f, %.1f s", epoch, learnt, found, took)
        if epoch == 0 or found < fitted.epochs[fitted.best]["validation"]:
            fitted, kept = Fitted(fitted.epochs, epoch), _copy(model)
        if out_of_time() or epoch - fitted.best >= recipe.patience:
            break
    model.load_state_dict(kept)
    model.eval()
    return fitted


def _groups(model: nn.Module, recipe: Recipe) -> list[dict[str, Any]]:
    """Return the trainable weights as groups with their learning rates."""
    learning = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    inside = [weight for name, weight in learning if name.startswith("encoder.")]
    others = [weight for name, weight in learning if not name.startswith("encoder.")]
    slower = recipe.learning_rate if recipe.encoder_rate is None else recipe.encoder_rate
    rates = ((others, recipe.learning_rate), (inside, slower))
    return [{"params": weights, "lr": rate, "base": rate} for weights, rate in rates if weights]


def _each(
    model: M, ask: Callable[[M, Any], Any], examples: Examples, batch: int, seed: int, device: str
) -> Iterator[tuple[Any, int]]:
    """Yield what `ask` returns of each batch in order, with nothing dropped out, and the batch's size."""
    model.eval()
    rng = np.random.default_rng([seed, 1])
    for start in range(0, len(examples), batch):
        places = np.arange(start, min(start + batch, len(examples)))
        with torch.no_grad():
            found = ask(model, moved(examples.batch(places, rng), device))
        yield found, len(places)


def mean_loss(
    model: M,
    loss: Callable[[M, Any], Tensor],
    examples: Examples,
    *,
    batch: int = 128,
    seed: int = 0,
    device: str = "cpu",
) -> float:
    """Return the mean loss, with nothing dropped out."""
    parts = _each(model, loss, examples, batch, seed, device)
    return sum((float(cost) * rows for cost, rows in parts), 0.0) / len(examples)


def predict(
    model: M,
    ask: Callable[[M, Any], Tensor],
    examples: Examples,
    *,
    batch: int = 1024,
    seed: int = 0,
    device: str = "cpu",
) -> npt.NDArray[np.float32]:
    """Return a network's output for every example: `ask(model, batch)` gives one row for each."""
    parts = [found.cpu().numpy() for found, _ in _each(model, ask, examples, batch, seed, device)]
    return np.concatenate(parts).astype(np.float32)


def seeded(seed: int, build: Callable[[], M]) -> M:
    """Return a network whose first weights are those of a seed, whatever was drawn before."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build()


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
