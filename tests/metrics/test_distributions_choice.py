"""The script that chooses the vectors of fbd measures every role, layer and pooling, and names the best."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.metrics.test_distributions import sentence
from turnwise.models.pack import Pack

SCRIPT = Path(__file__).parents[2] / "tools" / "pack" / "choose.py"


def test_every_choice_is_measured_and_the_best_is_named(toy_pack: Pack, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "train").mkdir()
    with lzma.open(tmp_path / "train" / "dialogrpt_refs_reddit.jsonl.xz", "wt", encoding="utf-8") as out:
        for _ in range(110):
            turns = [{"text": sentence(rng)} for _ in range(2)]
            out.write(json.dumps({"turns": turns, "alt_responses": [sentence(rng)]}) + "\n")
    given = ["--data", tmp_path, "--models", toy_pack.folder, "--draws", "2"]
    done = subprocess.run([sys.executable, SCRIPT, "vectors", *given], capture_output=True, text=True, check=True)
    head, *rows, chosen = done.stdout.strip().split("\n")
    assert head.startswith("110 contexts, samples of 100")
    # Two roles, three layers and the word embeddings, three poolings; then those that fbd finds nearly as good.
    tables = {"fbd": rows[:25], "prd": rows[25:]}
    worst: dict[str, dict[tuple[str, ...], float]] = {}
    for metric, (names, *choices) in tables.items():
        assert names.split() == [metric, "layer", "pooling", "noise", "mismatch", "permutate", "repeat", "worst"]
        found = [(tuple(row.split()[:3]), [float(value) for value in row.split()[3:]]) for row in choices]
        assert all(values[-1] == min(values) for _, values in found)
        assert [values[-1] for _, values in found] == sorted(values[-1] for _, values in found)
        worst[metric] = {choice: values[-1] for choice, values in found}
    best = max(worst["fbd"].values())
    assert {choice for choice, value in worst["fbd"].items() if value >= best - 0.19} <= worst["prd"].keys()
    assert min(worst["fbd"][choice] for choice in worst["prd"]) >= best - 0.21
    role, layer, pooling = max(worst["prd"], key=lambda choice: min(worst["fbd"][choice], worst["prd"][choice]))
    assert chosen == f"chosen: fbd[role={role},layer={layer},pooling={pooling}]"
