"""Tables of static facts about words, answered without running anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from turnwise.models.kinds import Model, Row
from turnwise.models.requests import Floats, Lookup


@dataclass
class Table(Model):
    """Answers `Lookup` from rows of numbers by name; `missing` stands for a name that is not there."""

    values: Mapping[str, Mapping[str, int]]
    numbers: Mapping[str, Floats]
    missing: Mapping[str, float]
    fingerprint: str

    def answer(self, request: Lookup, rows: Sequence[Row], results: Sequence[Any]) -> Floats:
        """One row of numbers per item, or one number where the table has only one."""
        names, numbers = self.values[request.unit], self.numbers[request.unit]
        found = np.full((len(request.items), *numbers.shape[1:]), self.missing[request.unit], dtype=np.float32)
        for i, item in enumerate(request.items):
            if (index := names.get(item)) is not None:
                found[i] = numbers[index]
        return found
