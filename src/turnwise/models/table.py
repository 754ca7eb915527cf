"""Tables of static facts about words, answered without running anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from turnwise.models.kinds import KINDS, Model, ModelKind, Row
from turnwise.models.requests import Floats, Lookup

if TYPE_CHECKING:
    from turnwise.models.pack import Pack


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


def _from_pack(pack: Pack, role: str) -> Table:
    from safetensors.numpy import load

    tensors = load(pack.read(pack.manifest.role(role).file))
    names, numbers, missing = {}, {}, {}
    for unit in ("word", "token"):
        if f"{unit}.names" in tensors:
            listed = tensors[f"{unit}.names"].tobytes().decode("utf-8").split("\n")
            names[unit] = {name: i for i, name in enumerate(listed)}
            values = tensors[f"{unit}.values"]
            scales = tensors.get(f"{unit}.scales")
            numbers[unit] = values if scales is None else values.astype(np.float32) * scales[:, None]
            missing[unit] = float(tensors[f"{unit}.missing"][0])
    return Table(names, numbers, missing, pack.fingerprint(role))


KINDS.add(
    "table",
    ModelKind("table", Lookup, _from_pack, probe=lambda role: Lookup(("music", "the"), role=role)),
    module=__name__,
)
