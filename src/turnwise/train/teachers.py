"""Trained classifiers that a run learns from: what they think together, beside labels or where there are none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from turnwise.train import bert, network
from turnwise.train.config import Config
from turnwise.train.loop import Batch, beside
from turnwise.train.tasks import Labelled


class Teachers:
    """Classifiers that are asked about the same rows; each reads them in its own way."""

    def __init__(self, folders: Sequence[Path], config: Config) -> None:
        device, dtype = beside(config)
        self._readers = [bert.pairs_of(folder, config) for folder in folders]
        self._models = [network.load_classifier(folder, dtype).to(device) for folder in folders]
        self._remembers = config.taught is not None
        self._said: dict[str, Tensor] = {}
        if config.compile:
            for model in self._models:
                network.compile_layers(model.trunk)

    def knows(self, head: str) -> bool:
        """Whether any of them can answer this question."""
        return any(head in model.heads for model in self._models)

    def reads(self, rows: Sequence[Labelled], head: str, number: str) -> Batch:
        """These rows as the teachers will read them, to be put beside what the learner reads."""
        read: Batch = {"number": number}
        for place, reader in enumerate(self._readers):
            (seen,) = bert.encoded(rows, reader, head, in_order=True)
            read |= {f"teacher_{place}_{name}": seen[name] for name in bert.READ}
        return read

    @torch.no_grad()
    def answer(self, batch: Batch, head: str) -> Tensor:
        """Log-probabilities of the labels: the mean of what those say who know the question."""
        known = self._said.get(batch["number"])
        if known is None:
            said = [
                model(head, *(batch[f"teacher_{place}_{name}"] for name in bert.READ)).float().log_softmax(-1)
                for place, model in enumerate(self._models)
                if head in model.heads
            ]
            known = torch.stack(said).mean(dim=0).log_softmax(-1)
            if self._remembers:
                self._said[batch["number"]] = known
        return known
