"""Trains a small network over vectors that were computed beforehand: Adam, validation, and the best epoch kept.

Nothing here knows what the network is for. It is given examples that can be cut into batches, and a function that says
what a batch costs. A run is a pure function of the network, the examples and the recipe: everything is drawn from
generators that the recipe's seed starts, so the same run gives the same weights on the same machine.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

Places = npt.NDArray[np.int64]
M = TypeVar("M", bound=nn.Module)
logger = logging.getLogger(__name__)


class Examples(Protocol):
    """What a network learns from, cut into batches by number."""

    def __len__(self) -> int: ...

    def batch(self, places: Places, rng: np.random.Generator) -> Any:
        """The examples at these places, as the loss wants them; what is drawn for them comes from `rng` alone."""


@dataclass(frozen=True)
class Columns:
    """Examples that are rows of arrays of equal length; a batch is a mapping of tensors by the arrays' names."""

    arrays: Mapping[str, npt.NDArray[Any]]

    def __post_init__(self) -> None:
        if len({len(array) for array in self.arrays.values()}) != 1:
            raise ValueError("the columns are not equally long")

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def batch(self, places: Places, rng: np.random.Generator) -> dict[str, Tensor]:
        """The rows at these places."""
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
    # The rate falls to nothing over all epochs; an encoder inside the network may learn more slowly than the rest.
    decay: bool = False
    encoder_rate: float | None = None


@dataclass(frozen=True)
class Fitted:
    """What happened: for each epoch its losses and seconds, and which epoch's weights were kept."""

    epochs: list[dict[str, float]] = field(default_factory=list)
    best: int = 0
    # What else was measured on what was held out.
    found: Mapping[str, Any] = field(default_factory=dict)

    @property
    def loss(self) -> float:
        """The validation loss of the kept weights."""
        return self.epochs[self.best]["validation"]

    def record(self) -> dict[str, Any]:
        """The run as JSON can hold it."""
        return {"epochs": len(self.epochs), "kept": self.best, "loss": round(self.loss, 5), "history": self.epochs}


def fit(
    model: nn.Module,
    loss: Callable[[Any, Any], Tensor],
    training: Examples,
    validation: Examples,
    recipe: Recipe,
) -> Fitted:
    """Train the network in place and leave the weights of its best epoch in it.

    `loss(model, batch)` is the mean over the batch's examples. What is drawn for validation is the same every time,
    so that its losses can be compared.
    """
    model.to(recipe.device)
    optimizer = torch.optim.AdamW(_groups(model, recipe), weight_decay=recipe.weight_decay)
    steps, seconds = recipe.epochs * -(-len(training) // recipe.batch), 60 * (recipe.minutes or 0)
    began = time.monotonic()
    until = None if recipe.minutes is None else began + seconds

    def passed(step: int) -> float:
        """How much of the run is over, by its epochs or its minutes."""
        late = (time.monotonic() - began) / seconds if seconds else 0.0
        return min(1.0, max(step / max(steps, 1), late))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - passed(step) if recipe.decay else 1.0)
    torch.manual_seed(recipe.seed)
    rng = np.random.default_rng(recipe.seed)
    fitted, kept = Fitted(), _copy(model)
    for epoch in range(recipe.epochs):
        started = time.monotonic()
        learnt = _epoch(model, loss, training, recipe, rng, optimizer, schedule, until)
        found = evaluate(model, loss, validation, batch=recipe.batch, seed=recipe.seed, device=recipe.device)
        took = round(time.monotonic() - started, 2)
        row = {"training": round(learnt, 5), "validation": round(found, 5), "seconds": took}
        fitted.epochs.append(row)
        logger.info("epoch %d: training %.4f, validation %.4f, %.1f s", epoch, learnt, found, took)
        if epoch == 0 or found < fitted.epochs[fitted.best]["validation"]:
            fitted, kept = Fitted(fitted.epochs, epoch), _copy(model)
        if (until is not None and time.monotonic() > until) or epoch - fitted.best >= recipe.patience:
            break
    model.load_state_dict(kept)
    model.eval()
    return fitted


def _epoch(
    model: nn.Module,
    loss: Callable[[Any, Any], Tensor],
    examples: Examples,
    recipe: Recipe,
    rng: np.random.Generator,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    until: float | None,
) -> float:
    """One pass in a new order, or as much of it as there is time for; the mean loss on the way."""
    model.train()
    seen = 0
    order, total = rng.permutation(len(examples)), torch.zeros((), device=recipe.device)
    for start in range(0, len(order), recipe.batch):
        places = order[start : start + recipe.batch]
        optimizer.zero_grad()
        cost = loss(model, moved(examples.batch(places, rng), recipe.device))
        cost.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()
        schedule.step()
        total += cost.detach() * len(places)
        seen += len(places)
        if until is not None and time.monotonic() > until:
            break
    return float(total) / seen


def _groups(model: nn.Module, recipe: Recipe) -> list[dict[str, Any]]:
    """The weights that learn, with their rates."""
    learning = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    inside = [weight for name, weight in learning if name.startswith("encoder.")]
    others = [weight for name, weight in learning if not name.startswith("encoder.")]
    slower = recipe.learning_rate if recipe.encoder_rate is None else recipe.encoder_rate
    groups = [{"params": others, "lr": recipe.learning_rate}, {"params": inside, "lr": slower}]
    return [group for group in groups if group["params"]]


def moved(batch: Any, device: str) -> Any:
    """A batch of tensors by name where the network is; any other kind of batch is there already."""
    return {name: value.to(device) for name, value in batch.items()} if isinstance(batch, dict) else batch


@torch.no_grad()
def evaluate(
    model: nn.Module,
    loss: Callable[[Any, Any], Tensor],
    examples: Examples,
    *,
    batch: int = 128,
    seed: int = 0,
    device: str = "cpu",
) -> float:
    """The mean loss, with nothing dropped out."""
    model.eval()
    rng, total = np.random.default_rng([seed, 1]), 0.0
    for start in range(0, len(examples), batch):
        places = np.arange(start, min(start + batch, len(examples)))
        total += float(loss(model, moved(examples.batch(places, rng), device))) * len(places)
    return total / len(examples)


@torch.no_grad()
def predict(
    model: M,
    ask: Callable[[M, Any], Tensor],
    examples: Examples,
    *,
    batch: int = 1024,
    seed: int = 0,
    device: str = "cpu",
) -> npt.NDArray[np.float32]:
    """What the network says of every example: `ask(model, batch)` gives one row for each."""
    model.eval()
    rng = np.random.default_rng([seed, 1])
    every = (np.arange(start, min(start + batch, len(examples))) for start in range(0, len(examples), batch))
    parts = [ask(model, moved(examples.batch(places, rng), device)).cpu().numpy() for places in every]
    return np.concatenate(parts).astype(np.float32)


def seeded(seed: int, build: Callable[[], M]) -> M:
    """A network whose first weights are those of a seed, whatever was drawn before."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build()


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
