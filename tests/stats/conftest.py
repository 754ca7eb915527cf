"""Rated corpora as arrays."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@dataclass(frozen=True)
class Rated:
    """A rated corpus: its rows as they stand in the file, and their ratings as arrays of items by slots."""

    rows: list[dict[str, Any]]

    def ratings(self, quality: str) -> np.ndarray:
        return np.array([row["ratings"][quality] for row in self.rows], dtype=float)

    def raters(self) -> np.ndarray:
        return np.array([row["raters"] for row in self.rows], dtype=object)

    def without(self, system: str) -> Rated:
        return Rated([row for row in self.rows if row["system"] != system])


@pytest.fixture(scope="session")
def rated(data_dir: Path) -> Callable[[str], Rated]:
    """Reads a rated corpus by the stem of its file."""

    def read(name: str) -> Rated:
        lines = (data_dir / "human" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        return Rated([json.loads(line) for line in lines])

    return read
