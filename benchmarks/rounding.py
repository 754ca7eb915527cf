"""What int8 does to scores: `python -m benchmarks.rounding [--count 220] [--models PACK] [--metrics LIST]`.

For every metric: the rank correlation of a pack's scores in int8 with those in fp32, how far they lie apart, and how
far scores in int8 move when a text runs alone instead of in a batch, and when every norm inside is off by a millionth,
which is what another processor's order of addition may do.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from scipy.stats import spearmanr

from benchmarks.chats import every_turn
from turnwise.dialogue import Example
from turnwise.engine.answer import answer_requests
from turnwise.engine.local import judge_examples
from turnwise.metrics.registry import load_metric
from turnwise.models.kinds import Model
from turnwise.models.pack import Pack, load_pack

METRICS = "usr-dr-c,usr-mlm,vup,maude"
MILLIONTH = 1e-6


class Nudged(Pack):
    """A pack whose norms are off by a millionth, up or down."""

    def read(self, name: str) -> bytes:
        content = super().read(name)
        if not name.endswith(".onnx"):
            return content
        model, rng = onnx.load_model_from_string(content), np.random.default_rng(0)
        norms = [node for node in model.graph.node if node.op_type == "LayerNormalization"]
        factors = {name for node in norms for name in node.input[1:]}
        for tensor in model.graph.initializer:
            if tensor.name in factors:
                values = numpy_helper.to_array(tensor)
                moved = values * (1 + rng.choice([-MILLIONTH, MILLIONTH], values.shape))
                tensor.CopyFrom(numpy_helper.from_array(moved.astype(np.float32), tensor.name))
        return bytes(model.SerializeToString())


class Alone(Pack):
    """A pack whose every row runs by itself."""

    def model(self, role: str) -> Model:
        model = super().model(role)
        model.budget = 1
        return model


def scores(request: str, examples: Sequence[Example], pack: Pack) -> npt.NDArray[np.float64]:
    """The scores of all examples that have one."""
    metric = load_metric(request)
    judged = judge_examples(examples, {"it": metric}, lambda asked: answer_requests(asked, pack))
    return np.array([one["it"].value for one in judged], dtype=np.float64)


def main() -> None:
    """Measure and print a table."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--count", type=int, default=220)
    options.add_argument("--models", help="a pack's name or folder; the bundled pack when left out")
    options.add_argument("--metrics", default=METRICS)
    asked = options.parse_args()
    folder: Path = load_pack(asked.models).folder
    examples = every_turn(asked.count)
    print("| metric | Spearman with fp32 | apart, mean | most | alone, most | nudged, mean | most |")
    print("|" + " --- |" * 7)
    for request in asked.metrics.split(","):
        exact, rounded = (scores(request, examples, pack) for pack in (Pack(folder), Pack(folder, "int8")))
        apart = np.abs(exact - rounded)
        alone, nudged = (np.abs(rounded - scores(request, examples, kind(folder, "int8"))) for kind in (Alone, Nudged))
        cells = [f"{float(spearmanr(exact, rounded).statistic):.4f}", f"{apart.mean():.4f}", f"{apart.max():.3f}"]
        cells += [f"{alone.max():.1e}", f"{nudged.mean():.4f}", f"{nudged.max():.3f}"]
        print("| " + " | ".join([request, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
